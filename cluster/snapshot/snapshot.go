package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"weir/leaky"
)

// Mark says who may read a snapshot back. All of it must match.
type Mark struct {
	HashKey    uint64 // a digest of the key that the buckets' keys are hashed with
	Format     uint32 // how partitions are placed: the ring format
	Partitions uint32 // every partition is below it
}

// Clock is one moment by two clocks, in Unix nanoseconds, 0 to 1<<62-1.
type Clock struct {
	Deciding int64 // the clock that words are instants of
	Wall     int64
}

// Entry is one bucket.
type Entry struct {
	Fingerprint uint64 // never 0
	Word        leaky.Word
}

// Loaded is what a load found.
type Loaded struct {
	Words  int           // yielded, so those that are still live
	Saved  time.Time     // by the wall clock
	Passed time.Duration // since it was saved, never negative
}

// Errors of Load. The returned error wraps one of them and names the path.
var (
	// ErrDamaged: the file is no snapshot, or not a whole one.
	ErrDamaged = errors.New("damaged snapshot")
	// ErrVersion: the file is whole, and of a version that is not read here.
	ErrVersion = errors.New("another snapshot version")
	// ErrForeign: the words are of another hash key or of another ring format.
	ErrForeign = errors.New("snapshot of another cluster")
)

const (
	magic      = "weirsnap"
	version    = 1
	headSize   = len(magic) + 4 + 4 + 4 + 8 + 8 + 8
	recordSize = 4 + 8 + 8
	blockSize  = 3200 * recordSize // read and written at once: 64 kB

	tick      = 1000      // ns: counting words hold a count below it
	lastClock = 1<<62 - 1 // two of them add up
	// furthest is the most that a word may lie after the deciding clock, in ns.
	// The hour is for words that are taken while a save runs.
	furthest = int64(leaky.MaxWindow + time.Hour)
)

var errClock = errors.New("clock out of range")

func (c Clock) check() error {
	if c.Deciding < 0 || c.Deciding > lastClock || c.Wall < 0 || c.Wall > lastClock {
		return fmt.Errorf("%w: deciding %d, wall %d", errClock, c.Deciding, c.Wall)
	}
	return nil
}

// head is what precedes the words.
type head struct {
	version uint32
	mark    Mark
	at      Clock
}

func (h head) append(b []byte) []byte {
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, h.version)
	b = binary.BigEndian.AppendUint32(b, h.mark.Format)
	b = binary.BigEndian.AppendUint32(b, h.mark.Partitions)
	b = binary.BigEndian.AppendUint64(b, h.mark.HashKey)
	b = binary.BigEndian.AppendUint64(b, uint64(h.at.Deciding))
	return binary.BigEndian.AppendUint64(b, uint64(h.at.Wall))
}

// decodeHead takes headSize bytes, the magic included, apart.
func decodeHead(b []byte) head {
	b = b[len(magic):]
	return head{
		version: binary.BigEndian.Uint32(b),
		mark: Mark{
			Format:     binary.BigEndian.Uint32(b[4:]),
			Partitions: binary.BigEndian.Uint32(b[8:]),
			HashKey:    binary.BigEndian.Uint64(b[12:]),
		},
		at: Clock{
			Deciding: int64(binary.BigEndian.Uint64(b[20:])),
			Wall:     int64(binary.BigEndian.Uint64(b[28:])),
		},
	}
}

// record is one word in the file.
type record struct {
	partition uint32
	Entry
}

func (r record) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.partition)
	b = binary.BigEndian.AppendUint64(b, r.Fingerprint)
	return binary.BigEndian.AppendUint64(b, uint64(r.Word))
}

// decodeRecord takes recordSize bytes apart.
func decodeRecord(b []byte) record {
	return record{
		partition: binary.BigEndian.Uint32(b),
		Entry: Entry{
			Fingerprint: binary.BigEndian.Uint64(b[4:]),
			Word:        leaky.Word(binary.BigEndian.Uint64(b[12:])),
		},
	}
}

// checkKey says whether there can be such a bucket.
func (r record) checkKey(mark Mark) error {
	if r.partition >= mark.Partitions {
		return fmt.Errorf("partition %d is not below %d", r.partition, mark.Partitions)
	}
	if r.Fingerprint == 0 {
		return fmt.Errorf("a fingerprint of 0 in partition %d", r.partition)
	}
	return nil
}
