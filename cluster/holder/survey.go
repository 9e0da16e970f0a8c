package holder

import (
	"time"

	"weir/rpc"
)

const (
	surveyPause = 10 * time.Millisecond // between two surveys of one partition
	yieldLimit  = time.Second           // for what is left of a partition to arrive
)

// survey asks every member what it knows of a partition.
type survey struct {
	number  uint64 // of the one under way, 0 if none
	at      int64  // when it began
	ended   int64  // when the last one ended
	missing map[rpc.Node]bool
	found   map[rpc.Node]finding
}

type finding struct {
	is     uint8
	epoch  uint64
	holder rpc.Node
	ended  bool // that run of the holder is over, by what the finder knows
}

// look begins a survey, unless one is under way or has just ended.
func (p *Partition) look(now int64, out *Out) {
	s := &p.survey
	if s.number != 0 || s.ended != 0 && now-s.ended < int64(surveyPause) {
		return
	}
	p.number++
	*s = survey{number: p.number, at: now, missing: make(map[rpc.Node]bool), found: make(map[rpc.Node]finding)}
	ask := func(n rpc.Node) {
		s.missing[n] = true
		out.send(n, rpc.Message{Kind: who, Partition: p.id, Number: s.number})
	}
	for _, n := range p.peers.Placement().Asked {
		ask(n)
	}
	if n := p.holder; !n.IsZero() && n != p.peers.self && !s.missing[n] && !p.peers.Gone(now, n) {
		ask(n)
	}
	for n := range s.missing {
		if !p.peers.Silent(now, n) {
			return
		}
	}
	p.conclude(now, out) // there is nobody, or nobody who would answer now
}

func (p *Partition) onWho(from rpc.Node, m *rpc.Message, out *Out) {
	reply := rpc.Message{Kind: here, Partition: p.id, Number: m.Number, Epoch: p.epoch, Node: p.holder, Flags: isNone}
	switch {
	case p.role >= opening: // while closing, Node is who is about to be it
		reply.Flags = isHolder
	case p.role == copying && p.complete:
		reply.Flags = isComplete
	case p.role == copying:
		reply.Flags = isCopy
	}
	if p.peers.Ended(p.holder) {
		reply.Flags |= flagEnded
	}
	out.send(from, reply)
}

func (p *Partition) onHere(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	is, ended := m.Flags&^flagEnded, m.Flags&flagEnded != 0
	if p.doubt != 0 && m.Number == p.doubt {
		p.doubt = 0
		switch next := m.Node; {
		case !p.mayTakeOver() || from != p.holder || is == isHolder:
		case !next.IsZero() && next != p.peers.self && next != from && !ended && !p.peers.Gone(now, next):
			p.hint(next, m.Epoch, now)
		default:
			p.epoch = max(p.epoch, m.Epoch)
			p.takeOver(now, out)
		}
		return
	}
	s := &p.survey
	if s.number == 0 || m.Number != s.number || !s.missing[from] {
		return
	}
	delete(s.missing, from)
	s.found[from] = finding{is, m.Epoch, m.Node, ended}
	// A holder that is not in this node's View yet is not gone. It has to be
	// heard too, unless it is an earlier run of one that has started again.
	if _, found := s.found[m.Node]; !found && !s.missing[m.Node] && m.Node != p.peers.self && !m.Node.IsZero() && !ended && !p.peers.Gone(now, m.Node) {
		s.missing[m.Node] = true
		out.send(m.Node, rpc.Message{Kind: who, Partition: p.id, Number: s.number})
	}
	if len(s.missing) == 0 || is == isHolder && p.role != open {
		p.conclude(now, out)
	}
}

// conclude ends the survey. A member that has not answered may be the holder, so
// nothing is opened before all have: a timeout is not an absence.
func (p *Partition) conclude(now int64, out *Out) {
	s := p.survey
	p.survey = survey{ended: now}
	all := len(s.missing) == 0
	var holder, complete, most rpc.Node
	var holderEpoch, completeEpoch, epoch uint64
	rest := false    // there are copies that are not complete
	pending := false // it is about to be granted to this node
	epoch = p.epoch
	for n, f := range s.found {
		living := f.holder
		if f.ended {
			living = rpc.Node{}
		}
		if above(f.epoch, living, epoch, most) {
			epoch, most = f.epoch, living
		}
		switch f.is {
		case isHolder:
			if f.holder == p.peers.self {
				pending = p.role != open
			} else if holder.IsZero() || above(f.epoch, f.holder, holderEpoch, holder) {
				holder, holderEpoch = f.holder, f.epoch
			}
		case isComplete:
			if complete.IsZero() || above(f.epoch, n, completeEpoch, complete) {
				complete, completeEpoch = n, f.epoch
			}
		case isCopy:
			rest = true
		}
	}
	_, _, view := p.peers.place(p.id)
	switch {
	case p.role == open:
		if !holder.IsZero() && above(holderEpoch, holder, p.epoch, p.peers.self) {
			p.stepDown(holder, holderEpoch, false, now, out)
			return
		}
		if epoch > p.epoch && !most.IsZero() && most != p.peers.self && !p.peers.Gone(now, most) {
			p.stepDown(most, epoch, false, now, out)
			return
		}
		p.epoch = max(p.epoch, epoch)
		p.assured(now, out)
	case p.role > copying:
	case !holder.IsZero() && (p.holder.IsZero() || holder == p.holder || above(holderEpoch, holder, p.epoch, p.holder)):
		if p.merging.exists() && p.merging.to != holder {
			p.mergeTo(holder, holderEpoch, now, out)
		} else {
			p.hint(holder, max(p.epoch, holderEpoch), now)
		}
	case pending:
	case !holder.IsZero():
		// It does not know of the one that is known here. It learns that when it
		// speaks as the holder; calls may go there.
		p.advised, p.advice = holder, now
	case p.mayTakeOver() && p.epoch >= completeEpoch:
		p.askHolder(now, out)
	case !complete.IsZero():
		p.advised, p.advice = complete, now
		out.send(complete, rpc.Message{Kind: takeOver, Partition: p.id, Epoch: completeEpoch, Node: s.found[complete].holder})
	case !all:
	case !p.wants() && !(view.Leaving && len(view.Asked) == 0):
	case rest:
		p.gather(s, epoch, now, out)
		return
	default:
		p.epoch = epoch
		p.open(now, out)
		return
	}
	p.wake()
}

// gather collects what is left of a partition whose holder and designated copy
// are lost, before it opens.
func (p *Partition) gather(s survey, epoch uint64, now int64, out *Out) {
	p.becomeHolder(epoch + 1)
	p.role, p.opened, p.offered = opening, now, now
	p.yields = make(map[rpc.Node]bool)
	for n, f := range s.found {
		if f.is == isCopy {
			p.yields[n] = true
		}
	}
	p.askToYield(out)
}

// askToYield asks for what is left elsewhere.
func (p *Partition) askToYield(out *Out) {
	for _, n := range inOrder(p.yields) {
		p.answer(n, yield, 0, out)
	}
}

func (p *Partition) onYield(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	switch {
	case p.role >= opening || p.complete && !p.peers.Gone(now, p.holder):
	case m.Epoch < p.epoch && p.holder != from && !p.peers.Gone(now, p.holder):
		p.rejectHolder(now, from, out)
	case p.merging.exists() && p.merging.to == from:
	case p.role == copying:
		p.mergeTo(from, m.Epoch, now, out)
	default:
		p.number++
		out.send(from, rpc.Message{Kind: merge, Partition: p.id, Epoch: m.Epoch, Number: p.number, Flags: flagLast})
	}
}

// onTakeOver looks whether the holder of this copy really is none any more.
func (p *Partition) onTakeOver(now int64, _ rpc.Node, m *rpc.Message, out *Out) {
	if !p.mayTakeOver() || p.holder != m.Node || m.Epoch != p.epoch {
		return
	}
	if p.peers.Gone(now, p.holder) || p.peers.Silent(now, p.holder) {
		p.takeOver(now, out)
		return
	}
	p.askHolder(now, out)
}

// askHolder asks the holder whether it is one; if it says no, the copy takes
// over.
func (p *Partition) askHolder(now int64, out *Out) {
	p.number++
	p.doubt = p.number
	out.send(p.holder, rpc.Message{Kind: who, Partition: p.id, Number: p.doubt})
}
