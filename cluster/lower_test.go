package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
)

var lower = Options{Mode: leaky.Lowering}

// What is given back is given back at the holder, and its copy knows before the
// answer comes: so a crash right after it does not bring the old word back.
func TestLower(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  int // of which node
		took time.Duration
	}{
		{"asked of the owner", 1, 2 * hop},
		{"asked of the backup", 2, 4 * hop},
		{"asked of a third", 0, 4 * hop},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				nodes := w.together(three, "n1", "n2", "n3")
				p := owned(t, three, "n2 n3")
				r := rule(t, 9, 300*time.Hour)
				five := check(p, 1, r)
				five.Cost = 5
				three := check(p, 1, r)
				three.Cost = 3
				same(t, "taken", says(nodes[0].Decide(t.Context(), one(five), take)), "+4")
				time.Sleep(70 * time.Millisecond)
				began := time.Now()
				same(t, "given back", says(nodes[c.ask].Decide(t.Context(), one(three), lower)), "+7")
				same(t, "time of it", time.Since(began), c.took)
				w.net.Crash(hostOf("n2"))
				synctest.Wait()
				same(t, "at the backup", says(nodes[0].Decide(t.Context(), one(check(p, 1, r)), take)), "+6 degraded")
				same(t, "and then", says(nodes[2].Decide(t.Context(), one(check(p, 1, r)), take)), "+5")
			})
		})
	}
}

// Every check of a sequence is lowered, also after one that a take would be
// refused at, and never beyond empty.
func TestLowerAll(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a := w.together(both, "n1", "n2")[0]
		here, there := owned(t, both, "n1"), owned(t, both, "n2")
		r := rule(t, 2, 300*time.Hour)
		s := []Sequence{{{check(here, 1, r), check(here, 2, r)}, {check(there, 3, r)}}}
		same(t, "taken", says(a.Decide(t.Context(), s, take)), "+1 +1 +1")
		same(t, "taken", says(a.Decide(t.Context(), s, take)), "+0 +0 +0")
		same(t, "refused", says(a.Decide(t.Context(), s, take)), "-0")
		same(t, "given back", says(a.Decide(t.Context(), s, lower)), "+1 +1 +1")
		same(t, "given back", says(a.Decide(t.Context(), s, lower)), "+2 +2 +2")
		same(t, "more than there was", says(a.Decide(t.Context(), s, lower)), "+2 +2 +2")
		same(t, "degraded", degraded(a), "")
	})
}

// A backup that does not answer holds the answer up for a bounded time; then it
// says that a failure now would bring the old word back.
func TestLowerWithoutBackup(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		nodes := w.together(both, "n1", "n2")
		w.net.Cut(hostOf("n1"), hostOf("n2"))
		defer w.net.Heal(hostOf("n1"), hostOf("n2"))
		r := rule(t, 9, 300*time.Hour)
		near := one(check(owned(t, both, "n1"), 1, r))
		a := nodes[0]
		same(t, "taken", says(a.Decide(t.Context(), near, take)), "+8")
		began := time.Now()
		same(t, "given back", says(a.Decide(t.Context(), near, lower)), "+9 degraded")
		within(t, "time of it", time.Since(began), 40*time.Millisecond, 50*time.Millisecond)
		same(t, "taken again", says(a.Decide(t.Context(), near, take)), "+8")
	})
}

// Where nobody keeps copies there is nothing to wait for.
func TestLowerWithoutReplicas(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		alone := func(c *Config) { c.Replicas = 0 }
		a, _ := w.node("n1", both, alone)
		b, _ := w.node("n2", both, alone)
		w.settle(a, b)
		r := rule(t, 9, 300*time.Hour)
		near := one(check(owned(t, both, "n1"), 1, r))
		same(t, "taken", says(a.Decide(t.Context(), near, take)), "+8")
		began := time.Now()
		same(t, "given back", says(a.Decide(t.Context(), near, lower)), "+9")
		same(t, "time of it", time.Since(began), 0)
	})
}
