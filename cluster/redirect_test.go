package cluster

import (
	"testing"
	"testing/synctest"
	"time"
)

// While views differ, a node that is asked for a partition which it does not
// hold names the holder, and the asker follows that once. Who holds it decides,
// whatever its own view says.
func TestOneRedirect(t *testing.T) {
	const (
		all    = three
		second = "n1:active n2:leaving n3:active"
	)
	type outcome struct{ says, degraded string }
	for _, c := range []struct {
		name       string
		first      string // seen by all at first
		n1, n2, n3 string // seen then
		partition  []string
		holder     int
		want       outcome
		calls      uint64 // that n1 got answers to
		took       time.Duration
	}{
		{"to the third", all, all, second, second, []string{all, "n2", second, "n3"}, 2, outcome{"+4", ""}, 2, 4 * hop},
		{"back to the asker", second, all, second, second, []string{all, "n2", second, "n1"}, 0, outcome{"+4", ""}, 1, 2 * hop},
		// Nobody else wants it, so there is no circle: it stays where it is.
		{"to one who does not want it", all, all, second, all, []string{all, "n2", second, "n3"}, 1, outcome{"+4", ""}, 1, 2 * hop},
		{"to one of whom the asker thinks so too", all, second, all, all, []string{all, "n2", second, "n3"}, 1, outcome{"+4", ""}, 2, 4 * hop},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				nodes, views := make([]*Cluster, 3), make([]*dictated, 3)
				for i, name := range []string{"n1", "n2", "n3"} {
					nodes[i], views[i] = w.node(name, c.first)
				}
				w.settle(nodes...)
				for i, sees := range []string{c.n1, c.n2, c.n3} {
					views[i].set(view(sees))
				}
				time.Sleep(time.Second)
				p := owned(t, c.partition...)
				w.awaitHolder(nodes[c.holder], p)
				a := nodes[0]
				began := time.Now()
				var got string
				calls := answered(a, func() { got = says(a.Decide(t.Context(), one(check(p, 1, rule(t, 5, time.Hour))), take)) })
				same(t, "outcome", outcome{got, degraded(a)}, c.want)
				same(t, "answered calls", calls, c.calls)
				same(t, "time of it", time.Since(began), c.took)
				same(t, "decided by the holder", nodes[c.holder].LiveBuckets(), 1)
			})
		})
	}
}

// Two nodes name each other for a partition that nobody holds nor wants. The
// call ends all the same.
func TestCircle(t *testing.T) {
	const second = "n1:active n2:leaving n3:active"
	for _, c := range []struct {
		name string
		opts Options
		want string
	}{
		{"left open", take, "degraded"},
		{"decided here", fall, "+4 degraded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				a, _ := w.node("n1", three)
				w.node("n2", second)
				w.node("n3", three)
				time.Sleep(time.Second)
				p := owned(t, three, "n2", second, "n3")
				began := time.Now()
				got := a.Decide(t.Context(), one(check(p, 1, rule(t, 5, time.Hour))), c.opts)
				same(t, "outcome", says(got), c.want)
				same(t, "why", degraded(a), "not_owner=1")
				if took := time.Since(began); took > 150*time.Millisecond {
					t.Errorf("took %s, more than a forward timeout and half another", took)
				}
				same(t, "held by n1", a.LiveBuckets(), 0)
			})
		})
	}
}

// Only the parts that moved are asked for again, and each counts once. A holder
// whom the asker does not know yet is asked by whoever has named it.
func TestRedirectOfSome(t *testing.T) {
	const (
		old  = "n2:active n3:active n4:active"
		four = "n1:active " + old
	)
	virtually(t, func(t *testing.T, w *world) {
		b, seenByB := w.node("n2", old)
		c, seenByC := w.node("n3", old)
		e, seenByE := w.node("n4", old)
		w.settle(b, c, e)
		a, seenByA := w.node("n1", three)
		for _, d := range []*dictated{seenByB, seenByC, seenByE} {
			d.set(view(four))
		}
		time.Sleep(time.Second)
		stays := owned(t, old, "n2", three, "n2", four, "n2 n3")
		moves := owned(t, old, "n4", three, "n2 n1", four, "n4")
		asked := owned(t, old, "n4", three, "n2 n3", four, "n4") // of n3 after n2, which finds the holder
		r := rule(t, 5, time.Hour)
		sequences := []Sequence{{{check(stays, 1, r)}}, {{check(moves, 2, r)}}, {{check(stays, 1, r)}}, {{check(asked, 3, r)}}}
		began := time.Now()
		same(t, "with a stranger", says(a.Decide(t.Context(), sequences, take)), "+4; +4; +3; +4")
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("took %s, more than a forward timeout and half another", took)
		}
		same(t, "degraded", degraded(a), "")
		seenByA.set(view(four))
		synctest.Wait()
		same(t, "once it knows n4", says(a.Decide(t.Context(), sequences, take)), "+2; +3; +1; +3")
		same(t, "held by n2", b.LiveBuckets(), 1)
		same(t, "held by n3", c.LiveBuckets(), 0)
		same(t, "held by n4", e.LiveBuckets(), 2)
		w.settle(a, b, c, e)
	})
}

// The owner and the backup have just joined, and know of nobody whom they could
// ask. The asker finds the holder itself.
func TestOwnerAndBackupHaveJustJoined(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		const four = "n1:active n2:active n3:active n4:active"
		two := w.together(both, "n1", "n2")
		p := uint32(0)
		for ; ; p++ {
			v := view(four)
			owner, _ := v.Owner(p)
			backup, _ := v.Backup(p)
			if now, _ := view(both).Owner(p); now == 1 && owner >= 2 && backup >= 2 {
				break // of n2, and then of n3 and n4
			}
		}
		far := one(check(p, 1, rule(t, 9, 300*time.Hour)))
		same(t, "before", says(two[0].Decide(t.Context(), far, take)), "+8")
		w.node("n3", "n3:joining n4:joining")
		w.node("n4", "n3:joining n4:joining")
		two[0].config.Members.(*dictated).set(view(four))
		synctest.Wait()
		began := time.Now()
		same(t, "of the asker", says(two[0].Decide(t.Context(), far, take)), "+7")
		within(t, "time of it", time.Since(began), 4*hop, 20*hop)
		same(t, "why", degraded(two[0]), "")
	})
}
