package policy

import (
	"encoding/binary"
	"time"

	"github.com/dchest/siphash"
)

// Keys hashes bucket keys. Callers cannot aim at a bucket without knowing the
// secret, and key texts are neither stored nor sent.
//
// A key is a list of parts, each preceded by its length, so that no two lists
// read the same whatever characters the parts hold. Its beginning, the
// placement part, says whose allowance it is and chooses the partition; the
// whole chooses the bucket.
type Keys struct {
	k0, k1     uint64
	partitions uint64
}

// NewKeys returns keys under the secret, over that many partitions. All nodes
// of a cluster must agree on both. It panics if there is no partition.
func NewKeys(secret [16]byte, partitions int) Keys {
	if partitions < 1 {
		panic("policy: keys over no partition")
	}
	return Keys{
		k0:         binary.LittleEndian.Uint64(secret[:8]),
		k1:         binary.LittleEndian.Uint64(secret[8:]),
		partitions: uint64(partitions),
	}
}

// Mark returns a number by which keys under another secret can be told, and
// from which nothing else can be learned.
func (k Keys) Mark() uint64 { return siphash.Hash(k.k0, k.k1, []byte("weir: mark of the hash key")) }

// partition returns where buckets with this placement part live.
func (k Keys) partition(placement []byte) uint32 {
	lo, _ := siphash.Hash128(k.k0, k.k1, placement)
	return uint32(lo % k.partitions)
}

// fingerprint returns the hash that stands for the whole key. It is never 0,
// which tables use for an empty slot.
func (k Keys) fingerprint(key []byte) uint64 {
	lo, _ := siphash.Hash128(k.k0, k.k1, key)
	return max(lo, 1)
}

func appendPart[T string | []byte](key []byte, part T) []byte {
	key = binary.AppendUvarint(key, uint64(len(part)))
	return append(key, part...)
}

// appendBucket appends what tells the caller's buckets apart: the declared
// name, the value of each placeholder (a literal one is marked, so it equals no
// value), and the window.
func appendBucket(key []byte, b *Bucket, window time.Duration, value func(name string) (string, bool)) []byte {
	key = appendPart(key, b.Name)
	for _, name := range b.Placeholders {
		if v, ok := value(name); ok {
			key = append(key, 1)
			key = appendPart(key, v)
		} else {
			key = append(key, 0)
		}
	}
	return binary.BigEndian.AppendUint64(key, uint64(window))
}
