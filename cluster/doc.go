// Package cluster runs checks where they belong: at the holder of their
// partition, which is this node or another one, over one call that carries
// everything asked of that node.
//
// Who holds a partition is the matter of package holder, a state machine; this
// package gives it clocks, locks and connections: it carries its messages, ticks
// it, tells it of every View, and does with calls what it says.
//
// # The way of a call
//
// A call goes to the owner that this node's View names. If that is not the
// holder it names whom it knows, and the asker follows that once. If a node does
// not answer, one last node is asked: the one that has redirected to it, or the
// owner's backup; it is told who has failed, and takes over if that is so. A
// node that is asked by name passes a question on if another one holds the
// partition by now, at most three times. If those asked answer, and do not know,
// as when owner and backup have just joined, the asker finds the holder itself.
// If nobody answers, the outcome says so and the caller's policy decides. There
// are no other retries, no sleeps and no loops.
//
// A circuit to a peer that is silent or slow skips the first step, never the
// last. It is fed by heartbeats, so it needs no failed calls to open or to close.
//
// # Order
//
// Checks come in sequences, each decided in order until its first refusal. A
// sequence is made of stages, the checks that one part of a key places: a
// caller's buckets are one stage, an e-mail address's another. Stage by stage
// all sequences of a call go to their nodes at once, and each node decides its
// share in their order at one reading of the clock. Since no two stages share a
// bucket, that comes to the same as one sequence after another.
package cluster
