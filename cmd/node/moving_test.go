package main

import (
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// movingKeys is how many buckets there are while nodes are killed; a soak asks
// for more.
func movingKeys(t *testing.T) int {
	text := os.Getenv("WEIR_TEST_KEYS")
	if text == "" {
		return 100_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("WEIR_TEST_KEYS: %v", err)
	}
	return n
}

// Nodes are killed in the middle of a hand-over: one that gives, then one that
// receives. The cluster settles, and no bucket is refilled: all that was asked
// for was known to the backups.
func TestKilledWhileMoving(t *testing.T) {
	f := newFleet(t, 3)
	all := movingKeys(t)
	f.fill(0, all)
	eventually(t, "backups know", func() bool { return f.agree(3, 1, 2, 3) && f.copied(1, 2, 3) })
	before := f.census(0, all)
	for _, c := range []struct {
		side        string
		joins, dies int
		asked       int // who is seen to give
		rest        []int
	}{
		{"sender", 4, 2, 2, []int{1, 3, 4}},
		{"receiver", 2, 2, 1, []int{1, 3, 4}},
	} {
		joined := startBehind(t, nil, nil, f.net.flags(c.joins, append([]string{"--join", f.net.at(1, 7946)}, f.args...)...)...)
		eventually(t, "partitions move", func() bool {
			now, ok := f.cluster(c.asked)
			return ok && now.Transfers.Moving > 0
		})
		dies := joined
		if c.joins != c.dies {
			dies = f.hide(c.dies)
			f.mu.Lock()
			f.daemons[c.joins] = joined
			f.mu.Unlock()
		}
		if err := dies.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		eventually(t, "the cluster settles", func() bool { return f.agree(3, c.rest...) && f.copied(c.rest...) && f.ready(c.rest...) })
		refilled := f.refilled(0, before)
		t.Logf("the %s killed: settled after %s, %d of %d buckets are refilled", c.side, time.Since(began).Round(time.Millisecond), refilled, all)
		if refilled > 0 {
			t.Errorf("%d of %d buckets are refilled", refilled, all)
		}
	}
}

// batch is how many decisions one call of a test asks for: few enough that a busy
// machine answers within the forward timeout.
const batch = 100

// fill takes one unit of every item in [from, to), by several callers. On a busy
// machine some may be degraded, and take another or none: see census.
func (f *fleet) fill(from, to int) {
	f.t.Helper()
	const callers = 4
	var filling sync.WaitGroup
	share := (to - from + callers - 1) / callers
	for i := from; i < to; i += share {
		filling.Go(func() {
			for first := i; first < min(i+share, to); first += batch {
				var items []int
				for k := first; k < min(first+batch, i+share, to); k++ {
					items = append(items, k)
				}
				if _, err := f.ask(f.any(), false, items...); err != nil {
					f.t.Error(err)
					return
				}
			}
		})
	}
	filling.Wait()
}

// census returns what every item in [from, to) has left.
func (f *fleet) census(from, to int) []int64 {
	f.t.Helper()
	left := make([]int64, 0, to-from)
	for first := from; first < to; first += batch {
		var items []int
		for i := first; i < min(first+batch, to); i++ {
			items = append(items, i)
		}
		var out []answered
		eventually(f.t, "a look is not degraded", func() bool {
			var err error
			if out, err = f.ask(f.any(), true, items...); err != nil {
				f.t.Fatal(err)
			}
			return !slices.ContainsFunc(out, func(a answered) bool { return a.Degraded })
		})
		for _, a := range out {
			left = append(left, a.Buckets[0].Remaining)
		}
	}
	return left
}

// refilled returns how many items, of those from that one on, have more left than
// in a census before.
func (f *fleet) refilled(from int, before []int64) (n int) {
	f.t.Helper()
	for i, left := range f.census(from, from+len(before)) {
		if left > before[i] {
			n++
		}
	}
	return n
}

// ready reports whether the nodes say that traffic may be sent to them.
func (f *fleet) ready(nodes ...int) bool {
	for _, node := range nodes {
		if status, _ := get(f.t, "http://"+f.net.at(node, 8080)+"/readyz"); status != http.StatusOK {
			return false
		}
	}
	return true
}
