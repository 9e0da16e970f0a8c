package leaky_test

import (
	"math"
	"testing"
	"time"

	"weir/leaky"
)

// The answers that the table below spells: delays in whole seconds.
func yes(remaining, reset int64) leaky.Result {
	return leaky.Result{Allowed: true, Remaining: remaining, ResetAfter: time.Duration(reset) * time.Second}
}

func no(remaining, retry, reset int64) leaky.Result {
	return leaky.Result{Remaining: remaining, RetryAfter: time.Duration(retry) * time.Second,
		ResetAfter: time.Duration(reset) * time.Second}
}

func never(remaining, reset int64) leaky.Result {
	return leaky.Result{Never: true, Remaining: remaining, ResetAfter: time.Duration(reset) * time.Second}
}

// answers is what four units per eight seconds say when spent units were taken
// at t0 and the question is asked at seconds from t0. The results are those
// of the costs 0, 1, 2, the limit 4 and 5.
type answers struct {
	kind      leaky.Kind
	spent, at int64
	look      [5]leaky.Result
	take      [5]leaky.Result
}

// Worked out by hand. A unit of the bucket drains in two seconds; a quota ends
// eight seconds after its first unit, a lockout eight after its last failure.
// Asked two seconds before t0, the clock has gone back.
var table = []answers{
	{leaky.Bucket, 0, 0,
		[5]leaky.Result{yes(4, 0), yes(4, 0), yes(4, 0), yes(4, 0), never(4, 0)},
		[5]leaky.Result{yes(4, 0), yes(3, 2), yes(2, 4), yes(0, 8), never(4, 0)}},
	{leaky.Bucket, 2, 0,
		[5]leaky.Result{yes(2, 4), yes(2, 4), yes(2, 4), no(2, 4, 4), never(2, 4)},
		[5]leaky.Result{yes(2, 4), yes(1, 6), yes(0, 8), no(2, 4, 4), never(2, 4)}},
	{leaky.Bucket, 2, 1, // one and a half units are left in it
		[5]leaky.Result{yes(2, 3), yes(2, 3), yes(2, 3), no(2, 3, 3), never(2, 3)},
		[5]leaky.Result{yes(2, 3), yes(1, 5), yes(0, 7), no(2, 3, 3), never(2, 3)}},
	{leaky.Bucket, 2, -2, // what has not drained yet is back
		[5]leaky.Result{yes(1, 6), yes(1, 6), no(1, 2, 6), no(1, 6, 6), never(1, 6)},
		[5]leaky.Result{yes(1, 6), yes(0, 8), no(1, 2, 6), no(1, 6, 6), never(1, 6)}},
	{leaky.Bucket, 4, 0,
		[5]leaky.Result{yes(0, 8), no(0, 2, 8), no(0, 4, 8), no(0, 8, 8), never(0, 8)},
		[5]leaky.Result{yes(0, 8), no(0, 2, 8), no(0, 4, 8), no(0, 8, 8), never(0, 8)}},
	{leaky.Bucket, 4, 1,
		[5]leaky.Result{yes(0, 7), no(0, 1, 7), no(0, 3, 7), no(0, 7, 7), never(0, 7)},
		[5]leaky.Result{yes(0, 7), no(0, 1, 7), no(0, 3, 7), no(0, 7, 7), never(0, 7)}},
	{leaky.Bucket, 4, -2, // never fuller than full
		[5]leaky.Result{yes(0, 8), no(0, 2, 8), no(0, 4, 8), no(0, 8, 8), never(0, 8)},
		[5]leaky.Result{yes(0, 8), no(0, 2, 8), no(0, 4, 8), no(0, 8, 8), never(0, 8)}},

	{leaky.Quota, 0, 0,
		[5]leaky.Result{yes(4, 0), yes(4, 0), yes(4, 0), yes(4, 0), never(4, 0)},
		[5]leaky.Result{yes(4, 0), yes(3, 8), yes(2, 8), yes(0, 8), never(4, 0)}},
	{leaky.Quota, 2, 0,
		[5]leaky.Result{yes(2, 8), yes(2, 8), yes(2, 8), no(2, 8, 8), never(2, 8)},
		[5]leaky.Result{yes(2, 8), yes(1, 8), yes(0, 8), no(2, 8, 8), never(2, 8)}},
	{leaky.Quota, 2, 1, // a later unit does not move the end
		[5]leaky.Result{yes(2, 7), yes(2, 7), yes(2, 7), no(2, 7, 7), never(2, 7)},
		[5]leaky.Result{yes(2, 7), yes(1, 7), yes(0, 7), no(2, 7, 7), never(2, 7)}},
	{leaky.Quota, 2, -2, // no longer than a fresh one
		[5]leaky.Result{yes(2, 8), yes(2, 8), yes(2, 8), no(2, 8, 8), never(2, 8)},
		[5]leaky.Result{yes(2, 8), yes(1, 8), yes(0, 8), no(2, 8, 8), never(2, 8)}},
	{leaky.Quota, 2, 8,
		[5]leaky.Result{yes(4, 0), yes(4, 0), yes(4, 0), yes(4, 0), never(4, 0)},
		[5]leaky.Result{yes(4, 0), yes(3, 8), yes(2, 8), yes(0, 8), never(4, 0)}},
	{leaky.Quota, 4, 0,
		[5]leaky.Result{yes(0, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8), never(0, 8)},
		[5]leaky.Result{yes(0, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8), never(0, 8)}},
	{leaky.Quota, 4, 1,
		[5]leaky.Result{yes(0, 7), no(0, 7, 7), no(0, 7, 7), no(0, 7, 7), never(0, 7)},
		[5]leaky.Result{yes(0, 7), no(0, 7, 7), no(0, 7, 7), no(0, 7, 7), never(0, 7)}},
	{leaky.Quota, 4, -2,
		[5]leaky.Result{yes(0, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8), never(0, 8)},
		[5]leaky.Result{yes(0, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8), never(0, 8)}},

	// A lockout asks only whether it is shut, whatever the number of failures
	// said at once; more than the limit of them are the limit.
	{leaky.Lockout, 0, 0,
		[5]leaky.Result{yes(4, 0), yes(4, 0), yes(4, 0), yes(4, 0), yes(4, 0)},
		[5]leaky.Result{yes(4, 0), yes(3, 8), yes(2, 8), yes(0, 8), yes(0, 8)}},
	{leaky.Lockout, 2, 0,
		[5]leaky.Result{yes(2, 8), yes(2, 8), yes(2, 8), yes(2, 8), yes(2, 8)},
		[5]leaky.Result{yes(2, 8), yes(1, 8), yes(0, 8), yes(0, 8), yes(0, 8)}},
	{leaky.Lockout, 2, 1, // a failure moves the end, cost 0 does not
		[5]leaky.Result{yes(2, 7), yes(2, 7), yes(2, 7), yes(2, 7), yes(2, 7)},
		[5]leaky.Result{yes(2, 7), yes(1, 8), yes(0, 8), yes(0, 8), yes(0, 8)}},
	{leaky.Lockout, 2, -2,
		[5]leaky.Result{yes(2, 8), yes(2, 8), yes(2, 8), yes(2, 8), yes(2, 8)},
		[5]leaky.Result{yes(2, 8), yes(1, 8), yes(0, 8), yes(0, 8), yes(0, 8)}},
	{leaky.Lockout, 2, 8,
		[5]leaky.Result{yes(4, 0), yes(4, 0), yes(4, 0), yes(4, 0), yes(4, 0)},
		[5]leaky.Result{yes(4, 0), yes(3, 8), yes(2, 8), yes(0, 8), yes(0, 8)}},
	{leaky.Lockout, 3, 0, // one left is enough for any cost
		[5]leaky.Result{yes(1, 8), yes(1, 8), yes(1, 8), yes(1, 8), yes(1, 8)},
		[5]leaky.Result{yes(1, 8), yes(0, 8), yes(0, 8), yes(0, 8), yes(0, 8)}},
	{leaky.Lockout, 4, 0,
		[5]leaky.Result{yes(0, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8)},
		[5]leaky.Result{yes(0, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8)}},
	{leaky.Lockout, 4, 1,
		[5]leaky.Result{yes(0, 7), no(0, 7, 7), no(0, 7, 7), no(0, 7, 7), no(0, 7, 7)},
		[5]leaky.Result{yes(0, 7), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8)}},
	{leaky.Lockout, 4, -2,
		[5]leaky.Result{yes(0, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8)},
		[5]leaky.Result{yes(0, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8), no(0, 8, 8)}},
}

func TestAnswers(t *testing.T) {
	for _, c := range table {
		rule := mustRule(t, c.kind, 4, 8*time.Second)
		word, _ := rule.Take(0, t0, c.spent)
		now := t0 + c.at*second
		for i, cost := range []int64{0, 1, 2, 4, 5} {
			if got := rule.Look(word, now, cost); got != c.look[i] {
				t.Errorf("%s, %d spent, at %d s: look %d: %+v, want %+v", c.kind, c.spent, c.at, cost, got, c.look[i])
			}
			next, got := rule.Take(word, now, cost)
			if got != c.take[i] {
				t.Errorf("%s, %d spent, at %d s: take %d: %+v, want %+v", c.kind, c.spent, c.at, cost, got, c.take[i])
			}
			// What was answered is what the new word holds.
			after := rule.Look(next, now, 0)
			if want := yes(c.take[i].Remaining, int64(c.take[i].ResetAfter)/second); after != want {
				t.Errorf("%s, %d spent, at %d s: after taking %d: %+v, want %+v", c.kind, c.spent, c.at, cost, after, want)
			}
			if spends := cost > 0 && (c.take[i].Allowed || c.kind == leaky.Lockout); !spends && next != word {
				t.Errorf("%s, %d spent, at %d s: taking %d wrote %d over %d", c.kind, c.spent, c.at, cost, next, word)
			}
		}
	}
}

// Costs at the ends of their type, which a sum with them would overflow.
func TestAnswersToExtremeCosts(t *testing.T) {
	for _, c := range []struct {
		kind       leaky.Kind
		cost       int64
		look, take leaky.Result
	}{
		{leaky.Bucket, math.MaxInt64, never(2, 4), never(2, 4)},
		{leaky.Bucket, -1, never(2, 4), never(2, 4)},
		{leaky.Bucket, math.MinInt64, never(2, 4), never(2, 4)},
		{leaky.Quota, math.MaxInt64, never(2, 8), never(2, 8)},
		{leaky.Quota, -1, never(2, 8), never(2, 8)},
		{leaky.Quota, math.MinInt64, never(2, 8), never(2, 8)},
		{leaky.Lockout, math.MaxInt64, yes(2, 8), yes(0, 8)},
		{leaky.Lockout, -1, never(2, 8), never(2, 8)},
		{leaky.Lockout, math.MinInt64, never(2, 8), never(2, 8)},
	} {
		rule := mustRule(t, c.kind, 4, 8*time.Second)
		word, _ := rule.Take(0, t0, 2)
		if got := rule.Look(word, t0, c.cost); got != c.look {
			t.Errorf("%s: look %d: %+v, want %+v", c.kind, c.cost, got, c.look)
		}
		next, got := rule.Take(word, t0, c.cost)
		if got != c.take {
			t.Errorf("%s: take %d: %+v, want %+v", c.kind, c.cost, got, c.take)
		}
		if c.take.Never && next != word {
			t.Errorf("%s: a refusal of %d wrote %d over %d", c.kind, c.cost, next, word)
		}
	}
}

// A failure said while the clock reads earlier counts, and the end stays where
// the latest reading put it.
func TestLockoutCountsWhileTheClockIsBack(t *testing.T) {
	rule := mustRule(t, leaky.Lockout, 4, 8*time.Second)
	word, _ := rule.Take(0, t0, 2)
	word, _ = rule.Take(word, t0-2*second, 1)
	if got := rule.Look(word, t0+7*second, 1); got != yes(1, 1) {
		t.Errorf("a second before the end: %+v", got)
	}
	if got := rule.Look(word, t0+8*second, 1); got != yes(4, 0) {
		t.Errorf("at the end: %+v", got)
	}
}

// A unit taken while the clock reads earlier counts until the end that the
// first one set.
func TestQuotaCountsWhileTheClockIsBack(t *testing.T) {
	rule := mustRule(t, leaky.Quota, 4, 8*time.Second)
	word, _ := rule.Take(0, t0, 2)
	word, _ = rule.Take(word, t0-2*second, 1)
	if got := rule.Look(word, t0+7*second, 2); got != no(1, 1, 1) {
		t.Errorf("a second before the end: %+v", got)
	}
	if got := rule.Look(word, t0+8*second, 2); got != yes(4, 0) {
		t.Errorf("at the end: %+v", got)
	}
}

// Eight spent of ten, and the limit is four from now on: shut, and what is
// taken or failed meanwhile must not lower the word below other copies of it.
func TestLoweredLimitKeepsTheWord(t *testing.T) {
	for _, kind := range []leaky.Kind{leaky.Quota, leaky.Lockout} {
		word, _ := mustRule(t, kind, 10, 8*time.Second).Take(0, t0, 8)
		rule := mustRule(t, kind, 4, 8*time.Second)
		next, got := rule.Take(word, t0, 1)
		if got != no(0, 8, 8) || next != word {
			t.Errorf("%s: %+v, word %d to %d", kind, got, word, next)
		}
	}
}
