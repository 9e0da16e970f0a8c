package holder

import (
	"fmt"
	"testing"
	"time"
)

// One failure at a time, as an operator knows it: no call fails, whoever is
// asked, and what is admitted too much is what was not known elsewhere.
func TestSingleFailures(t *testing.T) {
	const each = 40
	for _, c := range []struct {
		what string
		long int64
	}{{"crash", 0}, {"hang", 10_000}, {"hang", 300}, {"slow", 4000}} {
		for _, members := range []int{3, 5} {
			t.Run(fmt.Sprintf("%s %dms of %d", c.what, c.long, members), func(t *testing.T) {
				var total sum
				for seed := range uint64(each) {
					s := schedule{seed: seed, members: members, class: c.what, changes: []change{{at: 300, what: c.what, who: int(seed), long: c.long}}}
					w := play(s, false)
					for _, f := range w.faults {
						t.Errorf("%s: %s", s, f)
					}
					if w.failed > 0 {
						t.Errorf("%s: %d of %d calls failed", s, w.failed, w.calls)
					}
					total.add(w)
				}
				t.Logf("%d calls, %d failed, %d degraded, slowest %s, %d admitted above a limit, %d of one bucket",
					total.calls, total.failed, total.degraded, time.Duration(total.slowest), total.extra, total.worst)
				// A forward timeout and half another, and 12 ms each way for a message.
				if most := (100 + 50 + 2*12) * ms; c.what != "slow" && total.slowest > most {
					t.Errorf("a call took %s, at most %s", time.Duration(total.slowest), time.Duration(most))
				}
			})
		}
	}
}

// Schedules in which millions of random ones have once found a fault: a member
// restarts twice while others restart and join, and a call is passed on from one
// that was the holder to the next.
func TestFoundSchedules(t *testing.T) {
	for _, seed := range []uint64{30925477} {
		s := random(seed)
		for _, f := range play(s, false).faults {
			t.Errorf("%s: %s", s, f)
		}
	}
}
