// Package ring knows who the members are and which of them owns each partition:
// gossip in, immutable View out.
//
// A [View] says who should hold a partition by one state of the membership, and
// who is its backup: the member that would own it if its owner were gone. It is
// a pure function of the members, so nodes that have heard the same agree
// without asking each other.
//
// A [Ring] is one node's part in the gossip. It tells the others of this node,
// hears of them, builds a new View a moment after something has changed, and
// tries for ever to reach seeds and members that it misses, since gossip alone
// never heals a split. Members that place partitions otherwise, or that share a
// name with one at another address, are refused by both sides.
//
// The gossip itself is hashicorp/memberlist, used in gossip.go alone; placement
// is buraksezer/consistent, used in placement.go alone.
package ring
