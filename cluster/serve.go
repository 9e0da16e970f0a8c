package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/cluster/holder"
	"weir/ring"
	"weir/rpc"
)

// errNoMember: a node has named one that this node does not know.
var errNoMember = errors.New("no such member")

// handler answers what other nodes ask of this one.
type handler struct{ *Cluster }

// Decide answers for the partitions that this node holds, and names the holder
// for the others, or passes the question on to it if it was sent here by name.
// All that can be decided at once is, at one clock reading.
func (h handler) Decide(_ context.Context, _ rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) (func(context.Context, *rpc.DecideReply) error, error) {
	for _, checks := range req.Sequences {
		for _, check := range checks {
			if check.Partition >= ring.Partitions {
				return nil, &rpc.Error{Code: rpc.CodeInvalid, Text: fmt.Sprintf("partition %d of %d", check.Partition, ring.Partitions)}
			}
			if check.Partition != checks[0].Partition {
				return nil, &rpc.Error{Code: rpc.CodeInvalid, Text: "one sequence is about two partitions"}
			}
		}
	}
	at := h.clock()
	var out holder.Out
	waits := false
	questions := make([]*question, len(req.Sequences))
	for i, checks := range req.Sequences {
		o := reply.Add()
		q := &question{call: holder.Call{Hop: req.Hop, Failed: req.Failed}, checks: checks, mode: req.Mode, results: o.Results}
		questions[i] = q
		h.ask(q, at, &out)
		waits = waits || !q.settledAt(req.Hop)
	}
	h.emit(&out)
	if !waits {
		fill(reply, questions)
		return nil, nil
	}
	return func(ctx context.Context, reply *rpc.DecideReply) error {
		h.attend(ctx, questions)
		fill(reply, questions)
		return nil
	}, nil
}

// settledAt reports whether the question needs nothing more from this node.
func (q *question) settledAt(hop uint8) bool {
	switch q.verdict.Action {
	case holder.Decide:
		return len(q.settled) == 0
	case holder.Ask:
		return hop == 0
	case holder.Fail:
		return true
	}
	return false
}

// fill writes what became of the questions.
func fill(reply *rpc.DecideReply, questions []*question) {
	for i, q := range questions {
		o := &reply.Outcomes[i]
		switch q.verdict.Action {
		case holder.Decide:
			o.Results, o.Degraded = q.results, q.verdict.Degraded
		case holder.Ask:
			o.NotOwner, o.Owner = true, q.verdict.To.Name
		default:
			o.NotOwner = true
		}
	}
}

// attend sees questions through: it waits for those that wait, and passes on
// those that another node decides. It takes a bounded number of rounds.
func (c *Cluster) attend(ctx context.Context, questions []*question) {
	const rounds = 4
	for range rounds {
		relays := make(map[step][]*question)
		for _, q := range questions {
			if q.verdict.Action == holder.Wait && !c.await(ctx, q) {
				q.verdict = holder.Verdict{Action: holder.Fail}
			}
			if q.verdict.Action == holder.Ask && q.call.Hop > 0 {
				to := step{q.verdict.To, q.call.Hop + 1, q.call.Failed}
				relays[to] = append(relays[to], q)
			}
		}
		if len(relays) == 0 {
			break
		}
		var calls sync.WaitGroup
		for to, relayed := range relays {
			calls.Go(func() { c.relay(ctx, to, relayed) })
		}
		calls.Wait()
	}
	for _, q := range questions {
		if q.verdict.Action == holder.Wait || q.verdict.Action == holder.Ask && q.call.Hop > 0 {
			q.verdict = holder.Verdict{Action: holder.Fail}
		}
		c.awaitCopies(ctx, q)
	}
}

// relay passes questions on to who is thought to hold their partitions. Those
// that it does not decide are routed anew, by what that shows.
func (c *Cluster) relay(ctx context.Context, to step, questions []*question) {
	for len(questions) > 0 {
		var chunk []*question
		chunk, questions = cutQuestions(questions)
		asked := c.now()
		gap := c.peers.Gap(asked)
		outcomes, err := c.call(ctx, to, chunk, c.peers.Inner())
		stoodStill := c.peers.Gap(c.now()) != gap
		var out holder.Out
		for i, q := range chunk {
			if err == nil && !outcomes[i].NotOwner {
				q.results = append(q.results, outcomes[i].Results...)
				q.verdict = holder.Verdict{Action: holder.Decide, Degraded: outcomes[i].Degraded}
				continue
			}
			if rpc.CodeOf(err) == rpc.CodeOverloaded || stoodStill || ctx.Err() != nil {
				// This node's own fault, or its caller's: it says nothing of the other.
				q.verdict = holder.Verdict{Action: holder.Fail}
				continue
			}
			if errors.Is(err, errNoMember) {
				asked = 0
			}
			q.call.Evidence(to.node, asked)
			c.ask(q, c.clock(), &out)
			if q.verdict.Action == holder.Ask && q.verdict.To == to.node {
				q.verdict = holder.Verdict{Action: holder.Fail}
			}
		}
		c.emit(&out)
	}
}

// call asks another node to decide the questions.
func (c *Cluster) call(ctx context.Context, to step, questions []*question, within time.Duration) ([]rpc.Outcome, error) {
	p := c.routes.Load().peer(to.node)
	if p == nil {
		return nil, &rpc.Error{Code: rpc.CodeUnavailable, Peer: to.node.Name, Err: errNoMember}
	}
	req := &rpc.DecideRequest{Hop: to.hop, Mode: questions[0].mode, Failed: to.failed, Sequences: requestOf(questions)}
	ctx, cancel := context.WithTimeout(ctx, c.peers.Patience(within))
	defer cancel()
	reply, err := p.calls.Decide(ctx, req)
	if err != nil {
		c.failed(p, err)
		c.config.Log.Warn("node could not be asked", "peer", p.node.Name, "error", err)
		return nil, err
	}
	return reply.Outcomes, nil
}

// awaitCopies waits until the copy knows what was lowered. If it does not say so
// in time the answer is degraded: a failure now would bring the old word back.
func (c *Cluster) awaitCopies(ctx context.Context, q *question) {
	if len(q.settled) == 0 {
		return
	}
	timer := time.NewTimer(c.peers.Inner()) // who has passed it on waits for longer
	defer timer.Stop()
	for _, done := range q.settled {
		select {
		case <-done:
			continue
		case <-timer.C:
		case <-ctx.Done():
		case <-c.stop:
		}
		q.verdict.Degraded = true
		return
	}
}

// Receive takes in messages of the protocol.
func (h handler) Receive(from rpc.Identity, messages []rpc.Message) {
	now := h.now()
	node := from.Node()
	h.peers.Heard(now, node)
	var out holder.Out
	for i := range messages {
		m := &messages[i]
		switch {
		case !holder.Of(m):
			h.peers.Receive(now, node, m, &out)
		case m.Partition < ring.Partitions:
			h.advance(m.Partition, &out, func(p *holder.Partition) { p.Receive(now, node, m, &out) })
		}
	}
	h.emit(&out)
}

// Status says how this node is.
func (h handler) Status() rpc.Status { return rpc.Status{LiveBuckets: int64(h.LiveBuckets())} }
