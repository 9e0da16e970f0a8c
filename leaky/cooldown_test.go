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
	if next, _ := brief.Take(word, t0+3*second, 1); next != word {
		t.Errorf("a shorter one: %d, want %d", next, word)
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
// after, also at the same instant, and however the clock reads.
func TestGroup(t *testing.T) {
	cooldown := mustRule(t, leaky.Cooldown, 1, time.Hour)
	group := mustRule(t, leaky.Group, 1, leaky.MaxWindow)
	rapid.Check(t, func(t *rapid.T) {
		now, groupWord := t0, leaky.Word(0)
		words, since := [3]leaky.Word{}, [3]int64{} // since when each waits; 0: it does not
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.SampledFrom([]int64{0, 0, 1000, second, 1800 * second, -2000}).Draw(t, "step")
			i := rapid.IntRange(0, 2).Draw(t, "member")
			switch rapid.SampledFrom([]string{"take", "take", "clear", "lower"}).Draw(t, "op") {
			case "take":
				old := leaky.Since(words[i], groupWord, now)
				next, got := cooldown.Take(old, now, 1)
				waits := since[i] != 0 && now < since[i]+3600*second
				if got.Allowed == waits {
					t.Fatalf("member %d waits: %t, got %+v", i, waits, got)
				}
				if got.Allowed {
					words[i], since[i] = leaky.Marked(next, groupWord, now), now
				}
			case "clear":
				groupWord, since = group.Lower(groupWord, now, 1), [3]int64{}
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
		wait := leaky.Marked(leaky.Word(t0+second), word, t0)
		if leaky.Since(wait, word, t0) != wait || leaky.Since(wait, next, t0) != 0 {
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
