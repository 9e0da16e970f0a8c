// Package cluster runs checks where they belong: here if this node owns their
// partition, else at the owner, over one call that carries everything asked of
// that owner.
//
// A call goes to the owner that this node's View names. Views differ for a
// moment while members come and go, so a node that is asked for a partition it
// does not own names the owner it knows, and the asker follows that once. If no
// owner answers, the outcome says so and the caller's policy decides; there are
// no retries beyond the redirect, no sleeps and no loops.
//
// Checks come in sequences, each decided in order until its first refusal. A
// sequence is made of stages, the checks that one part of a key places: a
// caller's buckets are one stage, an e-mail address's another. Stage by stage
// all sequences of a call go to their owners at once, and each owner decides
// its share in their order at one reading of the clock. Since no two stages
// share a bucket, that comes to the same as one sequence after another.
package cluster
