package cluster

import (
	"testing"
	"time"

	"weir/leaky"
	"weir/ring"
)

// Two against one for twenty seconds: each side goes on, a bucket is admitted
// once more by the further side and by nobody else, and after healing there is
// one cluster within five seconds.
func TestSplit(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		n1, n2, n3 := w.full("n1", 1), w.full("n2", 1, "n1"), w.full("n3", 1, "n1")
		w.awaitAll(3, n1, n2, n3)
		w.settle(n1.Cluster, n2.Cluster, n3.Cluster)
		const limit = 3
		r := rule(t, limit, leaky.MaxWindow)
		all := make([]Sequence, ring.Partitions)
		for p := range all {
			all[p] = one(check(uint32(p), 1, r), check(uint32(p), 1, r), check(uint32(p), 1, r))[0]
		}
		admitted := func(n *full) (units []int64) {
			for _, out := range n.Decide(t.Context(), all, take) {
				count := int64(0)
				for _, res := range out.Results {
					if res.Allowed {
						count++
					}
				}
				units = append(units, count)
			}
			return units
		}
		for _, units := range admitted(n1) {
			same(t, "before", units, limit)
		}
		time.Sleep(100 * time.Millisecond)
		for _, other := range []string{"n1", "n2"} {
			w.net.Cut(hostOf("n3"), hostOf(other))
		}
		further := make([]int64, ring.Partitions)
		for range 20 {
			time.Sleep(time.Second)
			for _, n := range []*full{n1, n2} {
				for p, units := range admitted(n) {
					if units > 0 {
						t.Fatalf("the larger side admits %d more of partition %d", units, p)
					}
				}
			}
			for p, units := range admitted(n3) {
				further[p] += units
			}
		}
		extra := int64(0)
		for p, units := range further {
			if units > limit {
				t.Errorf("the further side admits %d of partition %d, limit %d", units, p, limit)
			}
			extra += units
		}
		t.Logf("%d admitted by the further side, of %d partitions with limit %d", extra, ring.Partitions, limit)
		for _, other := range []string{"n1", "n2"} {
			w.net.Heal(hostOf("n3"), hostOf(other))
		}
		healed := time.Now()
		w.awaitAll(3, n1, n2, n3)
		t.Logf("complete %s after healing", time.Since(healed))
		if took := time.Since(healed); took > 5*time.Second {
			t.Errorf("members are complete %s after healing, more than 5 s", took)
		}
		w.settle(n1.Cluster, n2.Cluster, n3.Cluster)
		for _, n := range []*full{n1, n2, n3} {
			for p, units := range admitted(n) {
				if units > 0 {
					t.Errorf("afterwards %d more of partition %d", units, p)
				}
			}
		}
	})
}

// Clocks of the nodes differ by minutes: nobody is locked out or let in when a
// partition moves, or its backup takes over.
func TestClocksDiffer(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		ahead := func(by time.Duration) func(*Config) {
			return func(c *Config) { c.RPC.Clock = func() int64 { return time.Now().Add(by).UnixNano() } }
		}
		a, seenByA := w.node("n1", both)
		b, seenByB := w.node("n2", both, ahead(7*time.Minute))
		w.settle(a, b)
		// Ten an hour: one drains in six minutes, less than the clocks differ by.
		r := rule(t, 10, time.Hour)
		p := owned(t, both, "n1 n2", three, "n3")
		bucket := one(check(p, 1, r))
		for range 10 {
			a.Decide(t.Context(), bucket, take)
		}
		time.Sleep(100 * time.Millisecond)
		c, _ := w.node("n3", three, ahead(-11*time.Minute))
		seenByA.set(view(three))
		seenByB.set(view(three))
		time.Sleep(time.Second)
		w.awaitHolder(c, p)
		refused := func(what string, n *Cluster) {
			t.Helper()
			res := n.Decide(t.Context(), bucket, take)[0].Results[0]
			// At most 2 s have passed, and a round trip of 2 ms may be added each time.
			if within := res.RetryAfter > 6*time.Minute-2*time.Second && res.RetryAfter < 6*time.Minute+10*time.Millisecond; res.Allowed || !within {
				t.Errorf("%s: allowed %v, retry after %s", what, res.Allowed, res.RetryAfter)
			}
		}
		for _, n := range []*Cluster{a, b, c} {
			refused("handed over", n)
		}
		w.net.Crash(hostOf("n3"))
		time.Sleep(200 * time.Millisecond)
		refused("taken over, asked of n1", a)
		refused("taken over, asked of n2", b)
	})
}
