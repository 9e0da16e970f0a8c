package leaky_test

import (
	"testing"
	"time"

	"weir/leaky"
)

// Three of five spent and given back one by one: each single unit counts. The
// delays are those of one second per unit for a bucket, and of the untouched
// end for the others.
func TestLowerByOne(t *testing.T) {
	for _, c := range []struct {
		kind leaky.Kind
		want [3]leaky.Result
	}{
		{leaky.Bucket, [3]leaky.Result{yes(3, 2), yes(4, 1), yes(5, 0)}},
		{leaky.Quota, [3]leaky.Result{yes(3, 5), yes(4, 5), yes(5, 0)}},
		{leaky.Lockout, [3]leaky.Result{yes(3, 5), yes(4, 5), yes(5, 0)}},
	} {
		rule := mustRule(t, c.kind, 5, 5*time.Second)
		word, _ := rule.Take(0, t0, 3)
		for i, want := range c.want {
			word = rule.Lower(word, t0, 1)
			if got := rule.Look(word, t0, 1); got != want {
				t.Errorf("%s, %d given back: %+v, want %+v", c.kind, i+1, got, want)
			}
		}
		if word != 0 {
			t.Errorf("%s, all given back: word %d, want none", c.kind, word)
		}
	}
}

// One unit given back to an exhausted rule lets exactly one through.
func TestLowerByOneReopensForOne(t *testing.T) {
	for _, kind := range []leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout} {
		rule := mustRule(t, kind, 5, 5*time.Second)
		word, _ := rule.Take(0, t0, 5)
		word, got := rule.Take(rule.Lower(word, t0, 1), t0, 1)
		if got != yes(0, 5) {
			t.Errorf("%s, one given back: %+v", kind, got)
		}
		if _, got := rule.Take(word, t0, 1); got.Allowed {
			t.Errorf("%s, one given back: a second was admitted", kind)
		}
	}
}

// Lowering nothing writes nothing, also when the clock has gone back or when
// the limit was cut below what is spent.
func TestLowerByNothing(t *testing.T) {
	for _, kind := range []leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout} {
		word, _ := mustRule(t, kind, 8, 8*time.Second).Take(0, t0, 8)
		for _, limit := range []int64{8, 4} {
			rule := mustRule(t, kind, limit, 8*time.Second)
			for _, units := range []int64{0, -1} {
				for _, now := range []int64{t0, t0 - 2*second} {
					if got := rule.Lower(word, now, units); got != word {
						t.Errorf("%s, limit %d, %d given back at %d: word %d, was %d", kind, limit, units, now, got, word)
					}
				}
			}
		}
	}
}

// A word that has ended is lowered to none, even by nothing.
func TestLowerOfWhatHasEnded(t *testing.T) {
	for _, kind := range []leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout} {
		rule := mustRule(t, kind, 5, 5*time.Second)
		word, _ := rule.Take(0, t0, 5)
		for _, units := range []int64{0, 1, 5} {
			if got := rule.Lower(word, t0+5*second, units); got != 0 {
				t.Errorf("%s, %d given back at the end: word %d, want none", kind, units, got)
			}
		}
	}
}

// The instant of a word is the first at which it means nothing.
func TestExpiredFromTheInstantOn(t *testing.T) {
	for _, word := range []leaky.Word{1, 512, 513, leaky.Word(t0), leaky.Word(t0 + 511)} {
		for _, c := range []struct {
			now  int64
			want bool
		}{
			{int64(word) - 1, false},
			{int64(word), true},
			{int64(word) + 1, true},
		} {
			if got := leaky.Expired(word, c.now); got != c.want {
				t.Errorf("word %d at %d: expired %v, want %v", word, c.now, got, c.want)
			}
		}
	}
	if !leaky.Expired(0, 1) {
		t.Error("no word at all is not expired")
	}
}

// One per window: shut until the window has passed, and open then. Counting
// kinds read the clock in whole microseconds, so between two of them it may open
// by less than one too early, and never too late.
func TestCountingReopensWhenTheWindowHasPassed(t *testing.T) {
	const microsecond = int64(time.Microsecond)
	for _, c := range []struct {
		kind   leaky.Kind
		window time.Duration
	}{
		{leaky.Quota, 5 * time.Minute},
		{leaky.Quota, time.Millisecond},
		{leaky.Lockout, 5 * time.Minute},
		{leaky.Lockout, time.Millisecond},
	} {
		rule := mustRule(t, c.kind, 1, c.window)
		window := int64(c.window)
		for _, off := range []int64{0, microsecond, 166 * microsecond, 999_999 * microsecond, 1, 255, 999} {
			taken := t0 + off
			word, got := rule.Take(0, taken, 1)
			if !got.Allowed || got.Remaining != 0 {
				t.Fatalf("%s per %s at t0+%d: %+v", c.kind, c.window, off, got)
			}
			shut := func(after int64) {
				t.Helper()
				// A table may drop what has expired, so that must not come early either.
				if rule.Look(word, taken+after, 1).Allowed || leaky.Expired(word, taken+after) {
					t.Fatalf("%s per %s at t0+%d: open %d ns after it", c.kind, c.window, off, after)
				}
				if _, got := rule.Take(word, taken+after, 1); got.Allowed || got.RetryAfter <= 0 {
					t.Fatalf("%s per %s at t0+%d: %d ns after it: %+v", c.kind, c.window, off, after, got)
				}
			}
			for after := int64(0); after < window; after += window / 1000 {
				shut(after)
			}
			shut(window - microsecond)
			if got := rule.Look(word, taken+window, 1); !got.Allowed || got.Remaining != 1 {
				t.Errorf("%s per %s at t0+%d: still shut after the window: %+v", c.kind, c.window, off, got)
			}
		}
	}
}

// On a clock of whole microseconds a window ends on the microsecond.
func TestCountingIsExactOnMicroseconds(t *testing.T) {
	for _, kind := range []leaky.Kind{leaky.Quota, leaky.Lockout} {
		rule := mustRule(t, kind, 1, 300*time.Second)
		word, got := rule.Take(0, t0, 1)
		if got != yes(0, 300) {
			t.Errorf("%s: taken: %+v", kind, got)
		}
		if got := rule.Look(word, t0+299*second, 1); got != no(0, 1, 1) {
			t.Errorf("%s: a second early: %+v", kind, got)
		}
		if rule.Look(word, t0+300*second-1000, 1).Allowed {
			t.Errorf("%s: open a microsecond early", kind)
		}
		if got := rule.Look(word, t0+300*second, 1); got != yes(1, 0) {
			t.Errorf("%s: at the end: %+v", kind, got)
		}
	}
}
