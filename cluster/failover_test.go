package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/cluster/holder"
	"weir/ring"
)

// within reports a duration that is not in the bounds.
func within(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %s, want %s to %s", what, got, least, most)
	}
}

// An owner that is gone without a word: its backup takes over and says so once,
// and nothing is forgotten that it has acknowledged.
func TestOwnerCrashes(t *testing.T) {
	for _, c := range []struct {
		name  string
		asker string
		nodes []string
		sees  string
		rest  time.Duration // between the last answers and the crash
		first string
		next  string
		took  time.Duration // of the first call
	}{
		{"asked of the backup", "n1", []string{"n1", "n2"}, both, 70 * time.Millisecond, "+6 degraded", "+5", 0},
		{"asked of a third", "n1", []string{"n1", "n2", "n3"}, three, 70 * time.Millisecond, "+6 degraded", "+5", 2 * hop},
		// What was taken in the last beat no copy knows of: both are given again.
		{"at once", "n1", []string{"n1", "n2"}, both, 0, "+8 degraded", "+7", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				nodes := w.together(c.sees, c.nodes...)
				a, backup := nodes[0], nodes[len(nodes)-1]
				p := owned(t, both, "n2")
				if len(nodes) == 2 {
					backup = a
				} else {
					p = owned(t, three, "n2 n3")
				}
				far := one(check(p, 1, rule(t, 9, 300*time.Hour)))
				same(t, "before", says(a.Decide(t.Context(), far, take)), "+8")
				same(t, "before", says(a.Decide(t.Context(), far, take)), "+7")
				time.Sleep(c.rest)
				w.net.Crash(hostOf("n2"))
				synctest.Wait()

				began := time.Now()
				same(t, "the first", says(a.Decide(t.Context(), far, fall)), c.first)
				same(t, "time of it", time.Since(began), c.took)
				began = time.Now()
				same(t, "the next", says(a.Decide(t.Context(), far, fall)), c.next)
				same(t, "time of it", time.Since(began), c.took)
				same(t, "why", degraded(a), "failover=1")
				same(t, "decided by a backup", a.Stats().Backup.Load(), 2)
				same(t, "taken over", backup.Stats().TakenOver.Load(), 1)
				same(t, "the circuit is open", a.Circuit("n2"), true)
			})
		})
	}
}

// A crashed owner's partitions are all taken over once the view shows it, asked
// for or not, and then nobody is told of it.
func TestViewShowsCrash(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, d := w.node("n1", both)
		b, _ := w.node("n2", both)
		w.settle(a, b)
		p := owned(t, both, "n2")
		far := one(check(p, 1, rule(t, 9, 300*time.Hour)))
		a.Decide(t.Context(), far, take)
		time.Sleep(70 * time.Millisecond)
		w.net.Crash(hostOf("n2"))
		time.Sleep(holder.HeardFor)
		d.set(view("n1:active n2:failed"))
		synctest.Wait()
		same(t, "held", a.Replication().Held, 1021)
		same(t, "taken over", a.Stats().TakenOver.Load(), int64(view(both).Owned("n2")))
		same(t, "after", says(a.Decide(t.Context(), far, take)), "+7")
		same(t, "degraded", degraded(a), "")
		same(t, "backups", a.Stats().Backup.Load(), 0)
	})
}

// Gossip takes a node for dead that others hear: it goes on deciding, alone, and
// everybody finds it.
func TestTakenForDead(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, seenByA := w.node("n1", three)
		b, _ := w.node("n2", three)
		c, seenByC := w.node("n3", three)
		w.settle(a, b, c)
		far := one(check(owned(t, three, "n2 n1"), 1, rule(t, 50, 300*time.Hour)))
		left := 50
		ask := func(what string, nodes ...*Cluster) {
			for _, n := range nodes {
				left--
				same(t, what, says(n.Decide(t.Context(), far, take)), fmt.Sprintf("+%d", left))
			}
		}
		ask("before", a, b, c)
		const without = "n1:active n2:failed n3:active"
		seenByA.set(view(without))
		for range 10 {
			ask("n1 takes it for dead", a, b, c)
			time.Sleep(23 * time.Millisecond)
		}
		seenByC.set(view(without))
		time.Sleep(time.Second)
		ask("so does n3", a, b, c)
		same(t, "taken over", a.Stats().TakenOver.Load()+c.Stats().TakenOver.Load(), 0)
		time.Sleep(70 * time.Millisecond)
		w.net.Crash(hostOf("n2"))
		time.Sleep(200 * time.Millisecond)
		ask("it is", a, c)
		same(t, "taken over", a.Stats().TakenOver.Load() > 0, true)
	})
}

// An owner of whom nothing is heard any more: the first call waits for it, those
// after two beats do not. When the cut heals the two holders become one, and
// each bucket is as full as the fuller of the two.
func TestOwnerIsCutOff(t *testing.T) {
	for _, c := range []struct {
		name  string
		first string // whom the owner hears again first
		left  int    // when all is one again
	}{
		// n2 learns that it holds nothing any more before the call comes that was
		// given up. The five that it had admitted count.
		{"its backup is back first", "n3", 15},
		// The call that was given up has waited in the network, and counts too.
		{"the asker is back first", "n1", 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				nodes := w.together(three, "n1", "n2", "n3")
				n1, n2, n3 := nodes[0], nodes[1], nodes[2]
				far := one(check(owned(t, three, "n2 n3"), 1, rule(t, 20, 300*time.Hour)))
				same(t, "before", says(n1.Decide(t.Context(), far, take)), "+19")
				time.Sleep(70 * time.Millisecond)
				w.net.Cut(hostOf("n1"), hostOf("n2"))
				w.net.Cut(hostOf("n3"), hostOf("n2"))

				same(t, "the circuit", n1.Circuit("n2"), false)
				began := time.Now()
				same(t, "the first", says(n1.Decide(t.Context(), far, take)), "+18 degraded")
				within(t, "time of it", time.Since(began), 100*time.Millisecond, 150*time.Millisecond)
				time.Sleep(2 * holder.Beat)
				same(t, "the circuit", n1.Circuit("n2"), true)
				began = time.Now()
				same(t, "the next", says(n1.Decide(t.Context(), far, take)), "+17")
				same(t, "time of it", time.Since(began), 2*hop)
				same(t, "taken over by n3, which was asked for one", n3.Stats().TakenOver.Load(), 1)

				// The other side goes on as well: nobody there can know.
				for _, want := range []string{"+18", "+17", "+16", "+15"} {
					same(t, "at n2", says(n2.Decide(t.Context(), far, take)), want)
				}
				w.net.Heal(hostOf(c.first), hostOf("n2"))
				time.Sleep(5 * hop)
				for _, n := range []string{"n1", "n3"} {
					w.net.Heal(hostOf(n), hostOf("n2"))
				}
				time.Sleep(holder.Beat)
				w.settle(nodes...)
				for i, n := range nodes {
					want := fmt.Sprintf("+%d", c.left-1-i)
					same(t, "one again, asked of "+n.self.Name, says(n.Decide(t.Context(), far, take)), want)
				}
				same(t, "the circuit", n1.Circuit("n2"), false)
				same(t, "why", degraded(n1), "failover=1")
				same(t, "at n2", degraded(n2), "")
			})
		})
	}
}

// With owner and backup both lost it is a matter of the options: decide here, or
// leave it open. The stages after it too.
func TestOwnerAndBackupAreLost(t *testing.T) {
	const (
		timeout = 100 * time.Millisecond
		five    = three + " n4:active n5:active"
	)
	for _, c := range []struct {
		name     string
		lose     func(*world, string)
		heal     func(*world, string)
		took     time.Duration
		degraded string
	}{
		{"crashed", func(w *world, n string) { w.net.Crash(hostOf(n)) }, func(*world, string) {}, 0, "unavailable=3"},
		{
			"cut off", func(w *world, n string) { w.net.Cut(hostOf("n1"), hostOf(n)) },
			func(w *world, n string) { w.net.Heal(hostOf("n1"), hostOf(n)) }, 2 * timeout, "timeout=3",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				a := w.together(five, "n1", "n2", "n3", "n4", "n5")[0]
				here, there := owned(t, five, "n1"), owned(t, five, "n2 n3")
				r := rule(t, 3, 300*time.Hour)
				far, near := one(check(there, 1, r)), check(here, 2, r)
				same(t, "before", says(a.Decide(t.Context(), far, fall)), "+2")
				time.Sleep(70 * time.Millisecond)
				for _, n := range []string{"n2", "n3"} {
					c.lose(w, n)
					defer c.heal(w, n)
				}
				synctest.Wait()

				began := time.Now()
				same(t, "here", says(a.Decide(t.Context(), far, fall)), "+2 degraded")
				same(t, "time of it", time.Since(began), c.took)
				stages := []Sequence{{{near}, {check(there, 3, r)}, {near}}}
				began = time.Now()
				same(t, "left open", says(a.Decide(t.Context(), stages, take)), "+2 degraded")
				same(t, "time of it", time.Since(began), c.took)
				same(t, "decided here", says(a.Decide(t.Context(), stages, fall)), "+1 +2 +0 degraded")
				same(t, "why", degraded(a), c.degraded)
				// Strays are nobody's buckets.
				same(t, "held", a.LiveBuckets(), 1)
			})
		})
	}
}

// A node that nobody answers decides alone what it does not hold, takes over
// what it has the copy of, and once it is back has not made two holders of one
// for long.
func TestAskerIsCutOff(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		nodes := w.together(three, "n1", "n2", "n3")
		a := nodes[0]
		mine, other := owned(t, three, "n2 n1"), owned(t, three, "n2 n3")
		r := rule(t, 9, 300*time.Hour)
		same(t, "before", says(a.Decide(t.Context(), one(check(mine, 1, r)), take)), "+8")
		same(t, "before", says(a.Decide(t.Context(), one(check(other, 2, r)), take)), "+8")
		time.Sleep(70 * time.Millisecond)
		w.net.Isolate(hostOf("n1"))
		time.Sleep(time.Second)
		same(t, "with a copy", says(a.Decide(t.Context(), one(check(mine, 1, r)), fall)), "+7 degraded")
		same(t, "and then", says(a.Decide(t.Context(), one(check(mine, 1, r)), fall)), "+6")
		same(t, "without", says(a.Decide(t.Context(), one(check(other, 2, r)), fall)), "+8 degraded")
		same(t, "left open", says(a.Decide(t.Context(), one(check(other, 2, r)), take)), "degraded")
		w.net.Reconnect(hostOf("n1"))
		time.Sleep(holder.Beat)
		w.settle(nodes...)
		same(t, "taken there counts", says(a.Decide(t.Context(), one(check(mine, 1, r)), take)), "+5")
	})
}

// A node that takes over by a call counts what it decided alone before, in that
// very call.
func TestDecidedAloneCountsAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		nodes := w.together(three, "n1", "n2", "n3")
		a := nodes[0]
		far := one(check(owned(t, three, "n2 n1"), 1, rule(t, 3, 300*time.Hour)))
		same(t, "before", says(a.Decide(t.Context(), far, take)), "+2")
		time.Sleep(70 * time.Millisecond)
		w.net.Isolate(hostOf("n1"))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		same(t, "too early to take over", says(a.Decide(ctx, far, fall)), "+1 degraded")
		same(t, "taken over", a.Stats().TakenOver.Load(), 0)
		time.Sleep(time.Second)
		same(t, "as the holder", says(a.Decide(t.Context(), far, fall)), "+0 degraded")
		same(t, "taken over", a.Stats().TakenOver.Load(), 1)
		w.net.Reconnect(hostOf("n1"))
	})
}

// Buckets in every partition, a crash among nodes that gossip: whoever is asked,
// all is as it was, and each partition says once that it was taken over.
func TestCrashKeepsWords(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		n1, n2, n3 := w.full("n1", 1), w.full("n2", 1, "n1"), w.full("n3", 1, "n1")
		w.awaitAll(3, n1, n2, n3)
		w.settle(n1.Cluster, n2.Cluster, n3.Cluster)
		r := rule(t, 9, 300*time.Hour)
		all := make([]Sequence, ring.Partitions)
		for p := range all {
			all[p] = one(check(uint32(p), 1, r))[0]
		}
		ask := func(n *full, want, orDegraded string) (degraded int) {
			for p, out := range n.Decide(t.Context(), all, take) {
				switch got := says([]Outcome{out}); {
				case got == orDegraded:
					degraded++
				case got != want:
					t.Fatalf("partition %d: %q, want %q", p, got, want)
				}
			}
			return degraded
		}
		same(t, "degraded before", ask(n1, "+8", "none"), 0)
		time.Sleep(3 * holder.Beat) // the copies have it
		lost := n1.View().Owned("n3")
		w.crash(n3)
		same(t, "degraded first", ask(n1, "+7", "+7 degraded"), lost)
		same(t, "degraded then", ask(n2, "+6", "none"), 0)
		same(t, "taken over", n1.Stats().TakenOver.Load()+n2.Stats().TakenOver.Load(), int64(lost))
		w.awaitAll(2, n1, n2)
		w.settle(n1.Cluster, n2.Cluster)
		same(t, "degraded by two", ask(n1, "+5", "none"), 0)
		same(t, "degraded by two", ask(n2, "+4", "none"), 0)
	})
}

// Two nodes that die at once and are started again at once, by their names, are
// not waited for as those they were: what only they held opens when all others
// have answered.
func TestTwoReturnAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		nodes := []*full{w.full("n1", 1)}
		for i := 2; i <= 5; i++ {
			nodes = append(nodes, w.full(fmt.Sprintf("n%d", i), 1, "n1"))
		}
		w.awaitAll(5, nodes...)
		clusters := make([]*Cluster, len(nodes))
		for i, n := range nodes {
			clusters[i] = n.Cluster
		}
		w.settle(clusters...)
		w.crash(nodes[1])
		w.crash(nodes[3])
		began := time.Now()
		var starting sync.WaitGroup
		for _, name := range []string{"n2", "n4"} {
			starting.Go(func() { w.full(name, 2, "n1", "n3", "n5") })
		}
		starting.Wait()
		within(t, "both have their own", time.Since(began), 0, time.Second)
	})
}
