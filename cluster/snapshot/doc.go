// Package snapshot keeps a node's words in a file, for the day that all nodes
// stop.
//
// [Save] replaces the file as a whole or not at all; a process that is killed
// at any moment leaves the old file or the new one. [Load] verifies all of the
// file before it yields a word.
//
// # Time
//
// A word is an instant of the deciding clock of the node that saved it, which
// means nothing to a clock that was started later. So the file holds what both
// clocks read at saving, and a load moves every word:
//
//	passed = max(0, wall now - wall at saving)
//	rest   = word - deciding at saving - passed
//	word'  = deciding now + rest, if rest > 0; else the bucket is empty
//
// Counting words hold a count below the microseconds of their instant, and the
// file does not know kinds. All words are therefore moved by the same whole
// number of microseconds, rounded towards later: no bucket comes back emptier
// than it was, and none holds for more than a microsecond longer.
//
// If the wall clock was set back while no node ran, nothing has passed. If it
// was set forward, that much has passed: there is no other witness.
//
// # The file
//
// All integers are big-endian and of fixed width, in bytes:
//
//	magic "weirsnap" (8), version (4),
//	ring format (4), partitions (4), mark of the hash key (8),
//	deciding clock (8), wall clock (8),
//	for every word: partition (4), fingerprint (8), word (8)
//	SHA-256 of everything before it (32)
//
// Words come in any order, and their number is what the length says. Every
// version begins with the magic and its number and ends with the digest, so a
// damaged file can be told from one of a later version. The digest finds
// accidents, not forgers: who may write the file may write a valid one.
package snapshot
