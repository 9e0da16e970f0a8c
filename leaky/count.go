package leaky

import "time"

// A counting word is an instant in whole ticks, plus a count of 1 to MaxCount.
// As a whole it is later than its instant, so Expired, which compares the whole,
// never drops a word that still counts.
const tick = 1000 // ns: a microsecond

// instant and count take a counting word apart.
func instant(w Word) int64 { return int64(w) - count(w) }
func count(w Word) int64   { return int64(w) % tick }

// ceilTick rounds an instant or a length up to whole ticks.
func ceilTick(ns int64) int64 { return (ns + tick - 1) / tick * tick }

// counted returns what a counting word says at now: how many units are spent
// and for how many nanoseconds from the tick of now they still count.
func (r Rule) counted(w Word, now int64) (spent, left int64) {
	left = instant(w) - ceilTick(now)
	if left <= 0 {
		return 0, 0
	}
	// A word of a clock that is ahead holds for no longer than a fresh one.
	return min(count(w), r.limit), min(left, ceilTick(r.window))
}

// until returns the instant, in whole ticks, at which a window opened now ends.
func (r Rule) until(now int64) int64 { return ceilTick(ceilTick(now) + r.window) }

func (r Rule) takeQuota(w Word, now, cost int64) (Word, Result) {
	res := r.lookCount(w, now, cost)
	if !res.Allowed || cost == 0 {
		return w, res
	}
	spent, left := r.counted(w, now)
	expiry := instant(w)
	if left == 0 {
		expiry = r.until(now)
		res.ResetAfter = time.Duration(expiry - ceilTick(now))
	}
	res.Remaining -= cost
	return Word(expiry + spent + cost), res
}

func (r Rule) takeLockout(w Word, now, cost int64) (Word, Result) {
	res := r.lookCount(w, now, cost)
	if cost <= 0 {
		return w, res
	}
	spent, _ := r.counted(w, now)
	spent = min(spent+min(cost, r.limit), r.limit)
	// The instant never falls, even if the clock reads earlier than it did.
	expiry := max(r.until(now), instant(w))
	left := min(expiry-ceilTick(now), ceilTick(r.window))
	res.Remaining = r.limit - spent
	res.ResetAfter = time.Duration(left)
	if !res.Allowed {
		res.RetryAfter = res.ResetAfter
	}
	// A limit lowered meanwhile cuts the count, but must not lower the word.
	return max(w, Word(expiry+spent)), res
}

// lookCount serves both counting kinds: a quota refuses what does not fit into
// the rest of its limit, a lockout refuses once the rest is nothing.
func (r Rule) lookCount(w Word, now, cost int64) Result {
	spent, left := r.counted(w, now)
	res := Result{Remaining: r.limit - spent, ResetAfter: time.Duration(left)}
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
	spent, left := r.counted(w, now)
	switch {
	case left == 0 || units >= spent:
		return 0
	case units == 0: // a limit that was cut must not cut the word
		return w
	}
	return Word(instant(w) + spent - units)
}
