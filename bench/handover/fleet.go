package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	pollEvery  = 50 * time.Millisecond
	settledFor = 250 * time.Millisecond // five beats of replication: nothing is about to move
	patience   = 2 * time.Minute        // for a cluster to settle
)

// fleet is a cluster of processes.
type fleet struct {
	binary string
	args   []string
	client *http.Client
	nodes  []*node // that run
	names  int     // given so far

	mu    sync.Mutex
	asked []*node // that callers ask
}

// startFleet starts nodes, each of which has all as its seeds, and waits until
// they have settled.
func startFleet(ctx context.Context, size int, binary string, callers int, args ...string) (*fleet, error) {
	f := &fleet{binary: binary, args: args, client: &http.Client{
		Timeout: 30 * time.Second,
		// Shorter than the nodes wait: no request meets a connection that is being closed.
		Transport: &http.Transport{MaxIdleConnsPerHost: callers + fillers + 2, IdleConnTimeout: 30 * time.Second},
	}}
	at, err := freeAddresses(size)
	if err != nil {
		return nil, err
	}
	for _, a := range at {
		if _, err := f.start(a, at); err != nil {
			f.close()
			return nil, err
		}
	}
	if _, err := f.follow(ctx, size, nil); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *fleet) start(at addresses, seeds []addresses) (*node, error) {
	var join []string
	for _, s := range seeds {
		join = append(join, s.gossip)
	}
	f.names++
	n, err := startNode(f.binary, fmt.Sprintf("node%d", f.names), at, append([]string{"--join", strings.Join(join, ",")}, f.args...)...)
	if err != nil {
		return nil, err
	}
	f.nodes = append(f.nodes, n)
	return n, nil
}

// close kills what runs and waits for it.
func (f *fleet) close() {
	for _, n := range f.nodes {
		n.kill()
	}
	f.client.CloseIdleConnections()
}

// any returns one of the nodes that callers ask.
func (f *fleet) any() *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[rand.IntN(len(f.asked))]
}

// ask lets callers ask the node, or no longer.
func (f *fleet) ask(n *node, yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch at := slices.Index(f.asked, n); {
	case yes && at < 0:
		f.asked = append(f.asked, n)
	case !yes && at >= 0:
		f.asked = slices.Delete(f.asked, at, at+1)
	}
}

// move is what a node's coming or going was like.
type move struct {
	done    time.Duration // from its start until the node was ready, or from the signal until it had ended
	settled time.Time     // when all agreed and nothing moved any more
	took    time.Duration // until then
	moving  time.Duration // between the first and the last sight of something that moves
	watched time.Duration // in all
	keys    int64         // sent from node to node
}

// join starts one more node and waits until the cluster has settled.
func (f *fleet) join(ctx context.Context) (move, error) {
	at, err := freeAddresses(1)
	if err != nil {
		return move{}, err
	}
	var seeds []addresses
	for _, n := range f.nodes {
		seeds = append(seeds, n.at)
	}
	return f.while(ctx, len(f.nodes)+1, func() (came, went *node, err error) {
		came, err = f.start(at[0], seeds)
		return came, nil, err
	})
}

// leave stops the youngest node and waits until the cluster has settled. Callers
// ask it until it says that it is unready, as a load balancer does.
func (f *fleet) leave(ctx context.Context) (move, error) {
	return f.while(ctx, len(f.nodes)-1, func() (came, went *node, err error) {
		went = f.nodes[len(f.nodes)-1]
		if err := went.process.Process.Signal(syscall.SIGTERM); err != nil {
			return nil, nil, fmt.Errorf("stopping %s: %w", went.name, err)
		}
		return nil, went, nil
	})
}

// while begins a move and follows it to its end.
func (f *fleet) while(ctx context.Context, active int, begin func() (came, went *node, err error)) (move, error) {
	if now := f.poll(ctx); !now.known {
		return move{}, errors.New("not every node says what it has sent")
	}
	before := f.sent()
	began := time.Now()
	came, went, err := begin()
	if err != nil {
		return move{}, err
	}
	nodes := slices.Clone(f.nodes)
	m, err := f.follow(ctx, active, went)
	if err != nil {
		return move{}, err
	}
	for _, n := range nodes {
		m.keys += n.keys
	}
	m.keys -= before
	m.took, m.watched = m.settled.Sub(began), time.Since(began)
	if came != nil {
		m.done = came.readyAt.Sub(began)
	} else {
		m.done = went.exitedAt.Sub(began)
	}
	return m, nil
}

func (f *fleet) sent() (keys int64) {
	for _, n := range f.nodes {
		keys += n.keys
	}
	return keys
}

// follow polls the nodes until so many are active, all are ready and agree, and
// nothing moves for a while; and until the one that goes has gone.
func (f *fleet) follow(ctx context.Context, active int, goes *node) (move, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the cluster has not settled in %s", patience))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var m move
	var first, last time.Time // sight of something that moves
	for {
		began := time.Now()
		if goes != nil && goes.isGone() {
			if goes.process.ProcessState.ExitCode() != 0 {
				return m, goes.ended()
			}
			f.ask(goes, false)
			f.nodes = slices.DeleteFunc(f.nodes, func(n *node) bool { return n == goes })
			goes = nil
		}
		now := f.poll(ctx)
		ready := true
		for _, n := range f.nodes {
			switch {
			case n == goes:
				if !f.isReady(ctx, n) {
					f.ask(n, false)
				}
			case n.isGone():
				return m, n.ended()
			case n.isReady():
				f.ask(n, true)
			default:
				ready = false
			}
		}
		if now.moving > 0 {
			if first.IsZero() {
				first = began
			}
			last = time.Now()
		}
		switch {
		case goes != nil || !ready || !now.known || now.moving > 0 || now.active != active || !now.agreed:
			m.settled = time.Time{}
		case m.settled.IsZero():
			m.settled = began
		case time.Since(m.settled) >= settledFor:
			m.moving = last.Sub(first)
			return m, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return m, context.Cause(ctx)
		}
	}
}
