package cluster

import (
	"context"
	"sync"
	"sync/atomic"

	"weir/cluster/holder"
	"weir/leaky"
	"weir/rpc"
)

// partition is this node's part in one partition, for many goroutines.
type partition struct {
	busy atomic.Bool // it is to be ticked more often than with each beat

	mu sync.Mutex
	*holder.Partition
	lowered []lowered // who waits until the designated copy has a lowered word
}

// lowered is closed when no copy has the word as it was before.
type lowered struct {
	fingerprint uint64
	done        chan struct{}
}

// question is one sequence of checks about one partition, asked of this node.
// While it waits it belongs to the partition.
type question struct {
	call    holder.Call
	checks  []leaky.Check
	mode    leaky.Mode
	results []leaky.Result
	verdict holder.Verdict
	done    chan holder.Verdict // of one that waits
	settled []chan struct{}     // of one that lowers
}

// status tells how the partition is.
func (p *partition) status(now int64) holder.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Status(now)
}

// advance runs one step of the protocol at a partition, and what comes of it.
func (c *Cluster) advance(number uint32, out *holder.Out, f func(*holder.Partition)) {
	p := &c.partitions[number]
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.Partition)
	c.goOn(p, out)
}

// goOn ends a step: calls that have waited are decided, or told where to go. It
// must be called with the partition's lock held.
func (c *Cluster) goOn(p *partition, out *holder.Out) {
	for _, ready := range out.Ready {
		q := ready.Owner.(*question)
		if ready.Action == holder.Decide {
			p.decide(q, c.clock())
		}
		q.done <- ready.Verdict
	}
	out.Ready = out.Ready[:0]
	p.busy.Store(p.Busy())
	if len(p.lowered) > 0 {
		p.tellLowered()
	}
}

// ask routes the question, and decides it if that is due here and now, at that
// reading of the deciding clock.
func (c *Cluster) ask(q *question, at int64, out *holder.Out) {
	p := &c.partitions[q.checks[0].Partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	now := c.now() // not before the lock, for which it may have waited
	q.call.Owner = q
	q.verdict = p.Route(now, &q.call, out)
	switch q.verdict.Action {
	case holder.Decide:
		p.decide(q, at)
	case holder.Wait:
		q.done = make(chan holder.Verdict, 1)
	}
	if q.mode == leaky.Lowering {
		p.Flush(now, out)
	}
	if q.verdict.Action != holder.Decide || len(out.Ready) > 0 {
		c.goOn(p, out)
	}
}

// await returns what became of a question that waits, or false if it is given
// up.
func (c *Cluster) await(ctx context.Context, q *question) bool {
	select {
	case q.verdict = <-q.done:
		return true
	case <-ctx.Done():
	case <-c.stop:
	}
	return false
}

// decide answers the question. It must be called with the lock held.
func (p *partition) decide(q *question, at int64) {
	q.answer(func(leaky.Check) words { return p }, at)
	if q.mode != leaky.Lowering {
		return
	}
	for _, check := range q.checks {
		if !p.Settled(check.Fingerprint) {
			done := make(chan struct{})
			p.lowered = append(p.lowered, lowered{check.Fingerprint, done})
			q.settled = append(q.settled, done)
		}
	}
}

// words is where a check is decided: a partition that is held, or a table of
// what was decided alone.
type words interface {
	Take(check leaky.Check, at int64) leaky.Result
	Look(check leaky.Check, at int64) leaky.Result
	Lower(check leaky.Check, at int64)
}

// answer decides the checks in order, each in its words, as the mode says.
func (q *question) answer(of func(leaky.Check) words, at int64) {
	if q.mode == leaky.TakingAll {
		for _, check := range q.checks {
			res := of(check).Look(check, at)
			q.results = append(q.results, res)
			if !res.Allowed {
				return
			}
		}
		q.results = q.results[:len(q.results)-len(q.checks)]
	}
	for _, check := range q.checks {
		in := of(check)
		var res leaky.Result
		switch {
		case q.mode == leaky.Lowering:
			in.Lower(check, at)
			res = in.Look(lookOf(check), at)
		case q.mode == leaky.Looking || check.LookOnly:
			res = in.Look(check, at)
		default:
			res = in.Take(check, at)
		}
		q.results = append(q.results, res)
		if !res.Allowed && q.mode.Takes() {
			return
		}
	}
}

// lookOf is the check without its cost: how much is left.
func lookOf(check leaky.Check) leaky.Check {
	check.Cost = 0
	return check
}

func (p *partition) tellLowered() {
	rest := p.lowered[:0]
	for _, l := range p.lowered {
		if p.Settled(l.fingerprint) {
			close(l.done)
		} else {
			rest = append(rest, l)
		}
	}
	p.lowered = rest
}

// decideAlone decides what nobody who holds the partition could be asked. If
// this node has become the holder since, it decides as that.
func (c *Cluster) decideAlone(q *question) {
	at := c.clock()
	p := &c.partitions[q.checks[0].Partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Decides(c.now()) {
		p.decide(q, at)
		return
	}
	q.answer(func(check leaky.Check) words {
		for _, group := range check.Groups {
			if group != 0 {
				p.Alone(group, at)
			}
		}
		return p.Alone(check.Fingerprint, at)
	}, at)
}

// nodeNamed returns the run of a member that the View shows.
func (r *routes) nodeNamed(name string, self rpc.Node) (rpc.Node, bool) {
	if name == self.Name {
		return self, true
	}
	if p := r.byName[name]; p != nil {
		return p.node, true
	}
	return rpc.Node{}, false
}
