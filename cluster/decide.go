package cluster

import (
	"context"
	"errors"
	"sync"

	"weir/cluster/holder"
	"weir/leaky"
	"weir/rpc"
)

// Options says how sequences are decided.
type Options struct {
	Mode          leaky.Mode // of every stage; a stage is what [leaky.TakingAll] takes or leaves as a whole
	LocalFallback bool       // decide on this node's own tables what nobody who knows could be asked
}

// Outcome is what became of one sequence.
type Outcome struct {
	// Results answers the checks in order: up to the first refusal, or all of
	// them if nothing is taken. It is shorter if nobody who knows the next check's
	// bucket could be asked; Degraded is true then.
	Results []leaky.Result
	// Degraded says that a failure may show in the results: a backup has just
	// taken over, or nobody who knows could be asked. In the latter case the
	// rest was decided here with LocalFallback, else it was not decided.
	Degraded bool

	stray bool // the rest was not decided, or only here
}

// Sequence is checks to be decided in order, cut into stages. The checks of a
// stage share a partition; a stage may be empty.
type Sequence [][]leaky.Check

// part is one stage of one sequence, on its way to who decides it.
type part struct {
	sequence int
	*question
	path   holder.Path
	failed bool   // a node was asked and has not decided it
	reason Reason // why the node asked first did not decide it
	latest Reason // and the one asked last
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
// outcome for each. While one node is silent a stage takes a forward timeout and
// half another at most, for every [rpc.MaxChecks] checks that are asked of one
// node. With owner and backup both silent it takes two of these; and a node that
// hears nobody, which is likelier to be the one cut off, waits for three times
// as long before it gives up.
func (c *Cluster) Decide(ctx context.Context, sequences []Sequence, opts Options) []Outcome {
	b := &batch{Cluster: c, ctx: ctx, opts: opts, outcomes: make([]Outcome, len(sequences))}
	stages := 0
	for _, s := range sequences {
		stages = max(stages, len(s))
	}
	open := make([]*part, 0, len(sequences))
	for stage := range stages {
		open = open[:0]
		for i, s := range sequences {
			if stage < len(s) && len(s[stage]) > 0 && b.goesOn(b.outcomes[i]) {
				p := &part{sequence: i, path: c.peers.Path(s[stage][0].Partition)}
				p.question = &question{checks: s[stage], mode: opts.Mode}
				open = append(open, p)
			}
		}
		b.round(open)
	}
	return b.outcomes
}

// goesOn reports whether the checks after those answered are to be decided.
func (b *batch) goesOn(out Outcome) bool {
	if out.stray && !b.opts.LocalFallback {
		return false
	}
	n := len(out.Results)
	return n == 0 || !b.opts.Mode.Takes() || out.Results[n-1].Allowed
}

// step is one send of a call: whom to ask, and what goes with the question.
type step struct {
	node   rpc.Node
	hop    uint8
	failed rpc.Node
}

// round has the parts decided. Each is sent at most three times: to the owner,
// to whom that one names, and once more after a failure. If all of them answer
// that they do not know, this node finds the holder itself.
func (b *batch) round(parts []*part) {
	first := true
	for len(parts) > 0 {
		var here []*part
		groups := make(map[step][]*part)
		for _, p := range parts {
			if p.path.To == b.self {
				here = append(here, p)
			} else {
				to := step{p.path.To, p.path.Hop, p.path.Failed}
				groups[to] = append(groups[to], p)
			}
		}
		if first {
			b.stats.Local.Add(int64(len(here)))
			b.stats.Forwarded.Add(int64(len(parts) - len(here)))
			first = false
		}
		var calls sync.WaitGroup
		for to, group := range groups {
			calls.Go(func() { b.forward(to, group) })
		}
		if len(here) > 0 {
			b.decideHere(here)
		}
		calls.Wait()
		parts = b.sort(parts)
	}
}

// decideHere asks this node itself.
func (b *batch) decideHere(parts []*part) {
	at := b.clock()
	var out holder.Out
	var open []*question
	for _, p := range parts {
		q := p.question
		q.call = holder.Call{Hop: p.path.Hop, Failed: p.path.Failed}
		b.ask(q, at, &out)
		p.because(ReasonNotOwner)
		if !q.settledAt(p.path.Hop) {
			open = append(open, q)
		}
	}
	b.emit(&out)
	if len(open) > 0 {
		b.attend(b.ctx, open)
	}
}

// forward asks another node, with as few calls as their bounds allow, one after
// another, so that the order of the parts is kept.
func (b *batch) forward(to step, parts []*part) {
	questions := make([]*question, len(parts))
	for i, p := range parts {
		questions[i] = p.question
		p.verdict = holder.Verdict{Action: holder.Fail}
	}
	for len(questions) > 0 {
		var chunk []*question
		chunk, questions = cutQuestions(questions)
		asked := parts[:len(chunk)]
		outcomes, err := b.call(b.ctx, to, chunk, b.config.ForwardTimeout)
		if err != nil {
			for _, p := range parts { // the rest would fare no better
				p.because(reasonOf(err))
			}
			return
		}
		for i, p := range asked {
			p.because(ReasonNotOwner)
			switch out := outcomes[i]; {
			case !out.NotOwner:
				p.results = out.Results
				p.verdict = holder.Verdict{Action: holder.Decide, Degraded: out.Degraded}
			case out.Owner != "":
				// One that is not in the View yet cannot be asked from here; whoever
				// has named it can.
				to, ok := b.routes.Load().nodeNamed(out.Owner, b.self)
				if !ok {
					to = rpc.Node{Name: out.Owner}
				}
				p.verdict = holder.Verdict{Action: holder.Ask, To: to}
			}
		}
		parts = parts[len(chunk):]
	}
}

// sort writes the outcomes of the parts that are decided or given up, and
// returns the others, with whom to ask next.
func (b *batch) sort(parts []*part) []*part {
	var open []*part
	for _, p := range parts {
		out := &b.outcomes[p.sequence]
		switch {
		case p.verdict.Action == holder.Decide:
			out.Results = append(out.Results, p.results...)
			if p.path.FailedOver() {
				b.stats.Backup.Add(1)
			}
			if p.verdict.Degraded {
				out.Degraded = true
				b.degrade(ReasonFailover)
			}
		case p.verdict.Action == holder.Ask && p.path.Redirect(p.verdict.To):
			open = append(open, p.anew())
		case p.verdict.Action != holder.Ask && b.ctx.Err() == nil && p.path.Fail():
			open = append(open, p.anew())
		case p.latest == ReasonNotOwner && b.ctx.Err() == nil && p.path.Home(b.self):
			open = append(open, p.anew())
		default:
			b.fallBack(p)
		}
	}
	return open
}

// because notes why a node has not decided the part. What counts is the first
// failure, not what came of asking the backup then.
func (p *part) because(reason Reason) {
	p.latest = reason
	if p.failed && p.path.FailedOver() {
		return
	}
	p.reason = reason
	// Of a backup that was asked first, since the owner's circuit is open, the
	// owner may still say more.
	p.failed = reason != ReasonNotOwner || !p.path.FailedOver()
}

// anew is the part with nothing decided. A partition may still refer to a
// question that was given up.
func (p *part) anew() *part {
	p.question = &question{checks: p.checks, mode: p.mode}
	return p
}

// cutQuestions returns as many as one request may carry, at least one, and the
// rest. All of them are sent with the same hop and the same evidence.
func cutQuestions(questions []*question) (chunk, rest []*question) {
	checks := len(questions[0].checks)
	n := 1
	for n < len(questions) && n < rpc.MaxSequences && checks+len(questions[n].checks) <= rpc.MaxChecks {
		checks += len(questions[n].checks)
		n++
	}
	return questions[:n], questions[n:]
}

func requestOf(questions []*question) [][]leaky.Check {
	sequences := make([][]leaky.Check, len(questions))
	for i, q := range questions {
		sequences[i] = q.checks
	}
	return sequences
}

// fallBack marks the part's outcome degraded and decides it here if that is
// wanted.
func (b *batch) fallBack(p *part) {
	if !errors.Is(b.ctx.Err(), context.Canceled) { // else nobody waits for the answer
		b.degrade(p.reason)
	}
	out := &b.outcomes[p.sequence]
	out.Degraded, out.stray = true, true
	if b.opts.LocalFallback {
		q := &question{checks: p.checks, mode: p.mode}
		b.decideAlone(q)
		out.Results = append(out.Results, q.results...)
	}
}

func reasonOf(err error) Reason {
	if errors.Is(err, errNoMember) {
		return ReasonNotOwner
	}
	switch rpc.CodeOf(err) {
	case rpc.CodeTimeout:
		return ReasonTimeout
	case rpc.CodeOverloaded:
		return ReasonOverloaded
	}
	return ReasonUnavailable
}
