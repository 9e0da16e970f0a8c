package holder

import (
	"time"

	"weir/rpc"
)

const (
	askRarely = 5 * time.Second        // whether a copy is still needed
	askOften  = 600 * time.Millisecond // the same, of one that should not last
)

// Tick does what is due. It is to be called every [Beat], and more often while
// Busy.
func (p *Partition) Tick(now int64, out *Out) {
	p.tend(now, out)
	if len(p.waiting) > 0 {
		p.wakeOverdue(now, out)
	}
	p.finish(now, out)
}

// Busy reports whether something is under way that takes less than a beat.
func (p *Partition) Busy() bool {
	return len(p.waiting) > 0 || p.role == closing || p.role == opening || p.survey.number != 0 ||
		p.target.exists() || p.merging.exists() || p.confirm != 0
}

func (p *Partition) tend(now int64, out *Out) {
	if p.survey.number != 0 && now-p.survey.at >= int64(p.peers.Inner()) {
		p.conclude(now, out)
	}
	if view := p.peers.Placement(); view != p.tended {
		p.tended = view
		for _, s := range []*stream{&p.desig, &p.target, &p.merging, &p.telling} {
			s.hurry()
		}
	}
	switch {
	case p.alone == nil:
	case p.role == open:
		p.count()
	default:
		p.tell(now, out)
	}
	switch p.role {
	case open:
		p.tendHolder(now, out)
	case closing:
		p.tendGrant(now, out)
	case opening:
		p.tendOpening(now, out)
	default:
		p.tendCopy(now, out)
	}
}

// tendHolder keeps the designated copy where the View wants it: at the backup;
// or at the owner, if that is another node, which is then given the partition.
func (p *Partition) tendHolder(now int64, out *Out) {
	want, own := p.copyAt()
	p.leaveGone(now)
	if p.confirm != 0 && now-p.asked >= int64(p.peers.Inner()) {
		p.confirm = 0
		p.look(now, out)
		if p.role != open {
			return
		}
	}
	if p.target.exists() && !p.target.ended && (p.target.to != want || p.desig.to == want && p.revoking == 0) {
		p.retain[p.target.to] = 0
		p.target = stream{}
	}
	switch {
	case p.target.exists():
		p.build(now, out)
	case want.IsZero():
		switch unwanted := own && p.peers.replicas == 0 && p.desig.exists(); {
		case unwanted && !p.revoked:
			p.revoke(now, out)
		case unwanted:
			p.retain[p.desig.to] = 0
			p.desig = p.desig.lost()
			p.revoking, p.revoked = 0, false
		}
		p.releaseOthers(now, out)
	case p.desig.to != want || p.revoking != 0:
		// It may be revoked already, for one that is not wanted any more: then
		// it is built anew.
		p.target = newStream(want)
		p.all(p.target.dirty)
		p.build(now, out)
	case own:
		p.releaseOthers(now, out)
	default:
		p.give(want, now, out)
	}
	if p.role == open && p.desig.exists() && !p.revoked && p.desig.to != p.target.to {
		s := &p.desig
		if s.overdue(now) || s.sent == 0 && len(s.dirty) > 0 && now-s.at >= int64(Beat) {
			p.push(s, now, out)
		}
	}
}

// copyAt returns where the View wants the copy of what this node holds, if it
// wants one: at the backup if this node is the owner, else at the owner.
func (p *Partition) copyAt() (want rpc.Node, own bool) {
	owner, backup, _ := p.peers.place(p.id)
	switch {
	case !owner.IsZero() && owner != p.peers.self:
		return owner, false
	case p.peers.replicas == 0 || backup == p.peers.self:
		return rpc.Node{}, true
	}
	return backup, true
}

// leaveGone gives up copies at members that are gone.
func (p *Partition) leaveGone(now int64) {
	if p.desig.exists() && p.peers.Gone(now, p.desig.to) {
		p.desig = p.desig.lost()
		p.revoking, p.revoked = 0, false
	}
	if p.target.exists() && p.peers.Gone(now, p.target.to) {
		p.target = stream{}
	}
	for n := range p.retain {
		if p.peers.Gone(now, n) {
			delete(p.retain, n)
		}
	}
}

// build brings the target as far as the designated copy, which is then revoked:
// only one may ever take over.
func (p *Partition) build(now int64, out *Out) {
	s := &p.target
	delete(p.retain, s.to)
	if s.sent != 0 && !s.overdue(now) {
		return
	}
	if !s.begun || len(s.dirty) > rpc.MaxWords {
		if p.peers.spend(now, min(len(s.dirty), batchWords)) {
			p.push(s, now, out)
		}
		return
	}
	if p.desig.exists() && p.desig.to != s.to && !p.revoked {
		p.revoke(now, out)
		if len(s.dirty) > 0 && now-s.at >= int64(Beat) {
			p.push(s, now, out)
		}
		return
	}
	s.ended = true
	words := p.collect(s, now, rpc.MaxWords)
	s.last = true
	out.send(s.to, rpc.Message{Kind: batch, Flags: flagComplete | p.tookFrom(s.to), Partition: p.id, Epoch: p.epoch, Number: s.sent, Words: words})
}

// revoke tells the designated copy that it is none any more, until that says so.
func (p *Partition) revoke(now int64, out *Out) {
	if p.revoking == 0 || now-p.offered >= int64(again) {
		p.number++
		p.revoking, p.offered = p.number, now
		p.answer(p.desig.to, revoke, p.revoking, out)
	}
}

// collect takes the next batch of a stream of what this node holds.
func (p *Partition) collect(s *stream, now int64, most int) []rpc.Word {
	p.number++
	return s.collect(p.table, p.number, now, most)
}

// push sends the next batch of a stream.
func (p *Partition) push(s *stream, now int64, out *Out) {
	if s.sent != 0 && !s.overdue(now) {
		return
	}
	if s == &p.merging {
		if len(s.dirty) == 0 && !s.ended {
			*s = stream{} // the holder has everything
			return
		}
		words := p.collect(s, now, batchWords)
		m := rpc.Message{Kind: merge, Partition: p.id, Epoch: p.epoch, Number: s.sent, Words: words}
		if s.last = len(words) == len(s.dirty); s.last {
			m.Flags = flagLast
		}
		out.send(s.to, m)
		return
	}
	m := rpc.Message{Kind: batch, Flags: p.tookFrom(s.to), Partition: p.id, Epoch: p.epoch}
	if !s.begun {
		m.Flags |= flagBegin
	}
	m.Words = p.collect(s, now, batchWords)
	m.Number, s.last = s.sent, false
	out.send(s.to, m)
}

// releaseOthers lets go of copies that are not needed, now that the partition
// and its designated copy are where the View wants them.
func (p *Partition) releaseOthers(now int64, out *Out) {
	for _, n := range inOrder(p.retain) {
		last := p.retain[n]
		switch {
		case n == p.desig.to:
			delete(p.retain, n)
		case last == 0 || now-last >= int64(again):
			p.retain[n] = now
			p.number++
			p.answer(n, release, p.number, out)
		}
	}
}

// give hands the partition to its owner, which has the designated copy, once
// that one says that it wants it.
func (p *Partition) give(owner rpc.Node, now int64, out *Out) {
	if owner == p.heldOff && now < p.holdOff || p.peers.Trouble(now, owner) {
		return
	}
	if !p.wanted {
		if p.offered == 0 || now-p.offered >= int64(again) {
			p.offered = now
			p.answer(owner, offer, 0, out)
		}
		return
	}
	if !p.assure(now, out) {
		return
	}
	s := &p.desig
	if len(s.dirty) > rpc.MaxWords {
		p.push(s, now, out)
		return
	}
	// What is under way may come after the grant, and is ignored then: so the
	// grant carries it again.
	for fingerprint := range s.dirty {
		s.dirty[fingerprint] = 0
	}
	words := p.collect(s, now, rpc.MaxWords)
	p.role, p.holder = closing, owner
	p.epoch++
	p.pledge = rpc.Message{Kind: grant, Partition: p.id, Epoch: p.epoch, Number: s.sent, Words: words}
	p.pledged, p.repeated, p.able = now, now, now
	out.send(owner, p.pledge)
}

func (p *Partition) tendGrant(now int64, out *Out) {
	switch {
	case p.peers.Gone(now, p.holder):
		p.takeOver(now, out)
	case now-p.repeated >= int64(p.peers.Inner()):
		p.repeated = now
		out.send(p.holder, p.pledge)
	}
}

func (p *Partition) tendOpening(now int64, out *Out) {
	for n := range p.yields {
		if p.peers.Gone(now, n) {
			delete(p.yields, n)
		}
	}
	if len(p.yields) == 0 || now-p.opened >= int64(yieldLimit) {
		p.epoch-- // open raises it
		p.open(now, out)
		return
	}
	if now-p.offered >= int64(again) {
		p.offered = now
		p.askToYield(out)
	}
}

// tendCopy looks after a partition that somebody else holds, or nobody.
func (p *Partition) tendCopy(now int64, out *Out) {
	holderGone := !p.holder.IsZero() && p.peers.Gone(now, p.holder)
	if holderGone && p.mayTakeOver() {
		p.takeOver(now, out)
		return
	}
	if p.restored && !p.merging.exists() && !p.holder.IsZero() && !holderGone {
		p.mergeTo(p.holder, p.epoch, now, out)
	}
	if p.merging.exists() && !holderGone && p.merging.overdue(now) {
		p.push(&p.merging, now, out)
	}
	wants := p.wants()
	if wants && !p.complete && (p.holder.IsZero() || holderGone || now-p.hinted > int64(offersStop)) {
		if now-p.survey.ended >= int64(again) || p.survey.ended == 0 {
			p.look(now, out)
		}
		return
	}
	if p.role != copying {
		return
	}
	after := askRarely
	if !p.complete || wants {
		after = askOften
	}
	if now-p.touched < int64(after) {
		return
	}
	p.touched = now
	to := p.holder
	if owner, _, _ := p.peers.place(p.id); (to.IsZero() || holderGone || p.merging.exists()) && owner != p.peers.self {
		to = owner
	}
	if !to.IsZero() {
		p.answer(to, needed, 0, out)
	}
}

// assure reports whether nobody can have taken over from this holder, and else
// begins to ask.
func (p *Partition) assure(now int64, out *Out) bool {
	gap := p.peers.Gap(now)
	able := p.desig.to
	if p.target.ended {
		able = p.target.to // the other one is revoked
	}
	switch {
	case p.sure == gap:
		return true
	case p.confirm != 0 && p.askedGap == gap || p.survey.number != 0:
	case !able.IsZero() && !p.peers.Gone(now, able):
		p.number++
		p.confirm, p.asked, p.askedGap = p.number, now, gap
		p.answer(able, confirm, p.confirm, out)
	default:
		p.askedGap = gap
		p.look(now, out)
		return p.role == open && p.sure == gap
	}
	return false
}

// assured takes in that nobody has taken over by the time of asking.
func (p *Partition) assured(now int64, out *Out) {
	p.confirm = 0
	p.sure = p.askedGap
	p.count()
	p.wake()
}
