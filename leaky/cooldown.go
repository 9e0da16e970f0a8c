package leaky

import "time"

// A cooldown's word is the instant at which its wait ends, in whole ticks, plus
// a mark that orders it with clears of its groups at the very tick at which it
// began, 0 in all other cases. A group's word ends when no wait can be left that
// began before its latest clear, and counts the clears at that tick.

// rest returns for how many nanoseconds from the tick of now the wait goes on:
// of a Cooldown never longer than a fresh one.
func (r Rule) rest(w Word, now int64) int64 {
	rest := max(instant(w)-ceilTick(now), 0)
	if r.kind == CooldownStart {
		return rest // which may be that of a longer start
	}
	return min(rest, ceilTick(r.window))
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

// clear returns the group's word as cleared now, which is later than it was.
func (r Rule) clear(w Word, now, units int64) Word {
	switch next := Word(r.until(now) + 1); {
	case units == 0:
		return w
	case next > w:
		return next
	}
	return w + 1 // once more at this tick, or the clock reads earlier
}

// Clears is when the groups that a cooldown belongs to were last cleared. The
// zero Clears is never.
type Clears struct {
	at    int64 // the tick
	count int64 // of clears at it
}

// And returns the clears with those of one more group, whose word is given: 0 if
// it was not cleared for as long as any wait can be.
func (c Clears) And(group Word, now int64) Clears {
	if Expired(group, now) {
		return c
	}
	switch at := instant(group) - int64(MaxWindow); {
	case at > c.at:
		return Clears{at, count(group)}
	case at == c.at:
		c.count += count(group)
	}
	return c
}

// Since returns what a Cooldown's word still means: nothing if its wait began
// before the clears, or at the same instant and before the last of them.
func (r Rule) Since(w Word, c Clears) Word {
	if began := instant(w) - ceilTick(r.window); began < c.at || began == c.at && count(w) < c.count {
		return 0
	}
	return w
}

// After returns a Cooldown's word for a wait that begins after the clears, which
// have the later instant if the clock was set back.
func (r Rule) After(w Word, c Clears) Word {
	if instant(w)-ceilTick(r.window) > c.at {
		return w
	}
	return Word(c.at + ceilTick(r.window) + min(c.count, tick-1))
}
