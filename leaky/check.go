package leaky

import "time"

// Check is one question to one bucket: may Cost more units go ahead? Keys
// travel as hashes only.
type Check struct {
	Partition   uint32 // where the bucket lives; chosen by the placement part of its key
	Fingerprint uint64 // hash of its whole key, never 0
	Rule        Rule
	Cost        int64 // units, 0 or more; 0 only reads

	// Groups are the fingerprints of the words, in the same partition, by which
	// this bucket is cleared together with others, see [Clears]. 0 is none; only a
	// Cooldown may have groups. Its window must be a part of its key.
	Groups [2]uint64
	// LookOnly says that the bucket decides but is never charged: a wait that
	// something else begins, a lockout that only failures fill.
	LookOnly bool
}

// Grouped reports whether the bucket belongs to a group.
func (c *Check) Grouped() bool { return c.Groups != [2]uint64{} }

// Mode says what is done with a sequence of checks.
type Mode uint8

const (
	Taking    Mode = iota // take each, in order, up to the first refusal
	Looking               // look at each, and take nothing
	Lowering              // give each check's cost back, and tell what is left
	TakingAll             // look at each, in order, up to the first refusal; if there is none, take all of them
)

// Takes reports whether the mode may charge buckets, and so ends at a refusal.
func (m Mode) Takes() bool { return m == Taking || m == TakingAll }

// Result is the answer to one question. Delays are exact; callers round them
// up for display.
type Result struct {
	Allowed    bool
	Never      bool          // the cost exceeds the limit: no waiting helps
	Remaining  int64         // whole units the bucket would still admit
	RetryAfter time.Duration // until the asked cost is admitted; 0 if allowed or never
	ResetAfter time.Duration // until the bucket is empty
}
