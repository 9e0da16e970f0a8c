// Package shard is the state of one partition: a table from the fingerprint of
// a bucket's key to its word.
//
// A [Table] holds only words that still mean something, but for those that
// expired since its last rebuild. A rebuild copies what lives into a map of the
// right size and is the one operation that forgets, grows or shrinks; it runs
// when the table has doubled since the last one, and whenever its owner asks
// for it. Since an expired word decides like an absent one, no rebuild can be
// told from the answers.
//
// This table is one map behind one mutex: plainly right, and short. Range and a
// rebuild hold the mutex for one pass over the partition.
package shard

import (
	"sync"

	"weir/leaky"
)

// smallest is the number of words below which a table never rebuilds itself.
const smallest = 64

// Table holds the live words of one partition. It is safe for concurrent use;
// the zero Table is not, see [NewTable].
type Table struct {
	mu        sync.Mutex
	words     map[uint64]leaky.Word
	rebuildAt int // words at which an insertion rebuilds first
	room      int // the most words since the map was made; it never shrinks
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{words: make(map[uint64]leaky.Word), rebuildAt: smallest}
}

// Take decides the check at now, the deciding clock in Unix nanoseconds, and
// keeps the new word. Concurrent takes of one bucket are decided one after
// another.
func (t *Table) Take(c leaky.Check, now int64) leaky.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	word, clears := t.wordOf(&c, now)
	next, res := c.Rule.Take(word, now, c.Cost)
	if next != word {
		if c.Grouped() {
			next = c.Rule.After(next, clears)
		}
		t.put(c.Fingerprint, next, now)
	}
	return res
}

// Look answers what Take would, and changes nothing.
func (t *Table) Look(c leaky.Check, now int64) leaky.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	word, _ := t.wordOf(&c, now)
	return c.Rule.Look(word, now, c.Cost)
}

// wordOf returns what the check's word means, and when its groups were cleared.
func (t *Table) wordOf(c *leaky.Check, now int64) (word leaky.Word, clears leaky.Clears) {
	word = t.words[c.Fingerprint]
	if !c.Grouped() {
		return word, clears
	}
	for _, group := range c.Groups {
		clears = clears.And(t.words[group], now)
	}
	return c.Rule.Since(word, clears), clears
}

// Lower gives the check's cost back to its bucket, never beyond empty, or clears
// its group.
func (t *Table) Lower(c leaky.Check, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	word := t.words[c.Fingerprint]
	switch next := c.Rule.Lower(word, now, c.Cost); {
	case leaky.Expired(next, now):
		delete(t.words, c.Fingerprint)
	case next != word:
		t.put(c.Fingerprint, next, now)
	}
}

// Merge joins a copy of a bucket's word with what the table holds. A word that
// is expired says nothing and is not kept.
func (t *Table) Merge(fingerprint uint64, word leaky.Word, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if leaky.Expired(word, now) {
		return
	}
	if have := t.words[fingerprint]; leaky.Merge(have, word) != have {
		t.put(fingerprint, word, now)
	}
}

// Get returns the bucket's word, 0 if none is held.
func (t *Table) Get(fingerprint uint64) leaky.Word {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.words[fingerprint]
}

// Set replaces the bucket's word, also by a lower one: the one who decides the
// bucket says so. A word that is expired is forgotten.
func (t *Table) Set(fingerprint uint64, word leaky.Word, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if leaky.Expired(word, now) {
		delete(t.words, fingerprint)
		return
	}
	t.put(fingerprint, word, now)
}

// Clear forgets every bucket.
func (t *Table) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.words, t.rebuildAt, t.room = make(map[uint64]leaky.Word), smallest, 0
}

// Range calls f for every word that is live at now, in no order, until f
// returns false. f must not call the table.
func (t *Table) Range(now int64, f func(fingerprint uint64, word leaky.Word) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for fingerprint, word := range t.words {
		if !leaky.Expired(word, now) && !f(fingerprint, word) {
			return
		}
	}
}

// Len returns the number of words held, expired ones among them that no
// rebuild has dropped yet.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.words)
}

// Rebuild drops the words that are expired at now, and the room they took.
func (t *Table) Rebuild(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rebuild(now)
}

func (t *Table) put(fingerprint uint64, word leaky.Word, now int64) {
	if len(t.words) >= t.rebuildAt {
		if _, held := t.words[fingerprint]; !held {
			t.rebuild(now)
		}
	}
	t.words[fingerprint] = word
	t.room = max(t.room, len(t.words))
}

// rebuild costs one pass over the table. Setting the next one at twice what
// lives keeps the cost of an insertion constant on average.
func (t *Table) rebuild(now int64) {
	live := 0
	for _, word := range t.words {
		if !leaky.Expired(word, now) {
			live++
		}
	}
	t.rebuildAt = max(smallest, 2*live)
	if live == len(t.words) && t.room <= t.rebuildAt {
		return
	}
	words := make(map[uint64]leaky.Word, live)
	for fingerprint, word := range t.words {
		if !leaky.Expired(word, now) {
			words[fingerprint] = word
		}
	}
	t.words, t.room = words, live
}
