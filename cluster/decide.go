package cluster

import (
	"context"
	"sync"

	"weir/leaky"
	"weir/rpc"
)

// Options says how sequences are decided.
type Options struct {
	Peek          bool // look at every check and take nothing
	LocalFallback bool // decide on this node's own tables what no owner can be asked
}

// Outcome is what became of one sequence.
type Outcome struct {
	// Results answers the checks in order: up to the first refusal, or all of
	// them for a peek. It is shorter if the owner of the next check could not
	// be asked; Degraded is true then.
	Results []leaky.Result
	// Degraded says that an owner could not be asked. With LocalFallback the
	// rest was decided here, else it was not decided.
	Degraded bool
}

// Sequence is checks to be decided in order, cut into stages. The checks of a
// stage share a partition; a stage may be empty.
type Sequence [][]leaky.Check

// part is one stage of one sequence.
type part struct {
	sequence int
	checks   []leaky.Check
}

// batch is one Decide under way. In each round every open sequence is in
// exactly one part, so concurrent calls write different outcomes.
type batch struct {
	*Cluster
	ctx      context.Context
	opts     Options
	outcomes []Outcome
}

// Decide decides the sequences, each to its first refusal, and returns one
// outcome for each. Each stage takes at most two forward timeouts, for every
// [rpc.MaxChecks] checks that it asks of one owner.
func (c *Cluster) Decide(ctx context.Context, sequences []Sequence, opts Options) []Outcome {
	b := &batch{Cluster: c, ctx: ctx, opts: opts, outcomes: make([]Outcome, len(sequences))}
	stages := 0
	for _, s := range sequences {
		stages = max(stages, len(s))
	}
	open := make([]part, 0, len(sequences))
	for stage := range stages {
		open = open[:0]
		for i, s := range sequences {
			if stage < len(s) && len(s[stage]) > 0 && b.goesOn(b.outcomes[i]) {
				open = append(open, part{i, s[stage]})
			}
		}
		b.round(open)
	}
	return b.outcomes
}

// goesOn reports whether the checks after those answered are to be decided.
func (b *batch) goesOn(out Outcome) bool {
	if out.Degraded && !b.opts.LocalFallback {
		return false
	}
	n := len(out.Results)
	return n == 0 || b.opts.Peek || out.Results[n-1].Allowed
}

// round has each owner decide its parts, all owners at once.
func (b *batch) round(parts []part) {
	r := b.routes.Load()
	var mine []part
	theirs := make(map[int][]part)
	for _, p := range parts {
		if owner := r.owner(p.checks[0]); owner == here {
			mine = append(mine, p)
		} else {
			theirs[owner] = append(theirs[owner], p)
		}
	}
	var calls sync.WaitGroup
	for owner, parts := range theirs {
		b.stats.Forwarded.Add(int64(len(parts)))
		calls.Go(func() { b.forward(r.clients[owner], parts) })
	}
	if len(mine) > 0 {
		b.stats.Local.Add(int64(len(mine)))
		b.decideParts(mine)
	}
	calls.Wait()
}

// forward asks a peer, and whom it names for parts that it does not own.
func (b *batch) forward(peer *rpc.Client, parts []part) {
	var calls sync.WaitGroup
	for name, parts := range b.ask(peer, 0, parts) {
		calls.Go(func() { b.redirect(name, parts) })
	}
	calls.Wait()
}

// redirect asks the owner that a peer has named, and nobody after it.
func (b *batch) redirect(name string, parts []part) {
	// The View may have moved on since the round began.
	r := b.routes.Load()
	owner, ok := r.index(name)
	switch {
	case !ok:
		b.fallBack(parts, ReasonNotOwner)
	case owner == here:
		b.decideParts(parts)
	default:
		for _, parts := range b.ask(r.clients[owner], 1, parts) {
			b.fallBack(parts, ReasonNotOwner)
		}
	}
}

// ask has the peer decide the parts, in their order, and returns those that it
// does not own by the owner it names. Parts that it fails to answer fall back.
func (b *batch) ask(peer *rpc.Client, hop uint8, parts []part) map[string][]part {
	var moved map[string][]part
	for len(parts) > 0 {
		unasked := parts
		var chunk []part
		chunk, parts = cut(parts)
		req := &rpc.DecideRequest{Hop: hop, Peek: b.opts.Peek, Sequences: make([][]leaky.Check, len(chunk))}
		for i, p := range chunk {
			req.Sequences[i] = p.checks
		}
		ctx, cancel := context.WithTimeout(b.ctx, b.config.ForwardTimeout)
		reply, err := peer.Decide(ctx, req)
		cancel()
		if err != nil {
			b.config.Log.Warn("owner could not be asked", "peer", peer.Peer(), "error", err)
			if rpc.CodeOf(err) == rpc.CodeWrongPeer {
				b.config.Members.Doubt(peer.Peer())
			}
			b.fallBack(unasked, reasonOf(err)) // the rest would fare no better
			return moved
		}
		for i, p := range chunk {
			switch out := reply.Outcomes[i]; {
			case out.NotOwner:
				if moved == nil {
					moved = make(map[string][]part)
				}
				moved[out.Owner] = append(moved[out.Owner], p)
			default:
				result := &b.outcomes[p.sequence].Results
				*result = append(*result, out.Results...)
			}
		}
	}
	return moved
}

// cut returns as many parts as one request may carry, at least one, and the
// rest.
func cut(parts []part) (chunk, rest []part) {
	checks := len(parts[0].checks)
	n := 1
	for n < len(parts) && n < rpc.MaxSequences && checks+len(parts[n].checks) <= rpc.MaxChecks {
		checks += len(parts[n].checks)
		n++
	}
	return parts[:n], parts[n:]
}

// fallBack marks the parts degraded and decides them here if that is wanted.
func (b *batch) fallBack(parts []part, reason Reason) {
	b.stats.Degraded[reason].Add(int64(len(parts)))
	for _, p := range parts {
		b.outcomes[p.sequence].Degraded = true
	}
	if b.opts.LocalFallback {
		b.decideParts(parts)
	}
}

// decideParts decides the parts on this node's tables at one clock reading.
func (b *batch) decideParts(parts []part) {
	now := b.clock()
	for _, p := range parts {
		result := &b.outcomes[p.sequence].Results
		*result = b.decideHere(p.checks, b.opts.Peek, now, *result)
	}
}

func reasonOf(err error) Reason {
	switch rpc.CodeOf(err) {
	case rpc.CodeTimeout:
		return ReasonTimeout
	case rpc.CodeOverloaded:
		return ReasonOverloaded
	}
	return ReasonUnavailable
}
