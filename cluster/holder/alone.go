package holder

import (
	"weir/leaky"
	"weir/rpc"
	"weir/shard"
)

// Alone returns a table to decide a bucket by while nobody who holds the
// partition can be asked. What a copy here knows of the bucket counts. What is
// decided by the table is told to the holder as soon as there is one within
// reach, and again until it answers; if that is this node, it counts at once.
func (p *Partition) Alone(fingerprint uint64, at int64) *shard.Table {
	if p.alone == nil {
		p.alone = shard.NewTable()
	}
	p.alone.Merge(fingerprint, p.table.Get(fingerprint), at)
	if p.telling.exists() {
		p.telling.dirty[fingerprint] = 0
	}
	return p.alone
}

// Rebuild gives back the memory of buckets that have drained.
func (p *Partition) Rebuild(at int64) {
	p.table.Rebuild(at)
	if p.alone != nil {
		p.alone.Rebuild(at)
	}
}

// Words calls f for every word that lives. What was decided alone comes again,
// after what is held of the same bucket.
func (p *Partition) Words(at int64, f func(fingerprint uint64, word leaky.Word)) {
	for _, table := range []*shard.Table{p.table, p.alone} {
		if table == nil {
			continue
		}
		table.Range(at, func(fingerprint uint64, word leaky.Word) bool {
			f(fingerprint, word)
			return true
		})
	}
}

// count takes in what was decided alone, by a node that has become the holder.
func (p *Partition) count() {
	if p.alone == nil {
		return
	}
	at := p.clock()
	p.alone.Range(at, func(fingerprint uint64, word leaky.Word) bool {
		p.table.Merge(fingerprint, word, at)
		p.change(fingerprint, 0)
		return true
	})
	p.alone, p.telling = nil, stream{}
}

// tell sends what was decided alone to the holder.
func (p *Partition) tell(now int64, out *Out) {
	to := p.holder
	if to.IsZero() || p.peers.Gone(now, to) {
		to, _, _ = p.peers.place(p.id) // which knows, if it is not the holder
	}
	s := &p.telling
	switch {
	case p.alone == nil || p.role >= opening || to.IsZero() || to == p.peers.self || p.peers.Trouble(now, to):
		return
	case s.to != to:
		*s = newStream(to)
		p.alone.Range(p.clock(), func(fingerprint uint64, _ leaky.Word) bool {
			s.dirty[fingerprint] = 0
			return true
		})
	case s.sent != 0 && !s.overdue(now):
		return
	}
	if len(s.dirty) == 0 {
		p.alone, *s = nil, stream{} // drained meanwhile, or all is told
		return
	}
	p.number++
	words := s.collect(p.alone, p.number, now, batchWords)
	out.send(s.to, rpc.Message{Kind: merge, Partition: p.id, Epoch: p.epoch, Number: s.sent, Words: words})
}
