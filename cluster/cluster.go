package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"weir/leaky"
	"weir/ring"
	"weir/rpc"
	"weir/shard"
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
	ForwardTimeout time.Duration // deadline of one call to an owner; default 100 ms
	Log            *slog.Logger  // default: none
}

// Cluster decides checks together with its peers. It is made by [New], works
// once [Cluster.Open] has returned, and is safe for concurrent use.
type Cluster struct {
	config Config
	clock  func() int64
	server *rpc.Server
	tables [ring.Partitions]*shard.Table
	routes atomic.Pointer[routes]
	stats  Stats

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when routes are

	stop    chan struct{}
	once    sync.Once
	workers sync.WaitGroup
}

// Stats counts what a Cluster did since it was made.
type Stats struct {
	Local     atomic.Int64 // stages decided here for this node's own callers
	Forwarded atomic.Int64 // stages sent to their owner
	Degraded  [reasons]atomic.Int64
}

// Reason says why an owner could not be asked.
type Reason uint8

const (
	ReasonUnavailable Reason = iota // no connection, it broke before the answer, or the answer was none
	ReasonTimeout                   // no answer within the forward timeout
	ReasonOverloaded                // too many calls to the owner under way
	ReasonNotOwner                  // the nodes asked do not agree on an owner
	reasons
)

// Reasons returns every reason, in the order of Stats.Degraded.
func Reasons() []Reason {
	return []Reason{ReasonUnavailable, ReasonTimeout, ReasonOverloaded, ReasonNotOwner}
}

// String returns the reason as the metrics spell it.
func (r Reason) String() string {
	return [reasons]string{"unavailable", "timeout", "overloaded", "not_owner"}[r]
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
	c := &Cluster{config: config, clock: config.RPC.Clock, changed: make(chan struct{}), stop: make(chan struct{})}
	for p := range c.tables {
		c.tables[p] = shard.NewTable()
	}
	c.server = rpc.NewServer(config.RPC, peers{c})
	c.routes.Store(newRoutes(config, nil))
	return c
}

// Open starts answering peers on the listener and following the membership. The
// cluster closes the listener.
func (c *Cluster) Open(listener net.Listener) {
	c.workers.Go(func() {
		if err := c.server.Serve(listener); err != nil {
			c.config.Log.Error("node-to-node listener failed", "error", err)
		}
	})
	c.workers.Go(c.follow)
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
		case <-ctx.Done():
			return fmt.Errorf("cluster: waiting for the membership: %w", ctx.Err())
		}
	}
}

// View returns the membership that the cluster decides by.
func (c *Cluster) View() *ring.View { return c.routes.Load().view }

// Stats returns the cluster's counters.
func (c *Cluster) Stats() *Stats { return &c.stats }

// RPC returns the counters of the calls between this node and its peers.
func (c *Cluster) RPC() *rpc.Stats { return c.config.RPC.Stats }

// LiveBuckets returns the buckets that this node holds, among them expired ones
// that have not been swept yet.
func (c *Cluster) LiveBuckets() int {
	n := 0
	for _, t := range c.tables {
		n += t.Len()
	}
	return n
}

// LiveBucketsOfAll asks every member how many buckets it holds, all at once.
// Those that do not answer within the forward timeout are missing.
func (c *Cluster) LiveBucketsOfAll(ctx context.Context) map[string]int64 {
	ctx, cancel := context.WithTimeout(ctx, c.config.ForwardTimeout)
	defer cancel()
	r := c.routes.Load()
	live := map[string]int64{r.self: int64(c.LiveBuckets())}
	var mu sync.Mutex
	var calls sync.WaitGroup
	for i, client := range r.clients {
		if client == nil {
			continue
		}
		calls.Go(func() {
			status, err := client.Status(ctx)
			if err != nil {
				return // counted by rpc; the answer shows who is missing
			}
			mu.Lock()
			defer mu.Unlock()
			live[r.members[i].Name] = status.LiveBuckets
		})
	}
	calls.Wait()
	return live
}

// follow keeps the routes at the View.
func (c *Cluster) follow() {
	for {
		select {
		case <-c.stop:
			return
		case <-c.config.Members.Changed():
			old := c.routes.Load()
			now := newRoutes(c.config, old)
			c.mu.Lock()
			c.routes.Store(now)
			close(c.changed)
			c.changed = make(chan struct{})
			c.mu.Unlock()
			now.closeReplaced(old)
			c.warnOfOtherPolicies(now)
		}
	}
}

// warnOfOtherPolicies says which members would decide by another policy: a
// request is limited by that of the node it is asked of.
func (c *Cluster) warnOfOtherPolicies(r *routes) {
	self, _ := r.view.Member(r.self)
	for _, m := range r.members {
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
		for p := part; p < len(c.tables); p += sweepParts {
			c.tables[p].Rebuild(now)
		}
	}
}

// decideHere appends the answers of a sequence to results: up to its first
// refusal, or all of them if it only peeks.
func (c *Cluster) decideHere(checks []leaky.Check, peek bool, now int64, results []leaky.Result) []leaky.Result {
	for _, check := range checks {
		table := c.tables[check.Partition]
		if peek {
			results = append(results, table.Look(check, now))
			continue
		}
		res := table.Take(check, now)
		results = append(results, res)
		if !res.Allowed {
			break
		}
	}
	return results
}
