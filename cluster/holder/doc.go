// Package holder decides who may decide a partition: the protocol of the
// cluster, as a state machine without I/O.
//
// # The idea
//
// The View says who should hold a partition. It never says who may decide it:
// views differ while members come and go. Who may decide is a token, the holder,
// one for each partition, with an epoch. Without failure the token moves only by
// an explicit grant of its holder. After a failure only the one designated copy
// takes it, and raises the epoch. Everything else finds the holder, or moves
// words.
//
// A [Partition] is one node's part in one partition. Messages, calls, ticks and
// Views go in; messages, verdicts about calls and changed words come out, in an
// [Out]. [Peers] is what the node knows of the others beside any partition. Both
// are plain data and take the time as a parameter, so that the same code runs in
// a simulation of thousands of clusters.
//
// # What a node is to a partition
//
//	none     nothing; it may remember who the holder is
//	copying  it has words of the holder's. The copy is complete if it is the
//	         designated one, which alone may take over
//	opening  nobody holds the partition and nobody has the designated copy: this
//	         node, its owner, collects what is left before it opens
//	closing  it has granted the partition and waits for the answer
//	open     it is the holder, and decides
//
// # Moving without failure
//
//  1. The holder keeps one copy up to date, with a batch of what has changed
//     every [Beat]: at the backup, if its View names it owner, else at the owner.
//     If that is another node than before, it builds a second copy there.
//  2. When that has everything, the old copy is revoked; only then the last
//     batch completes the new one. So at most one copy may ever take over.
//  3. If the copy is at the owner, and the owner's own View agrees, the holder
//     stops deciding and sends the grant with the last words. One who has
//     granted is a copy itself, complete, as there is nothing that it lacks.
//  4. The new holder asks the giver once whether the grant still stands, since
//     it may have been under way for long, and decides from then on. It knows
//     every word; nothing is fetched later.
//  5. A copy is dropped only when the holder, with its copy where the View wants
//     it, releases it.
//
// Calls never wait for all this but for one round trip: until the grant the old
// holder decides, and from then on the new one does. Others name whom they know.
//
// # Failures
//
// A call that failed elsewhere names the node that failed it. The designated
// copy takes over if that is its holder and is gone from the View, or silent for
// [HeardFor] or the forward timeout, or fails this node too. A holder that comes back is rejected by its
// copy, or finds out first: one that has not run for a while asks before it
// decides. It steps down, and sends what the other cannot know, to be merged.
// Two holders that meet after a split do the same, and the higher epoch, then the
// higher name, goes on.
//
// A node that answers heartbeats too late to be of use is slow: it is treated
// like a silent one, and gets nothing back before it was quick for a second. One
// to whom most others seem slow suspects itself instead: it takes nothing over
// and waits longer for answers.
//
// If no holder is known, a survey asks all that may have the partition. A member
// that does not answer is not one that has nothing: nothing is opened before all
// have answered or are gone. So a partition is opened empty only if its holder
// and its copy were lost together.
//
// # What cannot be had
//
// An answer that was given before the copy has the word is lost if the holder
// dies then. The bound is what was admitted since the last batch that was
// acknowledged: [Status].Admitted.
//
// # Numbers
//
// Batches, revokes and releases of one holder carry numbers that only rise, and
// every message carries an epoch: one that is lost, late or doubled is told by
// these. A grant raises the epoch by one, and so does opening; taking over raises
// it by two, so that no grant under way has the same.
package holder
