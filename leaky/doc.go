// Package leaky is the arithmetic of one bucket word: take, look, lower and
// merge, for the kinds bucket, quota, lockout and cooldown.
//
// It has no clock and does no I/O: now, the deciding node's clock in Unix
// nanoseconds, is a parameter of every call, and equal arguments give equal
// answers. There is no floating point anywhere.
//
// # The word
//
// A [Word] is an instant in Unix nanoseconds: when the bucket will be empty
// again. It is all the state a bucket has. A word at or before now means the
// same as no word at all, so a table may drop it without changing any answer,
// and need not know which kind it belongs to.
//
// For [Bucket] the word is the theoretical arrival time of the Generic Cell
// Rate Algorithm (ITU-T Recommendation I.371, annex A). One unit drains in
//
//	T   = floor(window/limit)     the interval, at least 1 µs
//	tau = limit·T                 the burst: a full bucket's drain time
//
// and a request of some cost is decided by
//
//	base = min(max(word, now), now+tau)
//	next = base + cost·T
//	admitted if next-now <= tau, and then next is the new word
//
// The lower clamp forgets idle time, so no credit beyond the limit is ever
// saved up; the upper clamp keeps a word that another clock or another limit
// wrote from refusing for longer than a full bucket would. A refusal writes
// nothing.
//
// [Quota] and [Lockout] keep a count beside their instant, and [Cooldown] a mark
// that orders it with clears of its group ([Clears]). Both live in the last three
// digits, and the instant is in whole microseconds: these kinds read every clock
// and every window rounded up to one, and are exact by that. By a finer clock a
// window may so end less than a microsecond early.
//
// # Why words merge by maximum
//
// Under take every word only rises: a bucket's by cost·T, a quota's and a
// lockout's because the count is less significant than the instant and the
// instant never falls. Two copies of one bucket therefore merge to the later
// one by [Merge], however often and in whichever order copies arrive.
// [Rule.Lower] is the only operation that breaks this (not for a [Group], whose
// word it raises); its callers must order it against copies themselves.
package leaky
