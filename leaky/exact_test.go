package leaky_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/leaky"
)

// exactBucket is the leaky bucket of the contract in unbounded rationals: a
// level of consumed units that drains by one unit every T. It shares no formula
// with the code under test: it has a level, not an instant.
type exactBucket struct {
	limit    *big.Int
	interval *big.Int // T in ns
	level    *big.Rat // units consumed at instant at
	at       int64
}

func newExactBucket(limit int64, window time.Duration, now int64) *exactBucket {
	interval := new(big.Int).Quo(big.NewInt(int64(window)), big.NewInt(limit))
	return &exactBucket{limit: big.NewInt(limit), interval: interval, level: new(big.Rat), at: now}
}

// levelAt returns the level at now. A reading before the last one finds the
// level higher by what has not drained yet, at most full.
func (b *exactBucket) levelAt(now int64) *big.Rat {
	if b.level.Sign() == 0 {
		return new(big.Rat) // empty was empty before, too
	}
	drained := new(big.Rat).SetFrac(big.NewInt(now-b.at), b.interval)
	level := new(big.Rat).Sub(b.level, drained)
	if level.Sign() < 0 {
		return new(big.Rat)
	}
	if full := new(big.Rat).SetInt(b.limit); level.Cmp(full) > 0 {
		return full
	}
	return level
}

func (b *exactBucket) take(now, cost int64) (allowed, never bool, remaining int64, retry, reset *big.Rat) {
	level := b.levelAt(now)
	units := new(big.Rat).SetInt64(cost)
	limit := new(big.Rat).SetInt(b.limit)
	over := new(big.Rat).Sub(new(big.Rat).Add(level, units), limit)
	retry = new(big.Rat)
	switch {
	case units.Cmp(limit) > 0:
		never = true
	case cost == 0 || over.Sign() <= 0:
		allowed = true
		if cost > 0 {
			level = level.Add(level, units)
			b.level, b.at = new(big.Rat).Set(level), now
		}
	default:
		retry = new(big.Rat).Mul(over, new(big.Rat).SetInt(b.interval))
	}
	left := new(big.Rat).Sub(limit, level)
	remaining = new(big.Int).Quo(left.Num(), left.Denom()).Int64()
	reset = new(big.Rat).Mul(level, new(big.Rat).SetInt(b.interval))
	return
}

func TestBucketEqualsExactArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 1_000_000).Draw(t, "limit")
		least := max(int64(leaky.MinWindow), limit*int64(leaky.MinInterval))
		window := time.Duration(rapid.Int64Range(least, int64(leaky.MaxWindow)).Draw(t, "window"))
		rule := mustRule(t, leaky.Bucket, limit, window)
		interval := int64(window) / limit

		start := rapid.Int64Range(1, 4_000_000_000_000_000_000).Draw(t, "start")
		now, first := start, start
		exact := newExactBucket(limit, window, start)
		var word leaky.Word
		var admitted int64
		forward := true // the clock has never gone back

		step := rapid.OneOf(
			rapid.Int64Range(0, 3),
			rapid.Int64Range(0, 2*interval),
			rapid.Int64Range(0, int64(window)),
			rapid.Just(interval),
			rapid.Custom(func(t *rapid.T) int64 { return -rapid.Int64Range(0, int64(window)).Draw(t, "back") }),
		)
		cost := rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, limit), rapid.Int64Range(limit, limit+2),
			rapid.SampledFrom([]int64{1e10, 1 << 62, 1<<63 - 1}))

		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			d := step.Draw(t, "step")
			if d < 0 {
				forward = false
			}
			now = max(now+d, 1)
			c := cost.Draw(t, "cost")
			next, got := rule.Take(word, now, c)
			if next < word {
				t.Fatalf("take lowered the word from %d to %d", word, next)
			}
			word = next
			allowed, never, remaining, retry, reset := exact.take(now, c)
			if got.Allowed != allowed || got.Never != never || got.Remaining != remaining ||
				new(big.Rat).SetInt64(int64(got.RetryAfter)).Cmp(retry) != 0 ||
				new(big.Rat).SetInt64(int64(got.ResetAfter)).Cmp(reset) != 0 {
				t.Fatalf("limit %d window %s now %d cost %d: got %+v, exact allowed %v never %v remaining %d retry %s reset %s",
					limit, window, now, c, got, allowed, never, remaining, retry, reset)
			}
			if allowed {
				admitted += c
			}
			// No history admits more than limit + elapsed/T.
			if forward {
				most := limit + (now-first)/interval
				if admitted > most {
					t.Fatalf("admitted %d in %dns, more than %d", admitted, now-first, most)
				}
			}
		}
	})
}

// Asking one unit at a time, at steps of at most T, admits the whole rate:
// floor(limit + elapsed/T) of T's own rate, which is never below the floor of
// the rational rate less one, and never above limit + elapsed/T. (A bucket of
// one unit is empty whenever it admits, so what drains between two polls beyond
// that unit is idle time; it keeps the whole rate if the polls divide T.)
func TestSteadyAskingAdmitsTheWholeRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(2, 1_000_000).Draw(t, "limit")
		least := max(int64(leaky.MinWindow), limit*int64(leaky.MinInterval))
		window := time.Duration(rapid.Int64Range(least, int64(leaky.MaxWindow)).Draw(t, "window"))
		rule := mustRule(t, leaky.Bucket, limit, window)
		interval := int64(window) / limit
		const start = int64(1_700_000_000_000_000_000)

		// Drain at the first instant, then poll.
		word, res := rule.Take(0, start, limit)
		if !res.Allowed || res.Remaining != 0 {
			t.Fatalf("from empty, limit units: %+v", res)
		}
		if _, res := rule.Take(word, start, 1); res.Allowed {
			t.Fatal("limit+1 admitted at one instant")
		}
		admitted, now := limit, start
		for range rapid.IntRange(1, 300).Draw(t, "polls") {
			now += rapid.Int64Range(1, interval).Draw(t, "step")
			var r leaky.Result
			if word, r = rule.Take(word, now, 1); r.Allowed {
				admitted++
			}
		}
		elapsed := now - start
		if want := limit + elapsed/interval; admitted != want {
			t.Fatalf("limit %d window %s: admitted %d in %dns, want %d", limit, window, admitted, elapsed, want)
		}
		// limit + floor(elapsed*limit/window), in rationals.
		rational := new(big.Int).Mul(big.NewInt(elapsed), big.NewInt(limit))
		floor := rational.Quo(rational, big.NewInt(int64(window))).Int64() + limit
		if admitted < floor-1 {
			t.Fatalf("admitted %d, below the rational floor %d less one", admitted, floor)
		}
	})
}

func TestWaitingExactlyRetryAfterAdmits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout}).Draw(t, "kind")
		limit := rapid.Int64Range(1, leaky.MaxCount).Draw(t, "limit")
		window := time.Duration(rapid.Int64Range(int64(leaky.MinWindow), int64(leaky.MaxWindow)).Draw(t, "window"))
		rule := mustRule(t, kind, limit, window)
		now := rapid.Int64Range(1, 4_000_000_000_000_000_000).Draw(t, "now")
		var word leaky.Word
		for range rapid.IntRange(1, 20).Draw(t, "takes") {
			now += rapid.Int64Range(0, int64(window)).Draw(t, "step")
			word, _ = rule.Take(word, now, rapid.Int64Range(0, limit).Draw(t, "cost"))
		}
		cost := rapid.Int64Range(1, limit).Draw(t, "asked")
		res := rule.Look(word, now, cost)
		if res.Allowed != (res.RetryAfter == 0) {
			t.Fatalf("allowed and retry_after disagree: %+v", res)
		}
		if !res.Allowed && res.ResetAfter < res.RetryAfter {
			t.Fatalf("reset_after below retry_after: %+v", res)
		}
		later := rule.Look(word, now+int64(res.RetryAfter), cost)
		if !later.Allowed {
			t.Fatalf("%s %d per %s: waited %s and was refused again: %+v", kind, limit, window, res.RetryAfter, later)
		}
		if kind == leaky.Bucket && !res.Allowed && rule.Look(word, now+int64(res.RetryAfter)-1, cost).Allowed {
			t.Fatal("admitted before retry_after had passed")
		}
		empty := rule.Look(word, now+int64(res.ResetAfter), limit)
		if !empty.Allowed || empty.Remaining != limit || empty.ResetAfter != 0 {
			t.Fatalf("after reset_after the bucket is not empty: %+v", empty)
		}
	})
}
