package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"weir/cluster/holder"
	"weir/ring"
	"weir/rpc"
)

// Membership tells who the members are. A *ring.Ring is one.
type Membership interface {
	View() *ring.View
	Changed() <-chan struct{} // receives after View has changed
	Doubt(name string)        // what the View says of this member is out of date
}

// Config says who this node is and whom it works with.
type Config struct {
	RPC            rpc.Config // Self names this node; Clock is the deciding clock
	Members        Membership
	ForwardTimeout time.Duration // deadline of one call to another node; default 100 ms
	Replicas       int           // backups of each partition, 0 or 1
	HashKey        uint64        // mark of the key that buckets' keys are hashed with: others' snapshots are foreign
	Log            *slog.Logger  // default: none
}

// Cluster decides checks together with its peers. It is made by [New], works
// once [Cluster.Open] has returned, and is safe for concurrent use.
type Cluster struct {
	config     Config
	self       rpc.Node
	clock      func() int64 // the deciding clock, that words are instants of
	started    time.Time    // for the clock of the protocol
	server     *rpc.Server
	peers      *holder.Peers
	partitions [ring.Partitions]partition
	routes     atomic.Pointer[routes]
	stats      Stats

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when routes are, and with each beat

	stop    chan struct{}
	once    sync.Once
	workers sync.WaitGroup
}

// Stats counts what a Cluster did since it was made.
type Stats struct {
	Local      atomic.Int64 // stages that this node asked itself for its own callers
	Forwarded  atomic.Int64 // stages sent to another node
	Backup     atomic.Int64 // of both, those that another than the owner decided after a failure
	Degraded   [reasons]atomic.Int64
	KeysMoved  atomic.Int64 // words that have arrived elsewhere to build copies, before partitions are handed over or backed up
	HandedOver atomic.Int64 // partitions given to their owner
	TakenOver  atomic.Int64 // partitions taken from a holder that failed
	Reopened   atomic.Int64 // partitions opened because nobody had their state, as at the first start
}

// Reason says why a decision is degraded.
type Reason uint8

const (
	ReasonUnavailable Reason = iota // no connection, it broke before the answer, or the answer was none
	ReasonTimeout                   // no answer within the forward timeout
	ReasonOverloaded                // too many calls to the owner under way
	ReasonNotOwner                  // the nodes asked do not know who holds the partition
	ReasonFailover                  // a backup has taken over, and may lack what its holder did last
	reasons
)

// Reasons returns every reason, in the order of Stats.Degraded.
func Reasons() []Reason {
	return []Reason{ReasonUnavailable, ReasonTimeout, ReasonOverloaded, ReasonNotOwner, ReasonFailover}
}

// String returns the reason as the metrics spell it.
func (r Reason) String() string {
	return [reasons]string{"unavailable", "timeout", "overloaded", "not_owner", "failover"}[r]
}

// New returns a cluster that has not started.
func New(config Config) *Cluster {
	if config.ForwardTimeout == 0 {
		config.ForwardTimeout = 100 * time.Millisecond
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.RPC.Stats == nil {
		config.RPC.Stats = new(rpc.Stats)
	}
	c := &Cluster{
		config:  config,
		self:    config.RPC.Self.Node(),
		clock:   config.RPC.Clock,
		started: time.Now().Add(-time.Hour), // no reading is zero
		changed: make(chan struct{}),
		stop:    make(chan struct{}),
	}
	c.peers = holder.NewPeers(c.self, config.Replicas, config.ForwardTimeout, c.now())
	for i := range c.partitions {
		c.partitions[i].Partition = holder.New(uint32(i), c.peers, c.clock)
	}
	c.server = rpc.NewServer(config.RPC, handler{c})
	c.routes.Store(&routes{view: ring.NewView(nil)})
	return c
}

// Open starts answering peers on the listener and following the membership. It
// is to be called when the membership has been joined: alone, a node would take
// all partitions for its own. The cluster closes the listener.
func (c *Cluster) Open(listener net.Listener) {
	c.adopt()
	c.workers.Go(func() {
		if err := c.server.Serve(listener); err != nil {
			c.config.Log.Error("node-to-node listener failed", "error", err)
		}
	})
	c.workers.Go(c.follow)
	c.workers.Go(c.beat)
	c.workers.Go(c.sweep)
}

// Close stops answering peers and waits until nothing of the cluster runs. It
// may be called more than once.
func (c *Cluster) Close() error {
	var err error
	c.once.Do(func() {
		close(c.stop)
		if err = c.server.Close(); err != nil {
			err = fmt.Errorf("cluster: %w", err)
		}
		c.workers.Wait()
		c.routes.Load().close()
	})
	return err
}

// Await returns once the View that the cluster decides by satisfies the
// condition, or with an error when the context ends.
func (c *Cluster) Await(ctx context.Context, condition func(*ring.View) bool) error {
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if condition(c.View()) {
			return nil
		}
		select {
		case <-changed:
		case <-c.stop:
			return errors.New("cluster: closed")
		case <-ctx.Done():
			return fmt.Errorf("cluster: waiting for the membership: %w", ctx.Err())
		}
	}
}

// AwaitOwn returns once this node holds every partition that its View gives it.
func (c *Cluster) AwaitOwn(ctx context.Context) error {
	return c.Await(ctx, func(v *ring.View) bool {
		for i := range uint32(ring.Partitions) {
			owner, ok := v.Owner(i)
			if ok && v.Members()[owner].Name == c.self.Name && !c.partitions[i].status(c.now()).Holds {
				return false
			}
		}
		return true
	})
}

// AwaitEmpty returns once this node, which leaves and sees that itself, has
// handed over all that it had; or at once if there is nobody left to hand it to.
// The copy of a single node that stays is nobody else's to have.
func (c *Cluster) AwaitEmpty(ctx context.Context) error {
	return c.Await(ctx, func(v *ring.View) bool {
		if self, ok := v.Member(c.self.Name); ok && self.State != ring.Leaving {
			return false // it may be given partitions still
		}
		if _, ok := v.Owner(0); !ok {
			return true
		}
		_, another := v.Backup(0)
		for i := range c.partitions {
			if s := c.partitions[i].status(c.now()); !s.Empty && (another || !s.Copy) {
				return false
			}
		}
		return true
	})
}

// Retire has this node decide nothing more, as it is about to stop, and returns
// once the copies of all that it still holds have every word: those who have
// them take over exactly.
func (c *Cluster) Retire(ctx context.Context) error {
	now := c.now()
	var out holder.Out
	for i := range c.partitions {
		c.advance(uint32(i), &out, func(p *holder.Partition) { p.Retire(now, &out) })
	}
	c.emit(&out)
	return c.Await(ctx, func(*ring.View) bool {
		for i := range c.partitions {
			if c.partitions[i].status(c.now()).Lacking {
				return false
			}
		}
		return true
	})
}

// View returns the membership that the cluster decides by.
func (c *Cluster) View() *ring.View { return c.routes.Load().view }

// now is the clock of the protocol.
func (c *Cluster) now() int64 { return int64(time.Since(c.started)) }

// Self returns this node's name.
func (c *Cluster) Self() string { return c.self.Name }

// Stats returns the cluster's counters.
func (c *Cluster) Stats() *Stats { return &c.stats }

// RPC returns the counters of the calls between this node and its peers.
func (c *Cluster) RPC() *rpc.Stats { return c.config.RPC.Stats }

// LiveBuckets returns the buckets that this node decides, without copies of
// others'. Among them are expired ones that have not been swept yet.
func (c *Cluster) LiveBuckets() int {
	n, now := 0, c.now()
	for i := range c.partitions {
		if p := &c.partitions[i]; p.status(now).Holds {
			n += p.Table().Len()
		}
	}
	return n
}

// Replication tells how far the copies are behind, and what moves.
type Replication struct {
	Lag      time.Duration // of the partition that is the furthest behind
	Admitted int64         // units that no copy knows of: what a crash now would admit too much, of all keys together, but for Bare
	Bare     int           // partitions that no other node has a copy of; a crash now would lose all of them
	Held     int           // partitions that this node decides
	Building int           // partitions that are being copied or handed over
}

// Replication returns how it is now.
func (c *Cluster) Replication() Replication {
	var r Replication
	now := c.now()
	for i := range c.partitions {
		s := c.partitions[i].status(now)
		r.Lag = max(r.Lag, s.Lag)
		r.Admitted += s.Admitted
		if s.Bare {
			r.Bare++
		}
		if s.Holds {
			r.Held++
		}
		if s.Building {
			r.Building++
		}
	}
	return r
}

// Replicas returns how many backups each partition has, 0 or 1.
func (c *Cluster) Replicas() int { return c.config.Replicas }

// Circuit reports whether calls to the member go to its backups at once, since
// it is silent or slow.
func (c *Cluster) Circuit(name string) (open bool) {
	n, ok := c.routes.Load().nodeNamed(name, c.self)
	return ok && c.peers.Open(n)
}

// LiveBucketsOfAll asks every member how many buckets it holds, all at once.
// Those that do not answer within the forward timeout are missing.
func (c *Cluster) LiveBucketsOfAll(ctx context.Context) map[string]int64 {
	ctx, cancel := context.WithTimeout(ctx, c.config.ForwardTimeout)
	defer cancel()
	live := map[string]int64{c.self.Name: int64(c.LiveBuckets())}
	var mu sync.Mutex
	var calls sync.WaitGroup
	for name, p := range c.routes.Load().byName {
		calls.Go(func() {
			status, err := p.calls.Status(ctx)
			if err != nil {
				return // counted by rpc; the answer shows who is missing
			}
			mu.Lock()
			defer mu.Unlock()
			live[name] = status.LiveBuckets
		})
	}
	calls.Wait()
	return live
}

// follow keeps up with the View.
func (c *Cluster) follow() {
	for {
		select {
		case <-c.stop:
			return
		case <-c.config.Members.Changed():
			c.adopt()
		}
	}
}

// adopt makes the current View the one that this node goes by.
func (c *Cluster) adopt() {
	old := c.routes.Load()
	r := c.newRoutes(old)
	c.routes.Store(r)
	now := c.now()
	c.peers.SetPlacement(now, placement(r.view, c.self))
	c.tick(now, func(*partition) bool { return true })
	c.tellWaiting()
	r.closeReplaced(old)
	c.warnOfOtherPolicies(r)
}

// tellWaiting has those who wait look again.
func (c *Cluster) tellWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// short is how often partitions are looked after that are in the middle of
// something.
const short = 10 * time.Millisecond

// beat gives the protocol its time.
func (c *Cluster) beat() {
	ticker := time.NewTicker(short)
	defer ticker.Stop()
	last := int64(0)
	var told failures
	for {
		select {
		case <-c.stop:
			return
		case <-ticker.C:
		}
		now := c.now()
		if now-last < int64(holder.Beat) {
			c.tick(now, func(p *partition) bool { return p.busy.Load() })
			continue
		}
		last = now
		var out holder.Out
		c.peers.Tick(now, &out)
		c.emit(&out)
		c.tick(now, func(*partition) bool { return true })
		c.tellWaiting()
		told = c.tellFailures(told)
	}
}

// tick lets the partitions do what is due.
func (c *Cluster) tick(now int64, due func(*partition) bool) {
	var out holder.Out
	for i := range c.partitions {
		if due(&c.partitions[i]) {
			c.advance(uint32(i), &out, func(p *holder.Partition) { p.Tick(now, &out) })
		}
	}
	c.emit(&out)
}

// warnOfOtherPolicies says which members would decide by another policy: a
// request is limited by that of the node it is asked of.
func (c *Cluster) warnOfOtherPolicies(r *routes) {
	self, _ := r.view.Member(c.self.Name)
	for _, m := range r.view.Members() {
		if m.State == ring.Active && m.Policy != self.Policy {
			c.config.Log.Warn("a member has another policy; give all nodes the same", "peer", m.Name, "policy", m.Policy, "own", self.Policy)
		}
	}
}

// A sweep visits every table once in sweepEvery times sweepParts.
const (
	sweepEvery = time.Second
	sweepParts = 10
)

// sweep gives back the memory of buckets that drained while nobody asked.
func (c *Cluster) sweep() {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for part := 0; ; part = (part + 1) % sweepParts {
		select {
		case <-c.stop:
			return
		case <-ticker.C:
		}
		now := c.clock()
		for i := part; i < len(c.partitions); i += sweepParts {
			p := &c.partitions[i]
			p.mu.Lock()
			p.Rebuild(now)
			p.mu.Unlock()
		}
	}
}
