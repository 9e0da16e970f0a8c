package cluster

import (
	"context"
	"sync"
	"time"

	"weir/cluster/holder"
	"weir/ring"
	"weir/rpc"
)

// peer is what this node has to speak with one run of another: one connection
// for calls, and one for messages, so that bulk never delays a decision.
type peer struct {
	node     rpc.Node
	address  string
	calls    *rpc.Client
	messages *rpc.Client
	box      chan []rpc.Message

	cancel  context.CancelFunc
	workers sync.WaitGroup
}

const (
	boxes        = 64          // batches that may wait to be sent; more are dropped, and sent anew by the protocol
	sendTimeout  = time.Second // of one batch, which waits for a connection at the most
	measureEvery = 5 * time.Second
)

// newPeer starts to speak with a member.
func (c *Cluster) newPeer(m ring.Member) *peer {
	config := c.config.RPC
	identity := rpc.Identity{Name: m.Name, Boot: m.Boot, Label: config.Self.Label, Format: config.Self.Format}
	ctx, cancel := context.WithCancel(context.Background())
	p := &peer{
		node:     rpc.Node{Name: m.Name, Boot: m.Boot},
		address:  m.RPC,
		calls:    rpc.NewClient(config, identity, m.RPC),
		messages: rpc.NewClient(config, identity, m.RPC),
		box:      make(chan []rpc.Message, boxes),
		cancel:   cancel,
	}
	p.workers.Go(func() { c.sendTo(ctx, p) })
	p.workers.Go(func() { c.measure(ctx, p) })
	return p
}

// close ends the connections and waits for all that runs for them.
func (p *peer) close() {
	p.cancel()
	p.calls.Close()
	p.messages.Close()
	p.workers.Wait()
}

// put queues messages without waiting, and reports whether there was room.
func (p *peer) put(messages []rpc.Message) bool {
	select {
	case p.box <- messages:
		return true
	default:
		return false
	}
}

// sendTo sends what is queued, in its order.
func (c *Cluster) sendTo(ctx context.Context, p *peer) {
	for {
		var messages []rpc.Message
		select {
		case <-ctx.Done():
			return
		case messages = <-p.box:
		}
		sending, cancel := context.WithTimeout(ctx, sendTimeout)
		err := p.messages.Send(sending, messages)
		cancel()
		c.failed(p, err)
	}
}

// failed takes in why a peer could not be asked.
func (c *Cluster) failed(p *peer, err error) {
	switch rpc.CodeOf(err) {
	case rpc.CodeUnavailable:
		c.peers.Lost(c.now(), p.node)
	case rpc.CodeWrongPeer:
		c.peers.Lost(c.now(), p.node)
		c.config.Members.Doubt(p.node.Name)
	}
}

// measure keeps what is known of the peer's clock fresh: words are re-based by
// it.
func (c *Cluster) measure(ctx context.Context, p *peer) {
	ticker := time.NewTicker(measureEvery)
	defer ticker.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, sendTimeout)
		_, err := p.messages.Decide(asking, &rpc.DecideRequest{})
		cancel()
		if err != nil && ctx.Err() == nil {
			c.config.Log.Debug("peer does not answer", "peer", p.node.Name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// emit sends the messages that a step of the protocol asks for.
func (c *Cluster) emit(out *holder.Out) {
	c.stats.KeysMoved.Add(int64(out.Moved))
	c.stats.TakenOver.Add(int64(out.Taken))
	c.stats.Reopened.Add(int64(out.Opened))
	c.stats.HandedOver.Add(int64(out.Granted))
	if len(out.Messages) == 0 {
		return
	}
	r := c.routes.Load()
	batches := make(map[rpc.Node][]rpc.Message)
	for i := range out.Messages {
		m := &out.Messages[i]
		batches[m.To] = append(batches[m.To], m.Message)
	}
	for node, messages := range batches {
		if p := r.peer(node); p == nil || !p.put(messages) {
			c.config.RPC.Stats.MessagesDropped.Add(uint64(len(messages)))
		}
	}
}
