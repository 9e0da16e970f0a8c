package holder

import "weir/rpc"

// The messages of the protocol. Every one names its partition and an epoch; what
// else it says is told here. One that is lost is sent again by whoever waits for
// its answer, one that comes late or twice is told by its epoch and number.
const (
	ping rpc.MessageKind = iota + 1 // Number: the sender's clock
	pong                            // Number: that of the ping

	// From a holder to a copy. The words replace what the copy has.
	batch   // Number; Words; may begin the copy anew, may complete it
	revoke  // Number; the copy is not the designated one any more
	release // Number; the copy is not needed any more
	offer   // do you want the partition?
	grant   // Number; Words: the last ones; Epoch: the new holder's
	confirm // am I still the holder?

	// From a copy to its holder.
	copied    // Number: of the batch; may want the partition
	noCopy    // Number: of the batch; there is no copy that it belongs to
	revoked   // Number: of the revoke
	released  // the copy is dropped
	wanted    // the answer to offer
	granted   // Epoch: of the grant
	refused   // Epoch: of the grant; it will never be accepted
	confirmed // Number: of the confirm
	needed    // is this copy still needed?

	// To whoever takes itself for the holder.
	reject // Epoch, Node: the holder that is known
	moved  // the same, to somebody who is no holder

	// From one who held, or had a copy, to the holder. The words are merged.
	merge  // Number; Words; may be the last
	merged // Number: of the merge

	// To find out who holds a partition, when nobody is known to.
	who      // Number: of the survey
	here     // Number: of the survey; Epoch, Node: the holder that is known; Flags: what the sender is
	yield    // Epoch: of the one who is about to open: send me what you have
	takeOver // Node: a holder that does not answer, or says that it is none

	lastKind
)

// Flags of batch, copied, merge, reject.
const (
	flagBegin    = 1  // batch: forget what there was
	flagComplete = 2  // batch: from here on this is the designated copy
	flagWant     = 4  // copied: the sender's View names it as the owner
	flagLast     = 8  // merge: there are no more
	flagTaken    = 16 // batch, reject: the sender took over from the one it speaks to
	flagGone     = 32 // reject: the holder that is named is gone, as far as the sender knows
)

// What the sender of here is, in order of what it is worth.
const (
	isNone uint8 = iota
	isCopy
	isComplete
	isHolder

	flagEnded = 32 // beside one of them: another run has followed that of the holder
)

// Of reports whether the message is about a partition, and not about the nodes.
func Of(m *rpc.Message) bool { return m.Kind > pong && m.Kind < lastKind }

// Outgoing is a message and who is to have it.
type Outgoing struct {
	To rpc.Node
	rpc.Message
}

// Out is what a step asks for: messages to send and calls to go on with.
type Out struct {
	Messages []Outgoing
	Ready    []Ready
	Moved    int // words that a copy has been built of
	Taken    int // partitions taken over from a holder that failed
	Granted  int // partitions given away
	Opened   int // partitions opened because nobody had the designated copy
}

// Ready is a call that has waited long enough.
type Ready struct {
	*Call
	Verdict
}

func (o *Out) send(to rpc.Node, m rpc.Message) {
	o.Messages = append(o.Messages, Outgoing{to, m})
}
