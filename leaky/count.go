package leaky

import "time"

// A counting word holds an instant that is a multiple of tick in its high
// bits, and a count of 1 to MaxCount in its low ones. The word as a whole is
// later than its instant, so Expired, which compares the whole, never drops a
// word that still counts.
const (
	countBits = 9
	tick      = 1 << countBits // ns
	countMask = tick - 1
)

// ceilTick rounds an instant or a length up to whole ticks.
func ceilTick(ns int64) int64 { return (ns + countMask) &^ countMask }

// counted returns what a counting word says at now: how many units are spent
// and for how many nanoseconds from the tick of now they still count.
func (r Rule) counted(w Word, now int64) (count, left int64) {
	left = int64(w)&^countMask - ceilTick(now)
	if left <= 0 {
		return 0, 0
	}
	// A word of a clock that is ahead holds for no longer than a fresh one.
	return min(int64(w)&countMask, r.limit), min(left, ceilTick(r.window))
}

// until returns the instant, in whole ticks, at which a window opened now ends.
func (r Rule) until(now int64) int64 { return ceilTick(ceilTick(now) + r.window) }

func (r Rule) takeQuota(w Word, now, cost int64) (Word, Result) {
	res := r.lookCount(w, now, cost)
	if !res.Allowed || cost == 0 {
		return w, res
	}
	count, left := r.counted(w, now)
	expiry := int64(w) &^ countMask
	if left == 0 {
		expiry = r.until(now)
		res.ResetAfter = time.Duration(expiry - ceilTick(now))
	}
	res.Remaining -= cost
	return Word(expiry | (count + cost)), res
}

func (r Rule) takeLockout(w Word, now, cost int64) (Word, Result) {
	res := r.lookCount(w, now, min(cost, r.limit))
	if cost <= 0 {
		return w, res
	}
	count, _ := r.counted(w, now)
	count = min(count+min(cost, r.limit), r.limit)
	// The instant never falls, even if the clock reads earlier than it did.
	expiry := max(r.until(now), int64(w)&^countMask)
	left := min(expiry-ceilTick(now), ceilTick(r.window))
	res.Remaining = r.limit - count
	res.ResetAfter = time.Duration(left)
	if !res.Allowed {
		res.RetryAfter = res.ResetAfter
	}
	// A limit lowered meanwhile cuts the count, but must not lower the word.
	return max(w, Word(expiry|count)), res
}

// lookCount serves both counting kinds: a quota refuses what does not fit into
// the rest of its limit, a lockout refuses once the rest is nothing.
func (r Rule) lookCount(w Word, now, cost int64) Result {
	count, left := r.counted(w, now)
	res := Result{Remaining: r.limit - count, ResetAfter: time.Duration(left)}
	need := cost
	if r.kind == Lockout {
		need = min(cost, 1)
	}
	switch {
	case cost < 0 || need > r.limit:
		res.Never = true
	case need <= res.Remaining:
		res.Allowed = true
	default:
		res.RetryAfter = res.ResetAfter
	}
	return res
}

func (r Rule) lowerCount(w Word, now, units int64) Word {
	count, left := r.counted(w, now)
	if left == 0 || units >= count {
		return 0
	}
	return Word(int64(w)&^countMask | (count - units))
}
