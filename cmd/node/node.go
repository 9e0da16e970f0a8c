package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"weir/cluster"
	"weir/httpfront"
	"weir/policy"
	"weir/ring"
	"weir/rpc"
)

// Config is everything a Node needs to know. The flags fill it; tests fill it
// themselves.
type Config struct {
	Name           string // default: the advertised gossip address
	HTTP           string // host:port of each listener; port 0 picks a free one
	Admin          string
	Gossip         string
	RPC            string
	Advertise      string // host that others reach this node at; default: the hosts of the listeners
	Join           []string
	JoinTimeout    time.Duration
	Cluster        string
	Policy         *policy.Policy
	ForwardTimeout time.Duration
	Replicas       int    // backups of each partition, 0 or 1
	Snapshot       string // file to keep the state in; none if empty
	DrainDelay     time.Duration
	Version        string
	Log            *slog.Logger

	Now func() time.Time // default time.Now; tests stop or move it
}

// Node is one running member of a cluster.
type Node struct {
	config   Config
	ring     *ring.Ring
	cluster  *cluster.Cluster
	front    *httpfront.Front
	snapshot *snapshots
	self     ring.Member

	closing  sync.Once
	closeErr error
}

// Open starts a node: it listens, joins the cluster and returns once it may
// take traffic. The context bounds the start alone. If Open fails, nothing of
// the node is left. A start that is interrupted once the node takes part does
// not fail: the node may have partitions by then, which Close hands over.
func Open(ctx context.Context, config Config) (*Node, error) {
	n := &Node{config: config}
	if n.config.Now == nil {
		n.config.Now = time.Now
	}
	if err := n.open(ctx); err != nil {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if n.ring != nil && !errors.Is(err, ring.ErrNameTaken) { // then the goodbye would be in another's name
			n.leave(closing)
		}
		return nil, errors.Join(err, n.stop(closing))
	}
	return n, nil
}

func (n *Node) open(ctx context.Context) error {
	c := n.config
	var listeners []net.Listener
	listen := func(flag, address string) (l net.Listener, err error) {
		if l, err = net.Listen("tcp", address); err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		listeners = append(listeners, l)
		return l, nil
	}
	serving := false
	defer func() {
		if !serving {
			for _, l := range listeners {
				l.Close()
			}
		}
	}()
	http, err := listen("http", c.HTTP)
	if err != nil {
		return err
	}
	admin, err := listen("admin", c.Admin)
	if err != nil {
		return err
	}
	peers, err := listen("rpc", c.RPC)
	if err != nil {
		return err
	}

	boot := rand.Uint64()
	n.ring, err = ring.New(ring.Config{
		Self: ring.Member{
			Name:    c.Name,
			Boot:    boot,
			State:   ring.Joining,
			RPC:     advertised(c.Advertise, peers),
			HTTP:    advertised(c.Advertise, http),
			Admin:   advertised(c.Advertise, admin),
			Version: c.Version,
			Policy:  c.Policy.Hash(),
		},
		Label:         c.Cluster,
		Seeds:         c.Join,
		JoinTimeout:   c.JoinTimeout,
		Bind:          c.Gossip,
		AdvertiseHost: c.Advertise,
		Log:           c.Log,
	})
	if err != nil {
		return fmt.Errorf("--gossip: %w", err)
	}
	n.self = n.ring.Self()
	var hashKey [16]byte // no secret yet: the same for everybody, so that nodes agree
	keys := policy.NewKeys(hashKey, ring.Partitions)
	n.cluster = cluster.New(cluster.Config{
		RPC: rpc.Config{
			Self:  rpc.Identity{Name: n.self.Name, Boot: boot, Label: c.Cluster, Format: ring.Format},
			Clock: decidingClock(c.Now),
			Log:   c.Log,
		},
		Members:        n.ring,
		ForwardTimeout: c.ForwardTimeout,
		Replicas:       c.Replicas,
		HashKey:        keys.Mark(),
		Log:            c.Log,
	})
	n.front, err = httpfront.New(httpfront.Config{
		Policy:  c.Policy,
		Keys:    keys,
		Cluster: n.cluster,
		Label:   c.Cluster,
		Self:    n.ring.Self,
		Now:     c.Now,
		Log:     c.Log,
	})
	if err != nil {
		return err
	}
	n.snapshot, err = openSnapshots(c, n.cluster)
	if err != nil {
		return fmt.Errorf("--snapshot: %w", err)
	}
	serving = true
	n.front.Serve(http, admin)
	if err := n.ring.Join(ctx); err != nil {
		return errors.Join(fmt.Errorf("--join: %w", err), peers.Close())
	}
	// Only now: alone in its View a node takes itself for the owner of all.
	n.cluster.Open(peers)
	n.ring.SetState(ring.Active)
	n.snapshot.start()
	n.arrive(ctx)
	return nil
}

// arrive waits until the node has what is its own, and says that it is ready. If
// it is interrupted it says nothing: what the node has got by then is to be
// handed over like any other's.
func (n *Node) arrive(ctx context.Context) {
	err := n.cluster.Await(ctx, func(v *ring.View) bool {
		self, ok := v.Member(n.self.Name)
		return ok && self.State == ring.Active
	})
	if err == nil {
		arriving, cancel := context.WithTimeout(ctx, arriveTimeout)
		defer cancel()
		err = n.cluster.AwaitOwn(arriving)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		n.config.Log.Warn("not all partitions have arrived; ready all the same", "waited", arriveTimeout)
	}
	n.front.SetReady()
}

// arriveTimeout bounds how long a node that joins waits for its partitions. It
// decides rightly without them: those who hold them are asked.
const arriveTimeout = 10 * time.Second

// Self returns the node as others see it, with the addresses it is reached at.
func (n *Node) Self() ring.Member { return n.ring.Self() }

// Close leaves the cluster and stops: unready first, then others take over what
// this node owned, then the listeners close. The context bounds all of it; what
// is not done by then is cut off. Nothing of the node runs when it returns.
// Called again, it returns what it returned.
func (n *Node) Close(ctx context.Context) error {
	n.closing.Do(func() { n.closeErr = n.close(ctx) })
	return n.closeErr
}

func (n *Node) close(ctx context.Context) error {
	n.front.Drain()
	wait(ctx, n.config.DrainDelay)
	n.snapshot.save(ctx)
	n.ring.SetState(ring.Leaving)
	n.handOver(ctx)
	// Others go on asking here until they have heard. They are told whom to
	// ask instead, so nothing is lost meanwhile.
	wait(ctx, min(leaveHeard, left(ctx)/2))
	// If there was nobody to hand over to, somebody may have come.
	if n.cluster.Replication().Held > 0 {
		n.handOver(ctx)
	}
	err := n.front.Close(ctx)
	// If there is nobody to hand over to, all nodes stop: those who stop last
	// have the copies.
	if n.cluster.Replication().Held > 0 {
		n.retire(ctx)
		n.snapshot.save(ctx)
		if bare := n.cluster.Replication().Bare; bare > 0 && n.config.Snapshot == "" {
			n.config.Log.Info("nobody has a copy of what this node counted, and there is no snapshot", "partitions", bare)
		}
	}
	n.leave(ctx)
	err = errors.Join(err, n.stop(ctx))
	if ctx.Err() != nil {
		err = errors.Join(fmt.Errorf("leaving was cut off: %w", ctx.Err()), err)
	}
	return err
}

// handOver waits until others have all that this node held. It leaves some time
// to say goodbye in.
func (n *Node) handOver(ctx context.Context) {
	const goodbye = 2 * time.Second
	rest := left(ctx)
	ctx, cancel := context.WithTimeout(ctx, rest-min(goodbye, rest/2))
	defer cancel()
	if err := n.cluster.AwaitEmpty(ctx); err != nil {
		n.config.Log.Warn("not all partitions could be handed over in time; their backups take over", "error", err)
	}
}

// retire waits until the copies of what this node holds still have every word.
func (n *Node) retire(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, retireTimeout)
	defer cancel()
	if err := n.cluster.Retire(ctx); err != nil {
		n.config.Log.Warn("not all that was admitted last is known to another node", "error", err)
	}
}

// retireTimeout bounds how long copies may take to say that they have all. It
// is one round trip if they live.
const retireTimeout = time.Second

// leave says goodbye. That nobody may have heard it is worth a warning only if
// somebody is left who could.
func (n *Node) leave(ctx context.Context) {
	if err := n.ring.Leave(ctx); err != nil {
		level := slog.LevelInfo
		for _, m := range n.ring.View().Members() {
			if m.Name != n.self.Name && m.State == ring.Active {
				level = slog.LevelWarn
			}
		}
		n.config.Log.Log(ctx, level, "the others may take this node for dead", "error", err)
	}
}

// leaveHeard is how long gossip takes, with room, to tell everybody that a
// member leaves.
const leaveHeard = 500 * time.Millisecond

func (n *Node) stop(ctx context.Context) error {
	var errs []error
	if n.snapshot != nil {
		errs = append(errs, n.snapshot.stop())
	}
	if n.front != nil {
		errs = append(errs, n.front.Close(ctx))
	}
	if n.cluster != nil {
		errs = append(errs, n.cluster.Close())
	}
	if n.ring != nil {
		errs = append(errs, n.ring.Close())
	}
	return errors.Join(errs...)
}

// left returns how long the context may still last.
func left(ctx context.Context) time.Duration {
	if by, ok := ctx.Deadline(); ok {
		return time.Until(by)
	}
	return math.MaxInt64
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// decidingClock returns Unix nanoseconds that never run backwards: the wall
// clock at its start plus the time that has passed since, which no later step
// of the wall clock changes.
func decidingClock(now func() time.Time) func() int64 {
	start := now()
	return func() int64 { return start.UnixNano() + int64(now().Sub(start)) }
}

// advertised returns the address that others reach the listener at.
func advertised(host string, l net.Listener) string {
	bound, port, _ := net.SplitHostPort(l.Addr().String())
	if host == "" {
		host = bound
	}
	return net.JoinHostPort(host, port)
}
