package leaky

import "time"

// A cooldown's word is the instant at which its wait ends, in whole ticks, plus
// a mark: how often its group had been cleared when the wait began, from 1 to
// 999 and round again, 0 for never. The mark changes no answer by itself. A
// group's word has the mark of its latest clear, and ends when no wait can be
// left that began before.

// rest returns for how many nanoseconds from the tick of now the wait goes on,
// never longer than a fresh one.
func (r Rule) rest(w Word, now int64) int64 {
	return min(max(instant(w)-ceilTick(now), 0), ceilTick(r.window))
}

func (r Rule) lookCooldown(w Word, now, cost int64) Result {
	rest := r.rest(w, now)
	res := Result{ResetAfter: time.Duration(rest)}
	if rest == 0 {
		res.Remaining = 1
	}
	switch {
	case cost < 0 || cost > 1:
		res.Never = true
	case cost == 0 || rest == 0 || r.kind == CooldownStart:
		res.Allowed = true
	default:
		res.RetryAfter = res.ResetAfter
	}
	return res
}

// takeCooldown begins the wait of a Cooldown, or of a CooldownStart.
func (r Rule) takeCooldown(w Word, now, cost int64) (Word, Result) {
	res := r.lookCooldown(w, now, cost)
	if !res.Allowed || cost == 0 {
		return w, res
	}
	next := max(w, Word(r.until(now)))
	res.Remaining, res.ResetAfter = 0, time.Duration(r.rest(next, now))
	return next, res
}

func (r Rule) lowerCooldown(w Word, now, units int64) Word {
	if units == 0 && r.rest(w, now) > 0 {
		return w
	}
	return 0
}

func lookGroup(cost int64) Result {
	if cost < 0 || cost > 1 {
		return Result{Never: true, Remaining: 1}
	}
	return Result{Allowed: true, Remaining: 1}
}

// clear gives a group's word its next mark.
func (r Rule) clear(w Word, now, units int64) Word {
	if units == 0 {
		return w
	}
	mark := count(w) + 1
	if mark == tick {
		mark = 1
	}
	return Word(max(r.until(now), instant(w)) + mark)
}

// Since returns what a cooldown's word still means, given the word of its group:
// nothing if its wait began before the group was cleared. Which of the two came
// first is told by their marks, not by their instants: so they keep their order
// within one instant, and whatever clocks copies of them were made by.
func Since(w, group Word, now int64) Word {
	if Expired(group, now) || count(w) == count(group) {
		return w
	}
	return 0
}

// Marked returns a cooldown's word with the mark of its group, for a wait that
// begins now.
func Marked(w, group Word, now int64) Word {
	if Expired(group, now) {
		return w
	}
	return Word(instant(w) + count(group))
}
