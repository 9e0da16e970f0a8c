package holder

import "weir/rpc"

// maxEpoch is more than changes of hands will ever make. What claims more is
// ignored, so that epochs never overflow.
const maxEpoch = 1 << 62

// Receive takes in a message about this partition.
func (p *Partition) Receive(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	if m.Epoch > maxEpoch {
		return
	}
	switch m.Kind {
	case batch:
		p.onBatch(now, from, m, out)
	case copied:
		p.onCopied(now, from, m, out)
	case noCopy:
		p.onNoCopy(now, from, m, out)
	case revoke:
		p.onRevoke(now, from, m, out)
	case revoked:
		if p.role == open && m.Number == p.revoking && p.revoking != 0 {
			p.revoked = true
			p.tend(now, out)
		}
	case release:
		p.onRelease(now, from, m, out)
	case released:
		delete(p.retain, from)
	case offer:
		p.onOffer(now, from, m, out)
	case wanted:
		if p.role == open && p.desig.to == from && m.Epoch == p.epoch {
			p.wanted = true
			p.tend(now, out)
		}
	case grant:
		p.onGrant(now, from, m, out)
	case granted:
		if p.role == closing && from == p.holder && m.Epoch == p.epoch {
			p.gave(now, out)
		}
	case refused:
		p.onRefused(now, from, m, out)
	case confirm:
		p.onConfirm(now, from, m, out)
	case confirmed:
		if p.role == open && m.Number == p.confirm && p.confirm != 0 {
			p.assured(now, out)
		}
	case needed:
		p.onNeeded(now, from, m, out)
	case reject:
		p.onReject(now, from, m, out)
	case moved:
		p.onMoved(now, from, m, out)
	case merge:
		p.onMerge(now, from, m, out)
	case merged:
		p.onMerged(now, from, m, out)
	case who:
		p.onWho(from, m, out)
	case here:
		p.onHere(now, from, m, out)
	case yield:
		p.onYield(now, from, m, out)
	case takeOver:
		p.onTakeOver(now, from, m, out)
	}
	p.finish(now, out)
}

func (p *Partition) answer(to rpc.Node, kind rpc.MessageKind, number uint64, out *Out) {
	out.send(to, rpc.Message{Kind: kind, Partition: p.id, Epoch: p.epoch, Number: number})
}

// tellHolder says who is known to be the holder.
func (p *Partition) tellHolder(to rpc.Node, kind rpc.MessageKind, out *Out) {
	out.send(to, rpc.Message{Kind: kind, Flags: p.tookFrom(to), Partition: p.id, Epoch: p.epoch, Node: p.holder})
}

// rejectHolder tells one who takes itself for the holder who is.
func (p *Partition) rejectHolder(now int64, to rpc.Node, out *Out) {
	m := rpc.Message{Kind: reject, Flags: p.tookFrom(to), Partition: p.id, Epoch: p.epoch, Node: p.holder}
	if p.holder.IsZero() || p.peers.Gone(now, p.holder) {
		m.Flags |= flagGone
	}
	out.send(to, m)
}

// tookFrom returns the flag that says that this node took the partition over
// from the other, with all that it had acknowledged, and holds it since.
func (p *Partition) tookFrom(other rpc.Node) uint8 {
	if p.role == open && p.heldOff == other && p.taken == p.epoch {
		return flagTaken
	}
	return 0
}

// wants reports whether this node's View gives it the partition.
func (p *Partition) wants() bool {
	owner, _, view := p.peers.place(p.id)
	return owner == p.peers.self && !view.Leaving
}

// believes reports whether one who speaks as the holder is one, as far as is
// known here; else it is told who is. A holder below it gives way.
func (p *Partition) believes(now int64, from rpc.Node, m *rpc.Message, out *Out) bool {
	switch {
	case p.role == closing && from == p.holder && m.Epoch == p.epoch: // it has taken the grant
		p.gave(now, out)
		return true
	case p.role < opening && from == p.holder && m.Epoch >= p.epoch:
		return true
	case p.holder.IsZero() && m.Epoch >= p.epoch:
		return true
	case !above(m.Epoch, from, p.epoch, p.holder):
		p.rejectHolder(now, from, out)
		return false
	case p.role >= opening:
		p.stepDown(from, m.Epoch, m.Flags&flagTaken != 0, now, out)
		return false
	case p.merging.exists():
		p.mergeTo(from, m.Epoch, now, out)
		return false
	}
	return true
}

// follow notes the holder that this node believes.
func (p *Partition) follow(now int64, from rpc.Node, m *rpc.Message) {
	if from != p.holder {
		p.got, p.complete, p.source = 0, false, rpc.Node{}
	}
	p.holder, p.epoch, p.hinted = from, m.Epoch, now
}

func (p *Partition) onBatch(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	if !p.believes(now, from, m, out) {
		return
	}
	if p.restored && !p.merging.exists() {
		p.mergeTo(from, m.Epoch, now, out)
	}
	if p.merging.exists() {
		return // a merge goes first; the holder tries again
	}
	p.follow(now, from, m)
	switch {
	case m.Number <= p.got:
		return
	case m.Flags&flagBegin != 0:
		if p.peers.Placement().Leaving {
			p.complete, p.source = false, rpc.Node{}
			return
		}
		p.table.Clear()
		p.role, p.complete, p.source = copying, false, from
	case p.role != copying || p.source != from:
		p.answer(from, noCopy, m.Number, out)
		return
	}
	p.set(now, m)
	if m.Flags&flagComplete != 0 {
		if !p.complete {
			p.able = now
		}
		p.complete, p.designated = true, m.Number
	}
	reply := rpc.Message{Kind: copied, Partition: p.id, Epoch: p.epoch, Number: m.Number}
	if p.wants() {
		reply.Flags = flagWant
	}
	out.send(from, reply)
}

func (p *Partition) set(now int64, m *rpc.Message) {
	at := p.clock()
	for _, w := range m.Words {
		p.table.Set(w.Fingerprint, w.Word, at)
	}
	p.got, p.touched = m.Number, now
}

func (p *Partition) onCopied(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	if p.role != open || m.Epoch != p.epoch {
		return
	}
	dirty := len(p.target.dirty)
	switch {
	case from == p.desig.to && p.desig.acknowledge(m.Number, now):
	case from == p.target.to && p.target.acknowledge(m.Number, now):
		out.Moved += dirty - len(p.target.dirty)
		if p.target.last {
			if p.desig.exists() && p.desig.to != from {
				p.retain[p.desig.to] = 0
			}
			p.desig, p.target = p.target, stream{}
			p.desig.complete = true
			p.revoking, p.revoked = 0, false
			p.wanted = m.Flags&flagWant != 0
		}
	default:
		return
	}
	p.tend(now, out)
	if p.retired {
		p.wake()
		p.Flush(now, out)
	}
}

func (p *Partition) onNoCopy(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	if p.role != open {
		return
	}
	switch {
	case m.Number == p.confirm && p.confirm != 0:
		p.confirm = 0
		p.look(now, out)
	case from == p.desig.to && m.Number == p.desig.sent && m.Number != 0:
		p.desig = p.desig.lost()
		p.revoking, p.revoked = 0, false
	case from == p.target.to && m.Number == p.target.sent && m.Number != 0:
		p.target = stream{}
	default:
		return
	}
	p.tend(now, out)
}

func (p *Partition) onRevoke(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	if p.role >= opening {
		p.rejectHolder(now, from, out)
		return
	}
	if p.role == copying && p.holder == from {
		if m.Epoch < p.epoch || m.Number <= p.designated { // it was designated anew since
			return
		}
		p.complete, p.got = false, max(p.got, m.Number)
	}
	out.send(from, rpc.Message{Kind: revoked, Partition: p.id, Epoch: m.Epoch, Number: m.Number})
}

func (p *Partition) onRelease(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	switch {
	case p.role >= opening || from != p.holder && !above(m.Epoch, from, p.epoch, p.holder):
		p.rejectHolder(now, from, out)
		return
	case p.merging.exists() || p.restored || from == p.holder && (m.Epoch < p.epoch || m.Number <= p.got):
		return
	}
	p.drop()
	p.holder, p.epoch, p.got = from, max(p.epoch, m.Epoch), m.Number
	p.answer(from, released, m.Number, out)
}

func (p *Partition) onOffer(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	if !p.believes(now, from, m, out) {
		return
	}
	p.follow(now, from, m)
	if p.role == copying && p.complete && p.wants() {
		p.answer(from, wanted, 0, out)
	}
}

func (p *Partition) onGrant(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	switch {
	case m.Epoch == p.accepted && from == p.giver:
	case p.role == copying && p.complete && p.holder == from && m.Epoch == p.epoch+1 && m.Number > p.got && p.wants():
		p.set(now, m)
		p.becomeHolder(m.Epoch)
		p.desig = newStream(from)
		p.desig.complete, p.desig.begun = true, true
		p.count()
		p.accepted, p.giver = m.Epoch, from
		// A grant may have been under way for long. Its giver knows whether it
		// still stands, so nothing is decided before that one was asked.
		p.sure = 0
		p.answer(from, granted, 0, out)
		p.assure(now, out)
		return
	default:
		// It must not be accepted later, when its giver goes on by itself.
		if p.role < opening && m.Epoch > p.epoch {
			p.epoch = m.Epoch
		}
		out.send(from, rpc.Message{Kind: refused, Partition: p.id, Epoch: m.Epoch})
		return
	}
	out.send(from, rpc.Message{Kind: granted, Partition: p.id, Epoch: m.Epoch})
}

// gave takes in that the grant was taken: this is the new holder's copy now.
func (p *Partition) gave(now int64, out *Out) {
	p.role, p.complete, p.designated, p.source, p.got, p.touched, p.hinted = copying, true, 0, p.holder, 0, now, now
	p.able = now
	p.desig, p.target, p.retain = stream{}, stream{}, nil
	p.pledge = rpc.Message{}
	out.Granted++
	p.wake()
}

func (p *Partition) onRefused(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	if p.role != closing || from != p.holder || m.Epoch != p.epoch {
		return
	}
	p.role, p.holder = open, p.peers.self
	p.pledge = rpc.Message{}
	p.count()
	p.epoch++
	p.wanted, p.offered = false, now
	p.wake()
}

func (p *Partition) onConfirm(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	if p.role == closing && from == p.holder && m.Epoch == p.epoch {
		p.gave(now, out)
	}
	switch {
	case p.role == copying && p.source == from && p.epoch <= m.Epoch:
		out.send(from, rpc.Message{Kind: confirmed, Partition: p.id, Epoch: m.Epoch, Number: m.Number})
	case above(p.epoch, p.holder, m.Epoch, from):
		p.rejectHolder(now, from, out)
	default:
		out.send(from, rpc.Message{Kind: noCopy, Partition: p.id, Epoch: m.Epoch, Number: m.Number})
	}
}

func (p *Partition) onNeeded(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	switch {
	case p.role == open:
		p.tellHolder(from, moved, out)
		if _, known := p.retain[from]; from != p.desig.to && from != p.target.to && !known {
			p.retain[from] = 0
			p.tend(now, out)
		}
	case p.role >= opening:
	case p.holder == from:
		out.send(from, rpc.Message{Kind: moved, Partition: p.id, Epoch: p.epoch})
	default:
		p.tellHolder(from, moved, out)
	}
}

func (p *Partition) onReject(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	switch {
	case m.Node == p.peers.self:
		if p.role == open { // somebody knows this holder by a higher epoch
			p.epoch = max(p.epoch, m.Epoch)
		}
	case p.role >= opening && !above(m.Epoch, m.Node, p.epoch, p.holder):
	case p.role >= opening && m.Flags&flagGone != 0 && (m.Node.IsZero() || p.peers.Gone(now, m.Node)):
		if p.role == open {
			p.epoch = m.Epoch + 1
		}
	case p.role >= opening:
		p.stepDown(m.Node, m.Epoch, m.Flags&flagTaken != 0 && from == m.Node, now, out)
	default:
		p.onMoved(now, from, m, out)
	}
}

func (p *Partition) onMoved(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	switch {
	case p.role >= opening || m.Node == p.peers.self || m.Epoch < p.epoch:
	case m.Node.IsZero():
		if p.mayTakeOver() && from == p.holder {
			p.askHolder(now, out)
		}
	case p.merging.exists():
		if m.Node != p.merging.to {
			p.mergeTo(m.Node, m.Epoch, now, out)
		}
	default:
		p.touched = now
		p.hint(m.Node, m.Epoch, now)
	}
}

func (p *Partition) onMerge(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	switch {
	case p.role == closing:
		return // it is sent again
	case p.role < opening:
		if p.holder != from && !p.holder.IsZero() {
			p.tellHolder(from, moved, out)
		}
		return
	}
	at := p.clock()
	for _, w := range m.Words {
		p.table.Merge(w.Fingerprint, w.Word, at)
		p.change(w.Fingerprint, 0)
	}
	out.send(from, rpc.Message{Kind: merged, Partition: p.id, Epoch: p.epoch, Number: m.Number})
	if p.role == opening && m.Flags&flagLast != 0 {
		delete(p.yields, from)
		p.tend(now, out)
	}
}

func (p *Partition) onMerged(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	if s := &p.telling; s.to == from && s.acknowledge(m.Number, now) {
		p.tell(now, out)
		return
	}
	s := &p.merging
	if p.role != copying || s.to != from || !s.acknowledge(m.Number, now) {
		return
	}
	if s.last {
		// The words stay until they are released: the holder may be lost before
		// it has a copy of its own.
		p.merging, p.restored, p.touched = stream{}, false, now
		return
	}
	p.push(s, now, out)
}

// mergeTo sends what this node has to another holder than before.
func (p *Partition) mergeTo(to rpc.Node, epoch uint64, now int64, out *Out) {
	p.merging = newStream(to)
	p.all(p.merging.dirty)
	p.holder, p.epoch, p.hinted, p.got, p.complete = to, max(p.epoch, epoch), now, 0, false
	p.source = rpc.Node{}
	p.push(&p.merging, now, out)
}
