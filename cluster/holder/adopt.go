package holder

import "weir/rpc"

// Adopt takes in words that this node decided by itself while nobody who holds
// the partition could be asked: its own if it holds the partition by now, else
// they are sent to the holder, once. It reports whether there was somebody to
// take them.
func (p *Partition) Adopt(words []rpc.Word, now int64, out *Out) bool {
	switch {
	case p.role == open:
		at := p.clock()
		for _, w := range words {
			p.table.Merge(w.Fingerprint, w.Word, at)
			p.change(w.Fingerprint, 0)
		}
		return true
	case p.role >= opening || p.holder.IsZero() || p.peers.Gone(now, p.holder) || p.peers.Trouble(now, p.holder):
		return false
	}
	for len(words) > 0 {
		n := min(len(words), rpc.MaxWords)
		p.number++
		out.send(p.holder, rpc.Message{Kind: merge, Partition: p.id, Epoch: p.epoch, Number: p.number, Words: words[:n]})
		words = words[n:]
	}
	return true
}
