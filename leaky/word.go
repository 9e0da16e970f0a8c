package leaky

import "time"

// Word is the whole state of one bucket: the instant, in Unix nanoseconds, at
// which it is empty. The zero Word is an empty bucket.
type Word int64

// Merge returns the state that two copies of one bucket agree on.
func Merge(a, b Word) Word { return max(a, b) }

// Expired reports whether the word means the same as no word at all.
func Expired(w Word, now int64) bool { return int64(w) <= now }

// Take decides a request of the given cost and returns the word to store. The
// word is unchanged if the request is refused, except that a Lockout counts
// every failure, also one said while it refuses. A negative cost and a cost
// above the limit are refused with Never; a Lockout counts the latter as limit
// failures.
func (r Rule) Take(w Word, now, cost int64) (Word, Result) {
	switch r.kind {
	case Quota:
		return r.takeQuota(w, now, cost)
	case Lockout:
		return r.takeLockout(w, now, cost)
	case Cooldown, CooldownStart:
		return r.takeCooldown(w, now, cost)
	case Group:
		return w, lookGroup(cost)
	}
	return r.takeBucket(w, now, cost)
}

// Look answers what Take would, and takes nothing: remaining is not reduced.
func (r Rule) Look(w Word, now, cost int64) Result {
	switch r.kind {
	case Quota, Lockout:
		return r.lookCount(w, now, cost)
	case Cooldown, CooldownStart:
		return r.lookCooldown(w, now, cost)
	case Group:
		return lookGroup(cost)
	}
	return r.lookBucket(w, now, cost)
}

// Lower gives units back and returns the word to store, never fuller than it
// was and never below empty. Limit units or more clear the bucket, or the group;
// a negative number gives nothing back.
func (r Rule) Lower(w Word, now, units int64) Word {
	units = min(max(units, 0), r.limit)
	switch r.kind {
	case Quota, Lockout:
		return r.lowerCount(w, now, units)
	case Cooldown, CooldownStart:
		return r.lowerCooldown(w, now, units)
	case Group:
		return r.clear(w, now, units)
	}
	return r.lowerBucket(w, now, units)
}

// burst is tau of the package comment.
func (r Rule) burst() int64 { return r.limit * r.interval }

func (r Rule) base(w Word, now int64) int64 {
	return min(max(int64(w), now), now+r.burst())
}

func (r Rule) takeBucket(w Word, now, cost int64) (Word, Result) {
	res := r.lookBucket(w, now, cost)
	if !res.Allowed || cost == 0 {
		return w, res
	}
	next := r.base(w, now) + cost*r.interval
	res.Remaining -= cost
	res.ResetAfter = time.Duration(next - now)
	return Word(next), res
}

func (r Rule) lookBucket(w Word, now, cost int64) Result {
	if r.limit == 0 {
		return Result{Never: true} // the zero Rule
	}
	used := r.base(w, now) - now
	res := Result{
		Remaining:  (r.burst() - used) / r.interval,
		ResetAfter: time.Duration(used),
	}
	switch {
	case cost < 0 || cost > r.limit:
		// Compared before any multiplication: a huge cost cannot overflow.
		res.Never = true
	case cost == 0 || used+cost*r.interval <= r.burst():
		res.Allowed = true
	default:
		res.RetryAfter = time.Duration(used + cost*r.interval - r.burst())
	}
	return res
}

func (r Rule) lowerBucket(w Word, now, units int64) Word {
	left := r.base(w, now) - units*r.interval
	if left <= now {
		return 0
	}
	// The clamp of base must not raise a word, nor may lowering nothing lower it.
	if units == 0 {
		return w
	}
	return Word(left)
}
