package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/cluster/holder"
	"weir/ring"
)

// Gossip, node-to-node calls and decisions together: nodes join, one crashes,
// one returns, one leaves, and whichever is asked the answer is that of one
// cluster.
func TestClusterLives(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		n1 := w.full("n1", 1)
		n2 := w.full("n2", 1, "n1")
		n3 := w.full("n3", 1, "n1")
		w.awaitAll(3, n1, n2, n3)

		// One bucket in each partition, asked for at another node each time.
		nodes := []*full{n1, n2, n3}
		r := rule(t, 2, time.Hour)
		all := func(round int) []Sequence {
			sequences := make([]Sequence, ring.Partitions)
			for p := range sequences {
				sequences[p] = one(check(uint32(p), uint64(round), r))[0]
			}
			return sequences
		}
		expect := func(what string, want string, outcomes []Outcome) {
			t.Helper()
			for p, out := range outcomes {
				if got := says([]Outcome{out}); got != want {
					t.Fatalf("%s: partition %d: got %q, want %q", what, p, got, want)
				}
			}
		}
		for i, want := range []string{"+1", "+0", "-0"} {
			expect("three nodes", want, nodes[i].Decide(t.Context(), all(1), take))
		}
		held := n1.LiveBuckets() + n2.LiveBuckets() + n3.LiveBuckets()
		same(t, "buckets of all nodes", held, ring.Partitions)
		for _, n := range nodes {
			name := n.config.RPC.Self.Name
			same(t, "buckets of "+name, n.LiveBuckets(), n.View().Owned(name))
			same(t, "degraded at "+name, degraded(n.Cluster), "")
		}

		w.crash(n3)
		w.awaitAll(2, n1, n2)
		for i, want := range []string{"+1", "+0", "-0"} {
			expect("two nodes", want, nodes[i%2].Decide(t.Context(), all(2), take))
		}
		same(t, "degraded at n1", degraded(n1.Cluster), "")

		n3 = w.full("n3", 2, "n1", "n2")
		w.awaitAll(3, n1, n2, n3)
		nodes = []*full{n1, n2, n3}
		for i, want := range []string{"+1", "+0", "-0"} {
			expect("three again", want, nodes[(i+2)%3].Decide(t.Context(), all(3), take))
		}

		// Who leaves still answers for all, and owns nothing.
		n2.ring.SetState(ring.Leaving)
		w.awaitAll(2, n1, n2, n3)
		expect("asked of the one who leaves", "+1", n2.Decide(t.Context(), all(4), take))
		expect("asked of another", "+0", n3.Decide(t.Context(), all(4), take))
		same(t, "owned by the one who leaves", n2.View().Owned("n2"), 0)
		if err := n2.ring.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		n2.stop()
		expect("when it is gone", "-0", n1.Decide(t.Context(), all(4), take))
		for _, n := range []*full{n1, n3} {
			same(t, "degraded at last", degraded(n.Cluster), "")
		}
	})
}

// Callers at two nodes while a third joins and leaves. Until all have heard,
// two nodes may each take the other for an owner; that is the only reason why a
// decision may be left open, and it passes.
func TestDecisionsWhileMembersChange(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		n1 := w.full("n1", 1)
		n2 := w.full("n2", 1, "n1")
		w.awaitAll(2, n1, n2)
		var callers sync.WaitGroup
		done := make(chan struct{})
		var open, asked atomic.Int64
		r := rule(t, 1_000_000, time.Hour)
		for c, n := range []*full{n1, n2, n1, n2} {
			callers.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-done:
						return
					default:
					}
					p := uint32((i*7 + c) % ring.Partitions)
					out := n.Decide(t.Context(), one(check(p, 1, r)), take)[0]
					asked.Add(1)
					if out.Degraded || len(out.Results) != 1 {
						open.Add(1)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		n3 := w.full("n3", 1, "n1")
		w.awaitAll(3, n1, n2, n3)
		n3.ring.SetState(ring.Leaving)
		w.awaitAll(2, n1, n2, n3)
		time.Sleep(time.Second)
		if err := n3.ring.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		n3.stop()
		settled := open.Load()
		time.Sleep(time.Second)
		close(done)
		callers.Wait()
		same(t, "left open at last", open.Load(), settled)
		for _, n := range []*full{n1, n2} {
			for _, reason := range []Reason{ReasonTimeout, ReasonOverloaded, ReasonUnavailable} {
				same(t, reason.String(), n.Stats().Degraded[reason].Load(), 0)
			}
		}
		if settled*100 > asked.Load() {
			t.Errorf("%d of %d decisions were left open", settled, asked.Load())
		}
	})
}

// The first node has no seeds. Killed and started again at once, before anybody
// saw it die, it is found by the first call that meets another run of it.
func TestFirstNodeRestartsAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		n1 := w.full("n1", 1)
		n2 := w.full("n2", 1, "n1")
		w.awaitAll(2, n1, n2)
		r := rule(t, 9, time.Hour)
		far := one(check(owned(t, both, "n1"), 1, r))
		w.settle(n1.Cluster, n2.Cluster)
		same(t, "before", says(n2.Decide(t.Context(), far, fall)), "+8")
		time.Sleep(2 * holder.Beat) // the copy has it
		w.crash(n1)
		n1 = w.full("n1", 2)
		same(t, "asked of another run", says(n2.Decide(t.Context(), far, fall)), "+7")
		began := time.Now()
		w.await("the other run is known", n2, func(v *ring.View) bool {
			m, _ := v.Member("n1")
			return m.Boot == 2 && m.State == ring.Active
		})
		w.awaitAll(2, n1, n2)
		if took := time.Since(began); took > time.Second {
			t.Errorf("known after %s", took)
		}
		same(t, "after", says(n2.Decide(t.Context(), far, take)), "+6")
		w.settle(n1.Cluster, n2.Cluster)
		same(t, "when it has got its own back", says(n1.Decide(t.Context(), far, take)), "+5")
		for _, n := range []*full{n1, n2} {
			same(t, "degraded at "+n.self.Name, degraded(n.Cluster), "")
		}
	})
}

// A bucket that has drained is given back without anybody asking for it, in ten
// seconds.
func TestSweep(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", "n1:active")
		brief, long := rule(t, 1, time.Second), rule(t, 1, time.Hour)
		for p := range uint32(ring.Partitions) {
			a.Decide(t.Context(), one(check(p, 1, brief), check(p, 2, long)), take)
		}
		same(t, "buckets", a.LiveBuckets(), 2*ring.Partitions)
		time.Sleep(time.Second + sweepEvery*sweepParts)
		same(t, "buckets after a sweep", a.LiveBuckets(), ring.Partitions)
	})
}

func TestLiveBucketsOfAll(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		const sees = "n1:active n2:active n3:active n4:failed n5:leaving"
		nodes := w.together(sees, "n1", "n2", "n3", "n5")
		a, b := nodes[0], nodes[1]
		for i := range uint64(3) {
			b.Decide(t.Context(), one(check(owned(t, sees, "n2"), i+1, rule(t, 1, time.Hour))), take)
		}
		a.Decide(t.Context(), one(check(owned(t, sees, "n1"), 1, rule(t, 1, time.Hour))), take)
		w.net.Isolate(hostOf("n3"))
		defer w.net.Reconnect(hostOf("n3"))
		began := time.Now()
		got := a.LiveBucketsOfAll(t.Context()) // without n3, which does not answer
		if want := map[string]int64{"n1": 1, "n2": 3, "n5": 0}; !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		same(t, "time of it, the forward timeout", time.Since(began), 100*time.Millisecond)
	})
}

func TestAwait(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, d := w.node("n1", "n1:active")
		two := func(v *ring.View) bool { return len(v.Members()) == 2 }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Await(ctx, two); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		time.AfterFunc(time.Second, func() { d.set(view(both)) })
		began := time.Now()
		if err := a.Await(t.Context(), two); err != nil {
			t.Error(err)
		}
		same(t, "waited", time.Since(began), time.Second)
	})
}

// A member keeps its client through changes of the others; a new boot or
// address gets a new one, and the old one's calls end.
func TestClientsFollowTheView(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, d := w.node("n1", both)
		b, _ := w.node("n2", both)
		w.settle(a, b)
		connected := func() string {
			s := a.RPC()
			return fmt.Sprintf("%d opened, %d broken", s.Connected.Load(), s.Broken.Load())
		}
		ask := func(sees string) string {
			t.Helper()
			return says(a.Decide(t.Context(), one(check(owned(t, sees, "n2"), 1, rule(t, 9, time.Hour))), take))
		}
		same(t, "first", ask(both), "+8")
		d.set(view(both + " n3:joining"))
		same(t, "with a third", ask(both), "+7")
		same(t, "connections, one for calls and one for messages", connected(), "2 opened, 0 broken")

		time.Sleep(2 * holder.Beat) // the copy here has it
		again := member("n2", ring.Active)
		again.Boot = 2
		d.set(ring.NewView([]ring.Member{member("n1", ring.Active), again}))
		time.Sleep(time.Second)
		// The node at the address is still that of the first boot. By this view
		// that one is gone, so its copy here has taken over with all that it had.
		same(t, "of another boot", ask(both), "+6")
		same(t, "degraded", degraded(a), "")
		if name := d.doubted.Load(); name == nil || *name != "n2" {
			t.Error("the membership has not been told that n2 is another one")
		}
		same(t, "connections, one for calls and one for messages", connected(), "2 opened, 0 broken")
	})
}

// Nodes that limit by different policies are told of once the View shows them.
func TestOtherPolicyIsWarnedOf(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		var log bytes.Buffer // read once nobody writes
		a, d := w.node("n1", both, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		other, failed := member("n2", ring.Active), member("n3", ring.Failed)
		other.Policy, failed.Policy = "another", "third"
		d.set(ring.NewView([]ring.Member{member("n1", ring.Active), other, failed}))
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		says := log.String()
		if strings.Count(says, "\n") != 1 || !strings.Contains(says, "a member has another policy") || !strings.Contains(says, "peer=n2") {
			t.Errorf("the log says %q", says)
		}
	})
}

func TestCloseTwice(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", "n1:active")
		for range 2 {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
