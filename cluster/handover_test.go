package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/cluster/holder"
	"weir/ring"
)

// A node opens nothing as long as a member is silent that may hold it.
func TestAwaitOwn(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", both)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := a.AwaitOwn(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		same(t, "held", a.Replication().Held, 0)
		b, _ := w.node("n2", both)
		began := time.Now()
		for _, n := range []*Cluster{a, b} {
			if err := n.AwaitOwn(t.Context()); err != nil {
				t.Error(err)
			}
			same(t, "held by "+n.self.Name, n.Replication().Held, view(both).Owned(n.self.Name))
		}
		// n1 has failed to connect for long, and pauses for a second now.
		within(t, "time of it", time.Since(began), 0, 1200*time.Millisecond)
		w.settle(a, b)
	})
}

// Who owns nothing by its view, or is alone in it, waits for nobody.
func TestAwaitAtOnce(t *testing.T) {
	for _, sees := range []string{"n1:active", "n1:joining n2:joining", "n1:leaving"} {
		virtually(t, func(t *testing.T, w *world) {
			a, _ := w.node("n1", sees)
			began := time.Now()
			if err := a.AwaitOwn(t.Context()); err != nil {
				t.Error(err)
			}
			same(t, "own, seen: "+sees, time.Since(began), 0)
		})
	}
	virtually(t, func(t *testing.T, w *world) {
		a, d := w.node("n1", "n1:active")
		a.Decide(t.Context(), one(check(7, 1, rule(t, 2, time.Hour))), take)
		d.set(view("n1:leaving"))
		began := time.Now()
		if err := a.AwaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
		within(t, "empty, the last one", time.Since(began), 0, holder.Beat)
	})
}

// While nobody takes what a leaving node has, it is not empty, and decides on.
func TestAwaitEmptyEnds(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, d := w.node("n1", both)
		b, _ := w.node("n2", both)
		w.settle(a, b)
		w.net.Isolate(hostOf("n2"))
		defer w.net.Reconnect(hostOf("n2"))
		d.set(view("n1:leaving n2:active"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := a.AwaitEmpty(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		near := one(check(owned(t, both, "n1"), 1, rule(t, 2, time.Hour)))
		out := a.Decide(t.Context(), near, Options{LocalFallback: true})
		same(t, "what remains", out[0].Results[0].Remaining, 1)
	})
}

// buckets are half used: bucket i has a limit of 2(i%50+1).
type buckets []Sequence

func halfUsed(t *testing.T, n int) buckets {
	all := make(buckets, n)
	for i := range all {
		half := int64(i%50 + 1)
		c := check(uint32(i*7%ring.Partitions), uint64(i+1), rule(t, 2*half, 3000*time.Hour))
		c.Cost = half
		all[i] = one(c)[0]
	}
	return all
}

// are compares what remains in every bucket with the half of it.
func (b buckets) are(t *testing.T, what string, outcomes []Outcome) {
	t.Helper()
	wrong := 0
	for i, out := range outcomes {
		half := int64(i%50 + 1)
		if out.Degraded || len(out.Results) != 1 || !out.Results[0].Allowed || out.Results[0].Remaining != half {
			if wrong++; wrong < 4 {
				t.Errorf("%s: bucket %d of partition %d: %+v, want %d", what, i, b[i][0][0].Partition, out, half)
			}
		}
	}
	if wrong > 0 {
		t.Fatalf("%s: %d of %d are wrong", what, wrong, len(outcomes))
	}
}

// looks is the buckets with no cost: what remains.
func (b buckets) looks() []Sequence {
	all := make([]Sequence, len(b))
	for i, s := range b {
		all[i] = one(lookOf(s[0][0]))[0]
	}
	return all
}

// moved counts the partitions that have another owner in the second view.
func moved(from, to *ring.View) int {
	n := 0
	for p := range uint32(ring.Partitions) {
		before, _ := from.Owner(p)
		after, _ := to.Owner(p)
		if from.Members()[before].Name != to.Members()[after].Name {
			n++
		}
	}
	return n
}

func handedOver(nodes ...*full) (n int) {
	for _, node := range nodes {
		n += int(node.Stats().HandedOver.Load())
	}
	return n
}

// Ten thousand buckets, half used, and callers all the time, while a node joins
// three and another one leaves: no bucket loses a unit or gets one, no answer is
// degraded, and whoever is asked knows all.
func TestWordsSurviveJoinAndLeave(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		n1, n2, n3 := w.full("n1", 1), w.full("n2", 1, "n1"), w.full("n3", 1, "n1")
		w.awaitAll(3, n1, n2, n3)
		w.settle(n1.Cluster, n2.Cluster, n3.Cluster)
		all := halfUsed(t, 10_000)
		all.are(t, "taken", n1.Decide(t.Context(), all, take))

		// Callers at every node, each with buckets of its own in all partitions.
		const limit = 100_000
		r := rule(t, limit, 8000*time.Hour)
		looks := all.looks()
		var callers sync.WaitGroup
		var admitted [3][ring.Partitions]int64
		ofCaller := func(c int) uint64 { return uint64(1_000_000 + c) }
		done := make(chan struct{})
		var asked atomic.Int64
		call := func(c int, n *full) {
			for i := c; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				p := i * 7 % ring.Partitions
				b := i * 13 % len(looks)
				out := n.Decide(t.Context(), []Sequence{one(check(uint32(p), ofCaller(c), r))[0], looks[b]}, take)
				admitted[c][p]++
				asked.Add(1)
				if got, want := says(out), fmt.Sprintf("+%d; +%d", limit-admitted[c][p], b%50+1); got != want {
					t.Errorf("call %d at n%d, partition %d and %d: %q, want %q", i, c+1, p, looks[b][0][0].Partition, got, want)
				}
				time.Sleep(time.Millisecond)
			}
		}
		for c, n := range []*full{n1, n2, n3} {
			callers.Go(func() { call(c, n) })
		}
		time.Sleep(100 * time.Millisecond)

		before, given := n1.View(), handedOver(n1, n2, n3)
		n4 := w.full("n4", 1, "n1")
		w.awaitAll(4, n1, n2, n3, n4)
		w.placed(n1.Cluster, n2.Cluster, n3.Cluster, n4.Cluster)
		same(t, "handed over to who joined", handedOver(n1, n2, n3, n4)-given, moved(before, n1.View()))
		for _, n := range []*full{n1, n2, n3, n4} {
			all.are(t, "after the join, asked of "+n.self.Name, n.Decide(t.Context(), looks, peek))
		}

		n3.ring.SetState(ring.Leaving)
		w.awaitAll(3, n1, n2, n3, n4)
		began := time.Now()
		if err := n3.AwaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
		within(t, "leaving", time.Since(began), 0, 5*time.Second)
		same(t, "buckets of the one that leaves", n3.LiveBuckets(), 0)
		for p := range n3.partitions {
			same(t, "words of the one that leaves", n3.partitions[p].Table().Len(), 0)
		}
		all.are(t, "asked of the one that leaves", n3.Decide(t.Context(), looks, peek))
		time.Sleep(100 * time.Millisecond)
		close(done)
		callers.Wait()
		if err := n3.ring.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		n3.stop()
		w.settle(n1.Cluster, n2.Cluster, n4.Cluster)
		for _, n := range []*full{n1, n2, n4} {
			all.are(t, "after the leave, asked of "+n.self.Name, n.Decide(t.Context(), looks, peek))
			same(t, "taken over by "+n.self.Name, n.Stats().TakenOver.Load(), 0)
		}
		for c := range admitted {
			for p, want := range admitted[c] {
				look := lookOf(check(uint32(p), ofCaller(c), r))
				same(t, fmt.Sprintf("caller %d, partition %d", c, p), n4.Decide(t.Context(), one(look), peek)[0].Results[0].Remaining, limit-want)
			}
		}
		if asked.Load() < 1000 {
			t.Errorf("only %d calls meanwhile", asked.Load())
		}
		for _, n := range []*full{n1, n2, n3, n4} {
			same(t, "degraded at "+n.self.Name, degraded(n.Cluster), "")
		}
	})
}

// One of two leaves. It is not kept until the other has a backup elsewhere: there
// is nobody else.
func TestOneOfTwoLeaves(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, seenByA := w.node("n1", both)
		b, seenByB := w.node("n2", both)
		w.settle(a, b)
		r := rule(t, 9, 300*time.Hour)
		far := one(check(owned(t, both, "n2"), 1, r))
		same(t, "before", says(a.Decide(t.Context(), far, take)), "+8")
		const left = "n1:active n2:leaving"
		seenByA.set(view(left))
		seenByB.set(view(left))
		began := time.Now()
		if err := b.AwaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
		within(t, "time of it", time.Since(began), 0, 500*time.Millisecond)
		same(t, "held by n1", a.Replication().Held, ring.Partitions)
		same(t, "after", says(a.Decide(t.Context(), far, take)), "+7")
	})
}
