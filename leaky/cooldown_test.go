package leaky_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/leaky"
)

// Eight seconds' wait, taken at t0 and asked at seconds from it. The answers are
// those of the costs 0, 1 and 2.
func TestCooldownAnswers(t *testing.T) {
	rule := mustRule(t, leaky.Cooldown, 1, 8*time.Second)
	for _, c := range []struct {
		taken      bool
		at         int64
		look, take [3]leaky.Result
	}{
		{false, 0, [3]leaky.Result{yes(1, 0), yes(1, 0), never(1, 0)}, [3]leaky.Result{yes(1, 0), yes(0, 8), never(1, 0)}},
		{true, 0, [3]leaky.Result{yes(0, 8), no(0, 8, 8), never(0, 8)}, [3]leaky.Result{yes(0, 8), no(0, 8, 8), never(0, 8)}},
		{true, 5, [3]leaky.Result{yes(0, 3), no(0, 3, 3), never(0, 3)}, [3]leaky.Result{yes(0, 3), no(0, 3, 3), never(0, 3)}},
		{true, 8, [3]leaky.Result{yes(1, 0), yes(1, 0), never(1, 0)}, [3]leaky.Result{yes(1, 0), yes(0, 8), never(1, 0)}},
		{true, -3, [3]leaky.Result{yes(0, 8), no(0, 8, 8), never(0, 8)}, [3]leaky.Result{yes(0, 8), no(0, 8, 8), never(0, 8)}},
	} {
		word := leaky.Word(0)
		if c.taken {
			word, _ = rule.Take(word, t0, 1)
		}
		now := t0 + c.at*second
		for cost := range int64(3) {
			if got := rule.Look(word, now, cost); got != c.look[cost] {
				t.Errorf("taken %t, at %d s: look %d: %+v, want %+v", c.taken, c.at, cost, got, c.look[cost])
			}
			next, got := rule.Take(word, now, cost)
			if got != c.take[cost] {
				t.Errorf("taken %t, at %d s: take %d: %+v, want %+v", c.taken, c.at, cost, got, c.take[cost])
			}
			if spends := cost == 1 && got.Allowed; !spends && next != word {
				t.Errorf("taken %t, at %d s: take %d wrote %d over %d", c.taken, c.at, cost, next, word)
			}
		}
	}
}

// A start is never refused, begins the wait anew, and never shortens one.
func TestCooldownStart(t *testing.T) {
	cooldown := mustRule(t, leaky.Cooldown, 1, 8*time.Second)
	long := mustRule(t, leaky.Cooldown, 1, leaky.MaxWindow)
	start := mustRule(t, leaky.CooldownStart, 1, 8*time.Second)
	word, got := start.Take(0, t0, 1)
	if want := yes(0, 8); got != want || cooldown.Look(word, t0, 1) != no(0, 8, 8) {
		t.Errorf("started: %+v, then %+v", got, cooldown.Look(word, t0, 1))
	}
	if got := start.Look(word, t0+3*second, 1); got != yes(0, 5) {
		t.Errorf("a look at it: %+v", got)
	}
	word, got = start.Take(word, t0+3*second, 1)
	if want := yes(0, 8); got != want || cooldown.Look(word, t0+10*second, 1) != no(0, 1, 1) {
		t.Errorf("started again: %+v, then %+v", got, cooldown.Look(word, t0+10*second, 1))
	}
	brief := mustRule(t, leaky.CooldownStart, 1, time.Second)
	if next, got := brief.Take(word, t0+3*second, 1); next != word || got != yes(0, 8) {
		t.Errorf("a shorter one: %d, want %d; it says %+v", next, word, got)
	}
	if got := long.Look(word, t0+10*second, 1); got != no(0, 1, 1) {
		t.Errorf("by a rule that may wait for a year: %+v", got)
	}
	if got := start.Lower(word, t0+3*second, 1); got != 0 {
		t.Errorf("given back: %d", got)
	}
	if got := start.Lower(word, t0+3*second, 0); got != word {
		t.Errorf("nothing given back: %d, want %d", got, word)
	}
}

// Clearing a group ends every wait that began before, and none that begins
// after, also at the same instant. A member may belong to two groups.
func TestGroups(t *testing.T) {
	cooldown := mustRule(t, leaky.Cooldown, 1, time.Hour)
	group := mustRule(t, leaky.Group, 1, leaky.MaxWindow)
	rapid.Check(t, func(t *rapid.T) {
		now := t0
		var all leaky.Word // the group of all members
		var own, words [3]leaky.Word
		var since [3]int64 // since when each waits; 0: it does not
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.SampledFrom([]int64{0, 0, 1000, second, 1800 * second}).Draw(t, "step")
			i := rapid.IntRange(0, 2).Draw(t, "member")
			clears := leaky.Clears{}.And(all, now).And(own[i], now)
			switch rapid.SampledFrom([]string{"take", "take", "take", "clear all", "clear one", "lower"}).Draw(t, "op") {
			case "take":
				next, got := cooldown.Take(cooldown.Since(words[i], clears), now, 1)
				waits := since[i] != 0 && now < since[i]+3600*second
				if got.Allowed == waits {
					t.Fatalf("member %d waits: %t, got %+v", i, waits, got)
				}
				if got.Allowed {
					if next = cooldown.After(next, clears); next < words[i] {
						t.Fatalf("the word falls from %d to %d", words[i], next)
					}
					words[i], since[i] = next, now
				}
			case "clear all":
				all, since = group.Lower(all, now, 1), [3]int64{}
			case "clear one":
				own[i], since[i] = group.Lower(own[i], now, 1), 0
			case "lower":
				words[i], since[i] = cooldown.Lower(words[i], now, 1), 0
			}
		}
	})
	// A thousand clears in one instant are each a clear, and the word holds for
	// as long as the longest wait.
	word := leaky.Word(0)
	for i := range 2500 {
		next := group.Lower(word, t0, 1)
		before, after := leaky.Clears{}.And(word, t0), leaky.Clears{}.And(next, t0)
		wait := cooldown.After(leaky.Word(t0+3600*second), before)
		if cooldown.Since(wait, before) != wait || cooldown.Since(wait, after) != 0 || next <= word {
			t.Fatalf("clear %d does not end the wait before it alone", i)
		}
		word = next
	}
	if leaky.Expired(word, t0+int64(leaky.MaxWindow)-1) || !leaky.Expired(word, t0+int64(leaky.MaxWindow)+second) {
		t.Errorf("it ends at %d", word)
	}
	for cost, want := range []leaky.Result{yes(1, 0), yes(1, 0), never(1, 0)} {
		if got := group.Look(word, t0, int64(cost)); got != want {
			t.Errorf("look %d: %+v, want %+v", cost, got, want)
		}
		if next, got := group.Take(word, t0, int64(cost)); got != want || next != word {
			t.Errorf("take %d: %+v, want %+v", cost, got, want)
		}
	}
}

// By a clock that reads earlier than a clear did, a wait still begins after it.
func TestWaitsWhileTheClockIsBack(t *testing.T) {
	cooldown := mustRule(t, leaky.Cooldown, 1, time.Hour)
	clears := leaky.Clears{}.And(mustRule(t, leaky.Group, 1, leaky.MaxWindow).Lower(0, t0, 1), t0)
	word, _ := cooldown.Take(0, t0-second, 1)
	word = cooldown.After(word, clears)
	if got := cooldown.Look(cooldown.Since(word, clears), t0-second, 1); got != no(0, 3600, 3600) {
		t.Errorf("at once: %+v", got)
	}
	if got := cooldown.Look(cooldown.Since(word, clears), t0+3599*second, 1); got != no(0, 1, 1) {
		t.Errorf("later: %+v", got)
	}
}

// Two sides of a split clear and wait by themselves, and are merged by maximum: no
// wait is lost that began after both clears, and none goes on that began before
// the later one.
func TestGroupsMerge(t *testing.T) {
	cooldown := mustRule(t, leaky.Cooldown, 1, time.Hour)
	group := mustRule(t, leaky.Group, 1, leaky.MaxWindow)
	begun := func(at int64, clears leaky.Word) leaky.Word {
		word, _ := cooldown.Take(0, at, 1)
		return cooldown.After(word, leaky.Clears{}.And(clears, at))
	}
	a := group.Lower(0, t0, 1)
	b := group.Lower(0, t0+10*second, 1)
	merged := leaky.Clears{}.And(leaky.Merge(a, b), t0+20*second)
	for _, c := range []struct {
		what  string
		word  leaky.Word
		lives bool
	}{
		{"before both", begun(t0-second, 0), false},
		{"of one side, before the other's clear", begun(t0+second, a), false},
		{"of one side, after the other's clear", begun(t0+12*second, a), true},
		{"after both", begun(t0+12*second, b), true},
		{"of both sides", leaky.Merge(begun(t0-second, 0), begun(t0+12*second, b)), true},
	} {
		if lives := cooldown.Since(c.word, merged) != 0; lives != c.lives {
			t.Errorf("%s: lives %t", c.what, lives)
		}
	}
}
