package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"weir/ring"
)

// What no copy knows of counts as lag, until the next beat has carried it over.
func TestReplication(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		nodes := w.together(both, "n1", "n2")
		a, b := nodes[0], nodes[1]
		p, q := owned(t, both, "n1"), owned(t, both, "n2")
		owns := func(n *Cluster) int { return view(both).Owned(n.self.Name) }
		r := rule(t, 3, 300*time.Hour)
		same(t, "at rest", a.Replication(), Replication{Held: owns(a)})
		ask := func(partition uint32, opts Options) { a.Decide(t.Context(), one(check(partition, 1, r)), opts) }

		// settle leaves 15 ms after a beat; changes are dated by the last one.
		ask(p, take)
		same(t, "one taken", a.Replication(), Replication{Lag: 15 * time.Millisecond, Admitted: 1, Held: owns(a)})
		ask(p, peek)
		same(t, "one looked at", a.Replication(), Replication{Lag: 15 * time.Millisecond, Admitted: 1, Held: owns(a)})
		for range 5 {
			ask(p, take) // three of these are refused
		}
		same(t, "more than there is", a.Replication(), Replication{Lag: 15 * time.Millisecond, Admitted: 3, Held: owns(a)})
		ask(q, take) // of n2
		same(t, "at n1 as before", a.Replication(), Replication{Lag: 17 * time.Millisecond, Admitted: 3, Held: owns(a)})
		same(t, "at n2", b.Replication(), Replication{Lag: 17 * time.Millisecond, Admitted: 1, Held: owns(b)})

		time.Sleep(30 * time.Millisecond) // 3 ms before the beat
		same(t, "just before it is sent", a.Replication(), Replication{Lag: 47 * time.Millisecond, Admitted: 3, Held: owns(a)})
		time.Sleep(3*time.Millisecond + hop + hop/2)
		same(t, "under way", a.Replication(), Replication{Lag: 51500 * time.Microsecond, Admitted: 3, Held: owns(a)})
		time.Sleep(hop)
		same(t, "acknowledged", a.Replication(), Replication{Held: owns(a)})
		same(t, "acknowledged to n2", b.Replication(), Replication{Held: owns(b)})

		// While nobody acknowledges it goes up and up.
		w.net.Cut(hostOf("n1"), hostOf("n2"))
		defer w.net.Heal(hostOf("n1"), hostOf("n2"))
		began := time.Now()
		a.Decide(t.Context(), one(check(p, 2, r)), take)
		time.Sleep(80 * time.Millisecond)
		got := a.Replication()
		same(t, "unacknowledged", got.Admitted, 1)
		within(t, "lag", got.Lag, time.Since(began), time.Since(began)+50*time.Millisecond)
	})
}

// What a backup knew that died is known to nobody else from then on, until
// another has all: such partitions are counted, and what is admitted of them.
func TestBackupIsLost(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, seenByA := w.node("n1", both)
		b, _ := w.node("n2", both)
		w.settle(a, b)
		own := view(both).Owned("n1")
		p, q := owned(t, both, "n1"), owned(t, both, "n2")
		r := rule(t, 9, 300*time.Hour)
		ask := func(partition uint32) { a.Decide(t.Context(), one(check(partition, 1, r)), take) }
		ask(p)
		time.Sleep(70 * time.Millisecond)
		same(t, "replicated", a.Replication(), Replication{Held: own})
		ask(p)
		w.net.Crash(hostOf("n2"))
		time.Sleep(time.Second)
		got := a.Replication()
		within(t, "lag", got.Lag, time.Second, 1050*time.Millisecond)
		same(t, "admitted since", got, Replication{Lag: got.Lag, Admitted: 1, Held: own})
		seenByA.set(view("n1:active n2:failed"))
		synctest.Wait()
		ask(p)
		ask(q)
		same(t, "alone", a.Replication(), Replication{Admitted: 3, Bare: ring.Partitions, Held: ring.Partitions})

		c, _ := w.node("n3", "n1:active n3:active")
		seenByA.set(view("n1:active n2:failed n3:active"))
		w.settle(a, c)
		time.Sleep(70 * time.Millisecond)
		same(t, "copied anew", a.Replication(), Replication{Held: view("n1:active n3:active").Owned("n1")})
		same(t, "handed over", c.Replication(), Replication{Held: view("n1:active n3:active").Owned("n3")})
	})
}

// Without backups nothing is replicated, which shows.
func TestWithoutReplicas(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		alone := func(c *Config) { c.Replicas = 0 }
		a, _ := w.node("n1", both, alone)
		b, _ := w.node("n2", both, alone)
		w.settle(a, b)
		a.Decide(t.Context(), one(check(owned(t, both, "n1"), 1, rule(t, 3, time.Hour))), take)
		same(t, "at n1", a.Replication(), Replication{Admitted: 1, Bare: view(both).Owned("n1"), Held: view(both).Owned("n1")})
		same(t, "words copied", a.Stats().KeysMoved.Load(), 0)
	})
}
