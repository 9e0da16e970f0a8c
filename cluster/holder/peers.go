package holder

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/rpc"
)

// The times of the protocol.
const (
	Beat       = 50 * time.Millisecond  // between heartbeats, and between batches to a copy
	HeardFor   = 100 * time.Millisecond // a peer that was heard this lately is alive; longer with a longer forward timeout
	flushLimit = 30 * time.Millisecond  // calls wait so long for a grant to be answered
	again      = 100 * time.Millisecond // between two offers, releases, surveys
	holdOff    = 500 * time.Millisecond // the one that failed gets nothing back before
	strangers  = 3 * time.Second        // one never seen in the View is gone after this silence
	offersStop = 300 * time.Millisecond // a holder that should give a partition away offers it more often
	slowFor    = time.Second            // one that was slow is trusted again after this
	lateBeats  = 4                      // so many late answers in slowFor make a peer slow
	bulkWord   = 2500 * time.Nanosecond // a node sends a word this often to build copies, so that moves do not delay decisions
	bulkAhead  = 10 * time.Millisecond  // by how much it may be ahead of that
	forgetNode = time.Hour
)

// Placement is what a View says, as the protocol needs it. It is immutable.
type Placement struct {
	Alive   []rpc.Node // all others that live
	Asked   []rpc.Node // of these, all that may hold partitions: they are active or leaving
	Owners  []rpc.Node // who should hold each partition; zero if nobody is active
	Backups []rpc.Node // who would own it if its owner were gone; zero if nobody
	Leaving bool       // this node leaves
}

// contact is what is known of one run of a member.
type contact struct {
	heard int64            // when a frame came from it
	seen  bool             // it was in a View as living
	alive bool             // it is in the View as living
	ended bool             // it was in a View, and another run of the member is now
	asked int64            // when the oldest heartbeat was sent that is not answered, 0 if all are
	late  [lateBeats]int64 // when the last late answers came
	slow  bool
}

// Peers is what a node knows of the others, beside any partition: what the View
// says, who was heard lately, who is slow. It is safe for concurrent use. All
// times are readings of one clock that goes on steadily, not of the deciding one.
type Peers struct {
	self      rpc.Node
	replicas  int
	heardFor  int64 // ns; a peer that was heard this lately is alive
	placement atomic.Pointer[Placement]
	lastTick  atomic.Int64
	gaps      atomic.Uint64                         // how often this node did not run for a while
	bulk      atomic.Int64                          // when the words sent to build copies would have been sent, evenly
	suspected atomic.Bool                           // at the last beat it was rather this node that is slow
	circuits  atomic.Pointer[map[rpc.Node]struct{}] // open ones: of the peers in trouble

	mu       sync.Mutex
	contacts map[rpc.Node]*contact
	doubts   bool // when asked last, it was rather this node that is slow
}

// NewPeers returns the Peers of a node that knows nobody, with 0 or 1 backups
// of each partition. A call to a node waits for the forward timeout: as long as
// that, but [HeardFor] at least, a silent one may be alive.
func NewPeers(self rpc.Node, replicas int, forward time.Duration, now int64) *Peers {
	p := &Peers{self: self, replicas: replicas, heardFor: int64(max(forward, HeardFor)), contacts: make(map[rpc.Node]*contact)}
	p.placement.Store(&Placement{})
	p.lastTick.Store(now)
	p.gaps.Store(1)
	p.circuits.Store(&map[rpc.Node]struct{}{})
	return p
}

// SetPlacement takes in a new View.
func (p *Peers) SetPlacement(now int64, to *Placement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.contacts {
		c.alive = false
	}
	living := make(map[string]rpc.Node, len(to.Alive))
	for _, n := range to.Alive {
		living[n.Name] = n
		c := p.contact(n, now)
		c.alive, c.seen, c.ended = true, true, false
	}
	for n, c := range p.contacts {
		// One that was never in the View may be a later run than the one that is:
		// of that one's end this node has not heard yet.
		if in, is := living[n.Name]; is && in != n && c.seen {
			c.ended = true
		}
		if !c.alive && now-c.heard > int64(forgetNode) {
			delete(p.contacts, n)
		}
	}
	p.placement.Store(to)
}

// Placement returns the View in force.
func (p *Peers) Placement() *Placement { return p.placement.Load() }

// contact must be called with mu held. One of whom nothing is known counts as
// heard just now, so that it gets its time.
func (p *Peers) contact(n rpc.Node, now int64) *contact {
	c := p.contacts[n]
	if c == nil {
		c = &contact{heard: now}
		p.contacts[n] = c
	}
	return c
}

// Tick sends heartbeats. It is to be called every [Beat]; if it was not, this
// node has stood still, and knows it.
func (p *Peers) Tick(now int64, out *Out) {
	p.Gap(now)
	p.lastTick.Store(now)
	open := make(map[rpc.Node]struct{})
	for _, n := range p.Placement().Alive {
		out.send(n, rpc.Message{Kind: ping, Number: uint64(now)})
		if p.Trouble(now, n) {
			open[n] = struct{}{}
		}
		p.mu.Lock()
		if c := p.contact(n, now); c.asked == 0 {
			c.asked = now
		}
		p.mu.Unlock()
	}
	p.circuits.Store(&open)
	p.mu.Lock()
	p.suspected.Store(p.suspect(now))
	p.mu.Unlock()
}

// Open reports whether the circuit to the peer is open: at the last beat it was
// in trouble, or its connection has broken since.
func (p *Peers) Open(n rpc.Node) bool {
	_, open := (*p.circuits.Load())[n]
	return open
}

// Gap returns a number that is another one each time that this node has stood
// still for so long that others may have taken over what it holds. What it
// waited for meanwhile says nothing about them.
func (p *Peers) Gap(now int64) uint64 {
	last := p.lastTick.Load()
	if now-last <= p.heardFor {
		return p.gaps.Load()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now-p.lastTick.Load() <= p.heardFor {
		return p.gaps.Load()
	}
	// Nobody could be heard meanwhile: that says nothing about them.
	for _, c := range p.contacts {
		c.heard, c.asked = max(c.heard, now), 0
	}
	gap := p.gaps.Add(1)
	p.lastTick.Store(now) // last: who sees it sees the new number
	return gap
}

// Heard takes in that a frame came from the peer.
func (p *Peers) Heard(now int64, from rpc.Node) {
	p.Gap(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.contact(from, now).heard = now
}

// Lost takes in that a connection to the peer was refused or broke.
func (p *Peers) Lost(now int64, n rpc.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.contact(n, now)
	c.heard = min(c.heard, now-int64(p.patience())-1)
	open := maps.Clone(*p.circuits.Load())
	open[n] = struct{}{}
	p.circuits.Store(&open)
}

// Receive answers a message that is about the nodes themselves.
func (p *Peers) Receive(now int64, from rpc.Node, m *rpc.Message, out *Out) {
	p.Heard(now, from)
	switch m.Kind {
	case ping:
		out.send(from, rpc.Message{Kind: pong, Number: m.Number})
	case pong:
		p.mu.Lock()
		defer p.mu.Unlock()
		c := p.contact(from, now)
		if int64(m.Number) >= c.asked {
			c.asked = 0
		}
		if trip := now - int64(m.Number); trip >= int64(p.Inner()) {
			copy(c.late[:], c.late[1:])
			c.late[lateBeats-1] = now
		}
	}
}

// isSlow must be called with mu held.
func (c *contact) isSlow(now int64) bool {
	by := c.late[0]
	if c.slow {
		by = c.late[lateBeats-1]
	}
	c.slow = by != 0 && now-by < int64(slowFor)
	return c.slow
}

// suspect reports whether it is rather this node that is slow or cut off. What
// came late meanwhile says nothing about the others: once it is over they do not
// seem slow one by one. It must be called with mu held.
func (p *Peers) suspect(now int64) bool {
	suspects := p.seemSlow(now)
	if p.doubts && !suspects {
		for _, c := range p.contacts {
			c.late, c.slow = [lateBeats]int64{}, false
		}
	}
	p.doubts = suspects
	return suspects
}

// seemSlow reports whether more than half of the others seem slow or cut off. Of
// two nodes neither can tell, so there an answer that is only missing says
// nothing. It must be called with mu held.
func (p *Peers) seemSlow(now int64) bool {
	late, alive := 0, 0
	for _, c := range p.contacts {
		if !c.alive {
			continue
		}
		alive++
		last := c.late[lateBeats-1]
		if c.isSlow(now) || last != 0 && now-last < p.heardFor {
			late++
		}
	}
	if 2*late > alive {
		return true
	}
	if alive < 2 {
		return false
	}
	late = 0
	for _, c := range p.contacts {
		last := c.late[lateBeats-1]
		if c.alive && (c.asked != 0 && now-c.asked >= int64(p.Inner()) || last != 0 && now-last < p.heardFor) {
			late++
		}
	}
	return 2*late > alive
}

// Gone reports whether that run of a member is dead for certain: it was in the
// View, is not any more, and is silent or followed by another run; or it never
// was, and is silent for long; or it is an earlier run of this node.
// One that is not in the View yet is not gone; nor is one that is heard, whom
// gossip takes for dead by mistake, as happens after a cut that has healed.
func (p *Peers) Gone(now int64, n rpc.Node) bool {
	switch {
	case n == p.self || n.IsZero():
		return false
	case p.earlier(n):
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.contact(n, now)
	silence := now - c.heard
	return !c.alive && (c.seen && silence >= p.heardFor || c.ended || silence > int64(strangers))
}

// Ended reports whether another run of the member has followed that one.
func (p *Peers) Ended(n rpc.Node) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.contacts[n]
	return c != nil && c.ended || p.earlier(n)
}

// earlier reports whether that is an earlier run of this node.
func (p *Peers) earlier(n rpc.Node) bool { return n.Name == p.self.Name && n != p.self }

// Silent reports whether nothing was heard of the peer lately.
func (p *Peers) Silent(now int64, n rpc.Node) bool {
	p.Gap(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.heardFor
	if p.suspect(now) {
		limit = int64(p.patience())
	}
	return now-p.contact(n, now).heard >= limit
}

// Slow reports whether the peer answers heartbeats, but later than a call could
// wait.
func (p *Peers) Slow(now int64, n rpc.Node) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.suspect(now) && p.contact(n, now).isSlow(now)
}

// Trouble reports whether it is of little use to ask the peer: it is silent or
// slow.
func (p *Peers) Trouble(now int64, n rpc.Node) bool { return p.Silent(now, n) || p.Slow(now, n) }

// Failed reports whether a holder is to be taken for failed that has failed a
// caller, and perhaps this node too when it passed the call on.
func (p *Peers) Failed(now int64, n rpc.Node, tried bool) bool {
	if p.Trouble(now, n) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return tried && !p.suspect(now)
}

// Inner returns the limit of what is done for a call that has come from another
// node: a relay, a survey, a confirmation. It is 40 ms for a forward timeout of
// 100 ms.
func (p *Peers) Inner() time.Duration { return time.Duration(p.heardFor) * 2 / 5 }

// patience is that of a node that is slow itself.
func (p *Peers) patience() time.Duration { return 3 * time.Duration(p.heardFor) }

// Patience returns how long an answer that should come within so long is to be
// waited for: longer by a node that is slow itself, which learns nothing about
// the others by giving up.
func (p *Peers) Patience(d time.Duration) time.Duration {
	if p.suspected.Load() {
		return max(d, p.patience())
	}
	return d
}

// Self returns this node.
func (p *Peers) Self() rpc.Node { return p.self }

// place returns what the View says of a partition.
func (p *Peers) place(partition uint32) (owner, backup rpc.Node, view *Placement) {
	view = p.Placement()
	if int(partition) < len(view.Owners) {
		owner, backup = view.Owners[partition], view.Backups[partition]
	}
	return owner, backup, view
}

// spend reports whether so many words may be sent now to build a copy. It is the
// leaky bucket that this cluster is about, and bulk is its TAT.
func (p *Peers) spend(now int64, words int) bool {
	for {
		tat := p.bulk.Load()
		if tat-now > int64(bulkAhead) {
			return false
		}
		if p.bulk.CompareAndSwap(tat, max(tat, now)+int64(words)*int64(bulkWord)) {
			return true
		}
	}
}

// same reports whether two names are of one node; a boot of zero is any.
func same(a, b rpc.Node) bool {
	return a.Name == b.Name && (a.Boot == b.Boot || a.Boot == 0 || b.Boot == 0)
}

// above orders holders of one partition: the higher epoch, then the name.
func above(epochA uint64, a rpc.Node, epochB uint64, b rpc.Node) bool {
	if epochA != epochB {
		return epochA > epochB
	}
	if a.Name != b.Name {
		return a.Name > b.Name
	}
	return a.Boot > b.Boot
}

// inOrder returns the nodes of a map in an order that is always the same, so
// that a step does the same each time.
func inOrder[V any](nodes map[rpc.Node]V) []rpc.Node {
	return slices.SortedFunc(maps.Keys(nodes), func(a, b rpc.Node) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Boot, b.Boot))
	})
}
