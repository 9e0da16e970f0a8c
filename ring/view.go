package ring

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dchest/siphash"
)

// State is what a member is about.
type State uint8

const (
	Joining State = iota // not yet part of the ring
	Active               // owns partitions
	Leaving              // owns none any more, and answers still
	Failed               // was seen to die, and has not come back
)

// String returns the state as operators read it.
func (s State) String() string {
	switch s {
	case Joining:
		return "joining"
	case Active:
		return "active"
	case Leaving:
		return "leaving"
	case Failed:
		return "failed"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Member is one node, as it tells the others.
type Member struct {
	Name    string
	Boot    uint64 // chosen anew at every start: another one means that its state is lost
	State   State
	Gossip  string // host:port of each listener, as others reach it
	RPC     string
	HTTP    string
	Admin   string
	Version string
	Policy  string // hash of the policy it decides by
}

// View is the membership at one moment, and who should hold each partition by
// it. It is immutable.
type View struct {
	epoch   uint64
	members []Member // by name
	owners  [Partitions]int16
	backups [Partitions]int16
}

// NewView returns the view of these members. It depends on nothing else: not on
// their order, nor on the views before it. Of members that share a name the one
// with the higher boot counts.
func NewView(members []Member) *View {
	v := &View{members: slices.Clone(members)}
	slices.SortFunc(v.members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Boot, a.Boot))
	})
	v.members = slices.CompactFunc(v.members, func(a, b Member) bool { return a.Name == b.Name })

	var names []string
	var index []int16 // of each name among the members
	digest := binary.BigEndian.AppendUint64(nil, Format)
	for i, m := range v.members {
		if m.State != Active {
			continue
		}
		names, index = append(names, m.Name), append(index, int16(i))
		digest = binary.AppendUvarint(digest, uint64(len(m.Name)))
		digest = append(digest, m.Name...)
		digest = binary.BigEndian.AppendUint64(digest, m.Boot)
	}
	v.epoch = siphash.Hash(0, 0, digest)
	owners, backups := place(names)
	for p := range owners {
		v.owners[p], v.backups[p] = noOwner, noOwner
		if owners[p] != noOwner {
			v.owners[p] = index[owners[p]]
		}
		if backups[p] != noOwner {
			v.backups[p] = index[backups[p]]
		}
	}
	return v
}

// Epoch is a digest of all that decides who owns what: nodes with the same
// epoch agree on every owner and backup.
func (v *View) Epoch() uint64 { return v.epoch }

// Members returns all members, by name. The caller must not change them.
func (v *View) Members() []Member { return v.members }

// Member returns the member of that name.
func (v *View) Member(name string) (Member, bool) {
	i, ok := slices.BinarySearchFunc(v.members, name, func(m Member, name string) int { return cmp.Compare(m.Name, name) })
	if !ok {
		return Member{}, false
	}
	return v.members[i], true
}

// Owner returns the index in Members of the partition's owner; ok is false if
// no member is active.
func (v *View) Owner(partition uint32) (i int, ok bool) {
	i = int(v.owners[partition])
	return i, i != noOwner
}

// Backup returns the index in Members of the partition's backup: who would own
// it if its owner were gone. ok is false if fewer than two members are active.
func (v *View) Backup(partition uint32) (i int, ok bool) {
	i = int(v.backups[partition])
	return i, i != noOwner
}

// Owned returns how many partitions the member owns.
func (v *View) Owned(name string) int { return v.count(&v.owners, name) }

// Backed returns how many partitions the member is the backup of.
func (v *View) Backed(name string) int { return v.count(&v.backups, name) }

func (v *View) count(holders *[Partitions]int16, name string) int {
	n := 0
	for _, i := range holders {
		if i != noOwner && v.members[i].Name == name {
			n++
		}
	}
	return n
}
