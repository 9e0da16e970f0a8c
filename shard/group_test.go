package shard_test

import (
	"testing"
	"time"

	"weir/leaky"
	"weir/shard"
)

// Lowering a group's word ends the waits of its members alone; one that begins
// after, at the same instant, goes on. Rebuilds keep what is needed for that.
func TestGroup(t *testing.T) {
	of := func(kind leaky.Kind, window time.Duration) leaky.Rule {
		r, err := leaky.NewRule(kind, 1, window)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	table := shard.NewTable()
	wait := of(leaky.Cooldown, time.Hour)
	member := func(key uint64) leaky.Check {
		return leaky.Check{Fingerprint: key, Rule: wait, Cost: 1, Groups: [2]uint64{9, 10 + key}}
	}
	stranger := leaky.Check{Fingerprint: 3, Rule: wait, Cost: 1}
	clearing := leaky.Check{Fingerprint: 9, Rule: of(leaky.Group, leaky.MaxWindow), Cost: 1}
	allowed := func(what string, c leaky.Check, now int64, want bool) {
		t.Helper()
		if look := table.Look(c, now).Allowed; look != want {
			t.Errorf("%s: look %t, want %t", what, look, want)
		}
		if take := table.Take(c, now).Allowed; take != want {
			t.Errorf("%s: take %t, want %t", what, take, want)
		}
	}
	for round := range 3 {
		now := t0 + int64(round)*8*3600*second
		for _, c := range []leaky.Check{member(1), member(2), stranger} {
			allowed("first", c, now, true)
			allowed("second", c, now, false)
		}
		table.Lower(clearing, now)
		table.Rebuild(now)
		allowed("cleared", member(1), now, true)
		allowed("begun after the clear", member(1), now, false)
		allowed("stranger", stranger, now, false)
		allowed("cleared, later", member(2), now+second, true)
		table.Rebuild(now + second)
		allowed("begun after the clear, later", member(2), now+3600*second, false)
		allowed("waited", member(2), now+3601*second, true)
		table.Lower(member(2), now+3601*second)
		allowed("lowered", member(2), now+3601*second, true)
	}
}
