package holder

import (
	"testing"
	"time"

	"weir/leaky"
	"weir/rpc"
)

// hand is a few nodes and one partition, with every message in the test's hand.
type hand struct {
	t     *testing.T
	now   int64
	nodes map[string]*handNode
	order []string
	queue []handMessage
	lose  func(handMessage) bool // messages that are lost
	hold  func(handMessage) bool // messages that stay on their way
	held  []handMessage
	sent  map[rpc.MessageKind]int
	ready map[*Call]Verdict
	sum   Out // of all steps: its counts
}

type handNode struct {
	id    rpc.Node
	peers *Peers
	p     *Partition
	down  bool // it gets nothing and does nothing
}

type handMessage struct {
	from, to string
	rpc.Message
}

func newHand(t *testing.T, names ...string) *hand {
	h := &hand{t: t, now: firstTime, nodes: map[string]*handNode{}, sent: map[rpc.MessageKind]int{}, ready: map[*Call]Verdict{}}
	for _, name := range names {
		h.add(name)
	}
	return h
}

func (h *hand) add(name string) *handNode {
	id := rpc.Node{Name: name, Boot: 1}
	n := &handNode{id: id, peers: NewPeers(id, 1, HeardFor, h.now)}
	n.p = New(0, n.peers, func() int64 { return h.now })
	h.nodes[name] = n
	h.order = append(h.order, name)
	return n
}

// view has nodes see that these live, in that order owner, backup and others. A
// name behind "-" leaves.
func (h *hand) view(at string, owner, backup string, others ...string) {
	n := h.nodes[at]
	pl := &Placement{}
	node := func(name string) rpc.Node {
		if name == "" {
			return rpc.Node{}
		}
		return rpc.Node{Name: name, Boot: 1}
	}
	seen := map[string]bool{at: true}
	for _, name := range append([]string{owner, backup}, others...) {
		if name != "" && !seen[name] {
			seen[name] = true
			pl.Alive = append(pl.Alive, node(name))
			pl.Asked = append(pl.Asked, node(name))
		}
	}
	pl.Owners, pl.Backups = []rpc.Node{node(owner)}, []rpc.Node{node(backup)}
	n.peers.SetPlacement(h.now, pl)
}

// views has all nodes see the same.
func (h *hand) views(owner, backup string, others ...string) {
	for _, name := range h.order {
		h.view(name, owner, backup, others...)
	}
}

func (h *hand) leave(at string) {
	pl := *h.nodes[at].peers.Placement()
	pl.Leaving = true
	h.nodes[at].peers.SetPlacement(h.now, &pl)
}

func (h *hand) step(name string, f func(n *handNode, out *Out)) {
	var out Out
	f(h.nodes[name], &out)
	for _, m := range out.Messages {
		if Of(&m.Message) {
			h.sent[m.Kind]++
		}
		h.queue = append(h.queue, handMessage{name, m.To.Name, m.Message})
	}
	h.sum.Taken += out.Taken
	h.sum.Granted += out.Granted
	h.sum.Opened += out.Opened
	for _, r := range out.Ready {
		h.ready[r.Call] = r.Verdict
	}
}

// deliver brings every message that is under way.
func (h *hand) deliver() {
	for len(h.queue) > 0 {
		m := h.queue[0]
		h.queue = h.queue[1:]
		switch {
		case h.nodes[m.to] == nil || h.nodes[m.to].down || h.nodes[m.from].down || h.lose != nil && h.lose(m):
		case h.hold != nil && h.hold(m):
			h.held = append(h.held, m)
		default:
			h.bring(m)
		}
	}
}

func (h *hand) bring(m handMessage) {
	h.step(m.to, func(n *handNode, out *Out) {
		from := h.nodes[m.from].id
		if !Of(&m.Message) {
			n.peers.Receive(h.now, from, &m.Message, out)
			return
		}
		n.peers.Heard(h.now, from)
		n.p.Receive(h.now, from, &m.Message, out)
	})
}

// late brings what was held.
func (h *hand) late() {
	held := h.held
	h.held, h.hold = nil, nil
	for _, m := range held {
		h.bring(m)
	}
	h.deliver()
}

// run lets so much time pass.
func (h *hand) run(d time.Duration) {
	for end := h.now + int64(d); h.now < end; {
		h.now += 10 * ms
		for _, name := range h.order {
			if h.nodes[name].down {
				continue
			}
			h.step(name, func(n *handNode, out *Out) {
				if h.now%int64(Beat) == 0 {
					n.peers.Tick(h.now, out)
				}
				n.p.Tick(h.now, out)
			})
		}
		h.deliver()
	}
}

// until lets time pass until something is so.
func (h *hand) until(what string, so func() bool) {
	h.t.Helper()
	for end := h.now + 10_000*ms; !so(); {
		if h.now >= end {
			h.t.Fatalf("%s: not after ten seconds", what)
		}
		h.run(10 * time.Millisecond)
	}
}

// call asks a node, and waits for what it says.
func (h *hand) call(at string, c Call) Verdict {
	var v Verdict
	h.step(at, func(n *handNode, out *Out) { v = n.p.Route(h.now, &c, out) })
	h.deliver()
	for range 30 {
		if v.Action != Wait {
			return v
		}
		if r, ok := h.ready[&c]; ok {
			return r
		}
		h.run(10 * time.Millisecond)
	}
	h.t.Fatal("the call waits for ever")
	return v
}

// take takes units of a key where it is decided.
func (h *hand) take(at string, fingerprint uint64, units int64) {
	h.t.Helper()
	if !h.holds(at) {
		h.t.Fatalf("%s does not hold the partition", at)
	}
	h.nodes[at].p.Take(unitsOf(fingerprint, units), h.now)
}

func unitsOf(fingerprint uint64, units int64) leaky.Check {
	rule, err := leaky.NewRule(leaky.Bucket, 100, 100*time.Hour)
	if err != nil {
		panic(err)
	}
	return leaky.Check{Fingerprint: fingerprint, Rule: rule, Cost: units}
}

// spent is how many units of a key a node knows of.
func (h *hand) spent(at string, fingerprint uint64) int64 {
	left := int64(h.nodes[at].p.table.Get(fingerprint)) - h.now
	return (max(0, left) + int64(time.Hour) - 1) / int64(time.Hour)
}

func (h *hand) holds(at string) bool {
	_, holds := h.nodes[at].p.Holder()
	return holds
}

// is asserts who holds the partition, by which epoch, and who has the copy.
func (h *hand) is(what, holder string, epoch uint64, copied string) {
	h.t.Helper()
	for _, name := range h.order {
		n := h.nodes[name]
		if n.down {
			continue
		}
		if h.holds(name) != (name == holder) {
			h.t.Errorf("%s: %s holds it: %v, want %s alone", what, name, h.holds(name), holder)
		}
		if name == holder && n.p.epoch != epoch {
			h.t.Errorf("%s: epoch %d, want %d", what, n.p.epoch, epoch)
		}
		if complete := n.p.role == copying && n.p.complete; complete != (name == copied) {
			h.t.Errorf("%s: %s has the copy: %v, want %s alone", what, name, complete, copied)
		}
	}
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
