package ring

import (
	"github.com/buraksezer/consistent"
	"github.com/dchest/siphash"
)

// Partitions is the number of parts that all keys are divided into.
const Partitions = 1021

// Format numbers the way partitions are placed on members. Nodes of different
// formats would send keys to different owners, so they refuse each other. It
// MUST be raised whenever anything in this file, or the version of the ring
// library, changes a single owner.
const Format = 1

const (
	replicas = 100  // points of each member on the ring
	load     = 1.25 // no member has more than load times the mean, rounded up
)

// placed is a member as the ring library knows it: by its name alone.
type placed string

func (p placed) String() string { return string(p) }

// hasher places partitions and members. Its key is public: who may own what is
// no secret, unlike where a caller's bucket lives.
type hasher struct{}

func (hasher) Sum64(b []byte) uint64 { return siphash.Hash(0x77656972, 1, b) }

// noOwner marks a partition that nobody owns.
const noOwner = -1

// place returns the owner and the backup of every partition, as indexes into
// the names, which are distinct. A partition's backup is the member that would
// own it if its owner were gone.
func place(names []string) (owners, backups [Partitions]int16) {
	for p := range owners {
		owners[p], backups[p] = noOwner, noOwner
	}
	if len(names) == 0 {
		return owners, backups
	}
	index := make(map[string]int16, len(names))
	members := make([]consistent.Member, len(names))
	for i, name := range names {
		index[name] = int16(i)
		members[i] = placed(name)
	}
	// The capacity of all members together, at least load times the number of
	// partitions, always has room: the library's panic for lack of it cannot
	// be reached with these constants.
	c := consistent.New(members, consistent.Config{
		Hasher:            hasher{},
		PartitionCount:    Partitions,
		ReplicationFactor: replicas,
		Load:              load,
	})
	for p := range owners {
		owners[p] = index[c.GetPartitionOwner(p).String()]
	}
	if len(names) == 1 {
		return owners, backups
	}
	// One ring serves for all: taking a member out and putting it back leaves
	// it as it was, and costs a fraction of building another.
	for i, name := range names {
		c.Remove(name)
		for p, owner := range owners {
			if owner == int16(i) {
				backups[p] = index[c.GetPartitionOwner(p).String()]
			}
		}
		c.Add(placed(name))
	}
	return owners, backups
}
