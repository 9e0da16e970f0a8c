package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
)

// kindRule is a rule of any kind.
func kindRule(t *testing.T, kind leaky.Kind, limit int64, window time.Duration) leaky.Rule {
	t.Helper()
	r, err := leaky.NewRule(kind, limit, window)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// All or nothing: while any check of a stage refuses, none is taken. A check that
// only looks decides with the others and is never charged.
func TestTakingAll(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		whole := Options{Mode: leaky.TakingAll}
		for i, n := range w.together(three, "n1", "n2", "n3") {
			p := owned(t, three, "n2 n3")
			of := func(key uint64, kind leaky.Kind, limit int64) leaky.Check {
				return check(p, uint64(i)*10+key, kindRule(t, kind, limit, 300*time.Hour))
			}
			wide, narrow := of(1, leaky.Bucket, 9), of(2, leaky.Cooldown, 1)
			lockout := of(3, leaky.Lockout, 2)
			looked := lockout
			looked.LookOnly = true
			decide := func(opts Options, checks ...leaky.Check) string {
				return says(n.Decide(t.Context(), one(checks...), opts))
			}
			same(t, "all", decide(whole, wide, looked, narrow), "+8 +2 +0")
			same(t, "the last refuses", decide(whole, wide, looked, narrow), "+8 +2 -0")
			same(t, "nothing was taken", decide(peek, wide, lockout, narrow), "+8 +2 -0")
			same(t, "failures", decide(take, lockout), "+1")
			same(t, "failures", decide(take, lockout), "+0")
			same(t, "locked", decide(whole, wide, looked), "+8 -0")
			same(t, "one by one the first is charged", decide(take, wide, looked), "+7 -0")
			same(t, "given back", decide(lower, lockout, narrow), "+1 +1")
			same(t, "open again", decide(whole, wide, looked, narrow), "+6 +1 +0")
		}
	})
}

// A group that is cleared stays cleared when its owner dies with the answer.
func TestGroupIsCleared(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		nodes := w.together(three, "n1", "n2", "n3")
		p := owned(t, three, "n2 n3")
		member := func(key uint64) []Sequence {
			c := check(p, key, kindRule(t, leaky.Cooldown, 1, 300*time.Hour))
			c.Groups[0] = 9
			return one(c)
		}
		stranger := one(check(p, 3, kindRule(t, leaky.Cooldown, 1, 300*time.Hour)))
		clearing := one(check(p, 9, kindRule(t, leaky.Group, 1, leaky.MaxWindow)))
		for _, s := range [][]Sequence{member(1), member(2), stranger} {
			same(t, "begun", says(nodes[0].Decide(t.Context(), s, take)), "+0")
		}
		time.Sleep(70 * time.Millisecond)
		same(t, "waits", says(nodes[2].Decide(t.Context(), member(1), take)), "-0")
		same(t, "cleared", says(nodes[0].Decide(t.Context(), clearing, lower)), "+1")
		w.net.Crash(hostOf("n2"))
		synctest.Wait()
		same(t, "at the backup", says(nodes[0].Decide(t.Context(), member(1), take)), "+0 degraded")
		same(t, "again", says(nodes[0].Decide(t.Context(), member(1), take)), "-0")
		same(t, "the other one", says(nodes[2].Decide(t.Context(), member(2), take)), "+0")
		same(t, "stranger", says(nodes[2].Decide(t.Context(), stranger, take)), "-0")
		// Who decides alone knows of the group what it has heard.
		w.net.Crash(hostOf("n3"))
		time.Sleep(200 * time.Millisecond)
		alone := Options{LocalFallback: true}
		same(t, "alone", says(nodes[0].Decide(t.Context(), member(1), alone)), "+0 degraded")
		same(t, "alone, again", says(nodes[0].Decide(t.Context(), member(1), alone)), "-0 degraded")
		clearAlone := Options{LocalFallback: true, Mode: leaky.Lowering}
		same(t, "cleared alone", says(nodes[0].Decide(t.Context(), clearing, clearAlone)), "+1 degraded")
		same(t, "alone, cleared", says(nodes[0].Decide(t.Context(), member(1), alone)), "+0 degraded")
	})
}
