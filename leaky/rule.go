package leaky

import (
	"errors"
	"fmt"
	"time"
)

// Kind says how a word counts.
type Kind uint8

const (
	// Bucket drains continuously: limit units per window.
	Bucket Kind = iota
	// Quota admits limit units in all, counted for window from the first of
	// them, and is never refilled before that has passed.
	Quota
	// Lockout counts failures: the limit-th refuses every further one until
	// window has passed since the most recent failure. Failures are forgotten
	// window after the most recent one.
	Lockout
	// Cooldown admits one unit, then nothing until window has passed since. Its
	// limit is 1.
	Cooldown
	// CooldownStart begins such a wait: each unit is admitted, and what a
	// Cooldown of the same word then waits for ends no earlier than window from
	// now. It never shortens a longer wait. Its limit is 1.
	CooldownStart
	// Group is no bucket: lowering its word clears all cooldowns of a group at
	// once, see [Clears]. It is always empty. Its limit is 1, and its window
	// MaxWindow: no wait in the group is longer.
	Group
)

// String returns the kind's name as policies spell it.
func (k Kind) String() string {
	switch k {
	case Bucket:
		return "bucket"
	case Quota:
		return "quota"
	case Lockout:
		return "lockout"
	case Cooldown:
		return "cooldown"
	case CooldownStart:
		return "cooldown_start"
	case Group:
		return "group"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Bounds of a rule. They keep every sum of two instants inside an int64.
const (
	MinWindow   = time.Millisecond
	MaxWindow   = 366 * 24 * time.Hour
	MaxLimit    = 1_000_000_000    // units of a bucket
	MaxCount    = tick - 1         // units of a quota, failures of a lockout
	MinInterval = time.Microsecond // shortest time in which one unit may drain
)

// Errors of NewRule. The returned error wraps one of them and names the value.
var (
	ErrKind     = errors.New("unknown kind")
	ErrLimit    = errors.New("limit out of range")
	ErrWindow   = errors.New("window out of range")
	ErrInterval = errors.New("window/limit is under 1µs")
)

// Rule is what a word is measured against: a kind, a limit and a window. Rules
// are made by [NewRule], so one that is in hand is within bounds. The zero Rule
// refuses everything.
type Rule struct {
	kind     Kind
	limit    int64
	window   int64 // ns
	interval int64 // ns: T of the package comment; Bucket only
}

// NewRule returns the rule that allows limit units per window.
func NewRule(kind Kind, limit int64, window time.Duration) (Rule, error) {
	most := int64(MaxLimit)
	switch kind {
	case Bucket:
	case Quota, Lockout:
		most = MaxCount
	case Cooldown, CooldownStart, Group:
		most = 1
	default:
		return Rule{}, fmt.Errorf("leaky: %w: %d", ErrKind, kind)
	}
	if limit < 1 || limit > most {
		return Rule{}, fmt.Errorf("leaky: %w: %d is not between 1 and %d", ErrLimit, limit, most)
	}
	if window < MinWindow || window > MaxWindow {
		return Rule{}, fmt.Errorf("leaky: %w: %s is not between %s and %s", ErrWindow, window, MinWindow, MaxWindow)
	}
	interval := int64(window) / limit
	if kind == Bucket && interval < int64(MinInterval) {
		return Rule{}, fmt.Errorf("leaky: %w: %s for %d units", ErrInterval, window, limit)
	}
	return Rule{kind: kind, limit: limit, window: int64(window), interval: interval}, nil
}

// Kind returns how the rule counts.
func (r Rule) Kind() Kind { return r.kind }

// Limit returns the units that an empty bucket admits at once.
func (r Rule) Limit() int64 { return r.limit }

// Window returns the time over which the limit is counted.
func (r Rule) Window() time.Duration { return time.Duration(r.window) }
