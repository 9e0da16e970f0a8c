package holder

import (
	"time"

	"weir/rpc"
	"weir/shard"
)

const (
	batchWords  = 1024 // of one batch; the last one before a change of hands may have rpc.MaxWords
	batchLeast  = 100 * time.Millisecond
	batchLonger = 800 * time.Millisecond
)

// stream keeps one copy of a partition up to date. It sends numbered batches,
// one at a time; each carries what has changed since it was last acknowledged,
// as it is when the batch is made. So a batch that is lost, late or doubled does
// no harm: the copy ignores every number that is not above the last.
type stream struct {
	to       rpc.Node
	dirty    map[uint64]uint64 // fingerprints to send, and the batch each is under way in; 0 if none
	sent     uint64            // the batch under way, 0 if none
	at       int64             // when it was sent
	wait     time.Duration     // how long it is waited for
	begun    bool              // the copy has begun
	ended    bool              // a batch that completes the copy was sent, if perhaps not received
	last     bool              // the batch under way completes the copy, or ends a merge
	complete bool              // the copy is the designated one

	since    int64 // when the oldest change came that is not acknowledged; 0 if all are
	admitted int64 // units admitted that are not acknowledged
	carried  int64 // of these, what the batch under way carries
	whole    bool  // the batch under way carries all that was dirty
}

func newStream(to rpc.Node) stream {
	return stream{to: to, dirty: make(map[uint64]uint64), wait: batchLeast}
}

func (s *stream) exists() bool { return !s.to.IsZero() }

// change notes that a word is not what the copy has.
func (s *stream) change(fingerprint uint64, units, now int64) {
	if s.exists() {
		s.dirty[fingerprint] = 0
	}
	s.admitted += units
	if s.since == 0 {
		s.since = now
	}
}

// lost is the stream of one whose copy is lost, to nobody. It keeps count of what
// nobody else knows.
func (s *stream) lost() stream { return stream{since: s.since, admitted: s.admitted} }

// overdue reports whether the batch under way is to be sent anew.
func (s *stream) overdue(now int64) bool { return s.sent != 0 && now-s.at >= int64(s.wait) }

// hurry ends the waiting for longer and longer: a batch that nobody has answered
// may have had no way to get there, and now there may be one.
func (s *stream) hurry() { s.wait = min(s.wait, batchLeast) }

// collect takes the next batch, of up to so many words of the table.
func (s *stream) collect(from *shard.Table, number uint64, now int64, most int) []rpc.Word {
	if s.overdue(now) {
		s.wait = min(2*s.wait, batchLonger)
	}
	words := make([]rpc.Word, 0, min(most, len(s.dirty)))
	for fingerprint := range s.dirty { // whatever an overdue batch carries is sent again
		if len(words) == most {
			break
		}
		words = append(words, rpc.Word{Fingerprint: fingerprint, Word: from.Get(fingerprint)})
		s.dirty[fingerprint] = number
	}
	s.sent, s.at, s.carried, s.whole = number, now, 0, len(words) == len(s.dirty)
	if s.whole { // else it is not known which units these words are
		s.carried = s.admitted
	}
	return words
}

// acknowledge takes in that the copy has a batch, and reports whether that is
// the one under way.
func (s *stream) acknowledge(number uint64, now int64) bool {
	if s.sent == 0 || number != s.sent {
		return false
	}
	for fingerprint, carrier := range s.dirty {
		if carrier == number {
			delete(s.dirty, fingerprint)
		}
	}
	s.wait = max(batchLeast, 2*time.Duration(now-s.at))
	s.admitted -= s.carried
	s.carried = 0
	switch {
	case len(s.dirty) == 0:
		s.since = 0
	case s.whole:
		s.since = s.at
	}
	s.sent, s.begun = 0, true
	return true
}
