package holder

import (
	"time"

	"weir/leaky"
	"weir/rpc"
	"weir/shard"
)

// role is what a node is to a partition.
type role uint8

const (
	none    role = iota // nothing; perhaps it knows who the holder is
	copying             // it has words of the holder's
	opening             // it collects what is left of a partition that nobody holds
	closing             // it has granted the partition, and waits for the answer
	open                // it is the holder
)

// maxWaiting bounds the calls that wait at one partition. More fail at once.
const maxWaiting = 4096

// Partition is one node's part in one partition. Its methods must not be called
// at the same time; none of them blocks. now is a clock that goes on steadily and
// says nothing about words: those are instants of the deciding clock, which is
// called at where both occur.
type Partition struct {
	id    uint32
	peers *Peers
	clock func() int64 // the deciding clock
	table *shard.Table

	role   role
	epoch  uint64   // the highest that is known; the holder's own while open
	holder rpc.Node // whose copy it is, whom it was granted to, who is said to be the holder
	number uint64   // of what was sent last as a holder; it never starts anew

	// As a copy.
	source     rpc.Node // whose batches it follows; zero if it is only what is left of a copy
	complete   bool     // designated: it may take over
	got        uint64   // the last number that was heard of the holder
	designated uint64   // the number that made it complete
	able       int64    // since when it may take over; what failed before is no evidence
	touched    int64    // when it was written, or the holder was asked about it
	merging    stream   // to the holder, of one that was a holder or a copy beside it
	restored   bool     // there are words of a snapshot, which whoever holds it has to have

	// As a holder.
	sure     uint64 // the Peers' gap up to which nobody can have taken over
	desig    stream // to the designated copy
	target   stream // to the copy that is built to become it
	revoking uint64 // number of the revoke under way
	revoked  bool   // the designated copy knows that it is none any more
	retain   map[rpc.Node]int64
	offered  int64    // when an offer was sent last
	wanted   bool     // the owner wants the partition
	heldOff  rpc.Node // the holder that it was taken from
	holdOff  int64    // until when that one gets nothing
	taken    uint64   // the epoch by which it was taken
	pledge   rpc.Message
	pledged  int64  // when the grant was sent first
	repeated int64  // and last
	confirm  uint64 // number of the question whether it still is the holder, 0 if none
	asked    int64  // when the confirm was sent
	askedGap uint64

	accepted uint64   // epoch of the last grant taken
	giver    rpc.Node // whose that was
	hinted   int64    // when the holder was heard to be it
	advised  rpc.Node // who has the designated copy, by a survey
	advice   int64    // when that was found
	survey   survey
	yields   map[rpc.Node]bool // who has still to send what it has, while opening
	opened   int64             // when opening began
	doubt    uint64            // number of the question to a holder that is said to be none

	retired bool // nothing is decided here any more

	alone   *shard.Table // what was decided here while nobody who holds it could be asked; nil if nothing was
	telling stream       // of that, to the holder

	tended *Placement // the View that streams were last hurried for

	waiting []*Call
	stirred bool // there is reason to route them anew
}

// New returns a partition of which nothing is known, with words of that clock.
func New(id uint32, peers *Peers, clock func() int64) *Partition {
	return &Partition{id: id, peers: peers, clock: clock, table: shard.NewTable()}
}

// Table returns the words held, for reading.
func (p *Partition) Table() *shard.Table { return p.table }

// Holder reports whether this node decides the partition, and its epoch.
func (p *Partition) Holder() (epoch uint64, holds bool) { return p.epoch, p.role == open }

// Decides reports whether this node holds the partition, and has not stood still
// since it was sure of that.
func (p *Partition) Decides(now int64) bool {
	return p.role == open && !p.retired && p.sure == p.peers.Gap(now)
}

// Take decides the check. The partition must be one whose Route says Decide, or
// one that this node Decides.
func (p *Partition) Take(check leaky.Check, at int64) leaky.Result {
	res := p.table.Take(check, at)
	// A lockout counts what it refuses.
	if check.Cost > 0 && (res.Allowed || check.Rule.Kind() == leaky.Lockout) {
		p.change(check.Fingerprint, check.Cost)
	}
	return res
}

// Look answers what Take would.
func (p *Partition) Look(check leaky.Check, at int64) leaky.Result { return p.table.Look(check, at) }

// Lower gives the check's cost back. Settled tells when the copies know.
func (p *Partition) Lower(check leaky.Check, at int64) {
	p.table.Lower(check, at)
	p.change(check.Fingerprint, 0)
}

// Restore takes in a word that was saved when the whole cluster stopped. It is
// for a partition of which nothing is known yet.
func (p *Partition) Restore(fingerprint uint64, word leaky.Word, at int64) {
	p.table.Merge(fingerprint, word, at)
	p.role, p.restored = copying, true
}

// Status is what there is to tell of a partition.
type Status struct {
	Holds    bool          // this node decides it
	Empty    bool          // this node has nothing of it
	Copy     bool          // this node has the designated copy, and nothing besides
	Building bool          // a copy is being built, or it is being handed over
	Lacking  bool          // this node decides it, and its copy lacks something
	Bare     bool          // this node decides it, and there is no copy that could take over
	Lag      time.Duration // since the oldest change that no copy has; 0 if one has all, or none is wanted
	Admitted int64         // units admitted since a copy was as this one last
}

// Status tells how the partition is.
func (p *Partition) Status(now int64) Status {
	s := Status{
		Holds:    p.role == open,
		Empty:    p.role == none && p.alone == nil,
		Copy:     p.role == copying && p.complete && p.alone == nil && !p.merging.exists() && !p.restored,
		Building: p.role == closing || p.target.exists() || p.merging.exists(),
	}
	if p.role == open {
		s.Bare = !p.desig.exists() || p.revoked
		s.Lacking = p.desig.exists() && len(p.desig.dirty) > 0
		s.Admitted = p.desig.admitted
		if want, _ := p.copyAt(); p.desig.since != 0 && (p.desig.exists() || !want.IsZero()) {
			s.Lag = time.Duration(now - p.desig.since)
		}
	}
	return s
}

// Settled reports whether the designated copy has the bucket as it is now, or
// whether there is none that could.
func (p *Partition) Settled(fingerprint uint64) bool {
	_, dirty := p.desig.dirty[fingerprint]
	return !dirty
}

// Flush sends what is dirty without waiting for the next beat.
func (p *Partition) Flush(now int64, out *Out) {
	if p.role == open && p.desig.exists() && p.desig.sent == 0 {
		p.push(&p.desig, now, out)
	}
}

func (p *Partition) change(fingerprint uint64, units int64) {
	now := p.peers.lastTick.Load() // late by a beat at the most, for the lag alone
	p.desig.change(fingerprint, units, now)
	if p.target.exists() {
		p.target.change(fingerprint, units, now)
	}
}

// Route says where a call goes.
func (p *Partition) Route(now int64, c *Call, out *Out) Verdict {
	if p.Decides(now) {
		return Verdict{Action: Decide}
	}
	v := p.direct(now, c, out)
	p.finish(now, out)
	return v
}

// direct routes a call, and keeps it if it has to wait.
func (p *Partition) direct(now int64, c *Call, out *Out) Verdict {
	v := p.route(now, c, out)
	switch {
	case v.Action == Ask && (v.To == p.peers.self || c.Hop >= maxHop):
		return Verdict{Action: Fail}
	case v.Action != Wait:
		return v
	case c.waited || len(p.waiting) >= maxWaiting:
		return Verdict{Action: Fail}
	}
	c.waited = true
	c.until = now + int64(p.peers.Inner())
	if p.role == open {
		c.until += int64(p.peers.Inner()) // a confirmation, then perhaps a survey
	}
	p.waiting = append(p.waiting, c)
	return v
}

func (p *Partition) route(now int64, c *Call, out *Out) Verdict {
	ask := func(to rpc.Node) Verdict { return Verdict{Action: Ask, To: to} }
	owner, _, view := p.peers.place(p.id)
	switch {
	case p.retired:
		return p.routeRetired(now)
	case p.role == open:
		if p.assure(now, out) {
			return Verdict{Action: Decide}
		}
		return Verdict{Action: Wait}
	case p.role == opening:
		return Verdict{Action: Wait}
	case p.role == closing && !c.waited && now-p.pledged < int64(flushLimit):
		return Verdict{Action: Wait}
	case p.mayTakeOver():
		if p.peers.Gone(now, p.holder) {
			p.takeOver(now, out)
			return Verdict{Action: Decide}
		}
		if same(c.Failed, p.holder) && p.peers.Failed(now, p.holder, c.tried && c.asked > p.able) {
			p.takeOver(now, out)
			return Verdict{Action: Decide, Degraded: true}
		}
		return ask(p.holder)
	}
	known := !p.holder.IsZero() && p.holder != p.peers.self && !p.peers.Gone(now, p.holder) && p.useful(now, c, p.holder)
	switch {
	case known:
		return ask(p.holder)
	case !owner.IsZero() && owner != p.peers.self && p.useful(now, c, owner):
		return ask(owner)
	case owner.IsZero() && view.Leaving && len(view.Asked) == 0:
		// Nobody is active: the last one to leave goes on by itself. One that
		// has only begun to join may not know of anybody yet.
		p.open(now, out)
		return Verdict{Action: Decide}
	}
	if !p.advised.IsZero() && now-p.advice < int64(offersStop) && p.useful(now, c, p.advised) {
		return ask(p.advised)
	}
	ended := p.survey.ended
	p.look(now, out)
	switch {
	case p.role == open: // there was nobody to ask
		return Verdict{Action: Decide}
	case p.survey.number != 0:
		return Verdict{Action: Wait}
	case p.survey.ended != ended: // there was nobody who would answer; something is known now, or nothing
		return p.route(now, c, out)
	}
	return Verdict{Action: Fail} // a survey has just ended, and found nobody
}

// Retire has this node decide nothing more, as it is about to stop. Whoever has
// the copy of what it still holds then takes over with every word: see
// [Status].Lacking.
func (p *Partition) Retire(now int64, out *Out) {
	p.retired = true
	p.Flush(now, out)
}

// routeRetired routes a call to a node that is about to stop. While its copy
// lacks something the call waits, so that nobody takes over without that.
func (p *Partition) routeRetired(now int64) Verdict {
	switch {
	case p.role == open && p.desig.exists() && len(p.desig.dirty) > 0:
		return Verdict{Action: Wait}
	case p.role < opening && !p.holder.IsZero() && p.holder != p.peers.self && !p.peers.Gone(now, p.holder):
		return Verdict{Action: Ask, To: p.holder}
	}
	return Verdict{Action: Fail}
}

// useful reports whether there is use in passing the call on to a node. One that
// has failed the caller may still be within reach of this one.
func (p *Partition) useful(now int64, c *Call, n rpc.Node) bool {
	return !same(c.Failed, n) || !c.tried && !p.peers.Trouble(now, n)
}

// mayTakeOver reports whether this node has the one copy that takes over.
func (p *Partition) mayTakeOver() bool {
	return p.role == closing || p.role == copying && p.complete
}

// wake has the calls that wait routed anew, at the end of the step: what this
// node is to the partition may change once more before.
func (p *Partition) wake() { p.stirred = true }

// finish ends a step: calls that wait go on if there is reason to.
func (p *Partition) finish(now int64, out *Out) {
	for p.stirred {
		p.stirred = false
		calls := p.waiting
		p.waiting = nil
		for _, c := range calls {
			if v := p.direct(now, c, out); v.Action != Wait {
				out.Ready = append(out.Ready, Ready{c, v})
			}
		}
	}
}

// wakeOverdue ends the waiting of calls that have waited long enough.
func (p *Partition) wakeOverdue(now int64, out *Out) {
	calls := p.waiting
	p.waiting = nil
	for i, c := range calls {
		if now < c.until {
			p.waiting = append(p.waiting, calls[i:]...) // later ones have more time
			return
		}
		if v := p.direct(now, c, out); v.Action != Wait {
			out.Ready = append(out.Ready, Ready{c, v})
		}
	}
}

// hint takes in who is said to be the holder.
func (p *Partition) hint(holder rpc.Node, epoch uint64, now int64) {
	if holder.IsZero() || epoch < p.epoch || p.role != none && p.role != copying {
		return
	}
	if p.role == copying && p.complete && holder != p.holder && !above(epoch, holder, p.epoch, p.holder) {
		return
	}
	if holder != p.holder {
		p.got, p.complete, p.source = 0, false, rpc.Node{}
	}
	p.holder, p.epoch, p.hinted = holder, epoch, now
}

// becomeHolder changes the role and nothing else.
func (p *Partition) becomeHolder(epoch uint64) {
	p.role, p.epoch, p.holder = open, epoch, p.peers.self
	p.complete, p.source = false, rpc.Node{}
	p.desig, p.target, p.merging = stream{}, stream{}, stream{}
	p.revoking, p.revoked = 0, false
	p.retain = make(map[rpc.Node]int64)
	p.offered, p.wanted = 0, false
	p.survey, p.doubt = survey{}, 0
	p.confirm, p.restored = 0, false
}

// open makes this node the holder of what it has, which may be nothing.
func (p *Partition) open(now int64, out *Out) {
	p.becomeHolder(p.epoch + 1)
	p.count()
	out.Opened++
	p.sure = p.peers.Gap(now)
	p.tend(now, out)
	p.wake()
}

// takeOver makes the designated copy the holder.
func (p *Partition) takeOver(now int64, out *Out) {
	failed := p.holder
	// Two more, so that nobody can take it for a grant, which is one more.
	p.becomeHolder(p.epoch + 2)
	p.count()
	p.heldOff, p.holdOff, p.taken = failed, now+int64(holdOff), p.epoch
	p.sure = p.peers.Gap(now)
	out.Taken++
	p.tend(now, out)
	p.wake()
}

// stepDown gives way to a holder that is above this one. What it may not have is
// sent to it, to be merged: all, or if it is the designated copy that took over,
// what it has not acknowledged.
func (p *Partition) stepDown(to rpc.Node, epoch uint64, taken bool, now int64, out *Out) {
	merging := newStream(to)
	if taken && p.desig.complete && p.desig.to == to {
		for fingerprint := range p.desig.dirty {
			merging.dirty[fingerprint] = 0
		}
	} else {
		p.all(merging.dirty)
	}
	for _, s := range []*stream{&p.desig, &p.target} {
		if s.exists() && s.to != to {
			out.send(s.to, rpc.Message{Kind: moved, Partition: p.id, Epoch: epoch, Node: to})
		}
	}
	p.desig, p.target = stream{}, stream{}
	p.role, p.epoch, p.holder = copying, epoch, to
	p.complete, p.source, p.got, p.touched, p.hinted = false, rpc.Node{}, 0, now, now
	p.merging = merging
	p.push(&p.merging, now, out)
	p.wake()
}

// all marks every word that is held.
func (p *Partition) all(dirty map[uint64]uint64) {
	p.table.Range(p.clock(), func(fingerprint uint64, _ leaky.Word) bool {
		dirty[fingerprint] = 0
		return true
	})
}

// drop forgets the words, and remembers the holder.
func (p *Partition) drop() {
	p.role, p.complete, p.source, p.merging, p.restored = none, false, rpc.Node{}, stream{}, false
	p.table.Clear()
}
