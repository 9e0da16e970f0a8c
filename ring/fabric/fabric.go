// Package fabric is a network in memory, for tests: gossip packets, gossip
// streams and node-to-node connections between named hosts, with delays, cuts
// and crashes.
//
// It uses nothing but channels and timers, so that it runs in the virtual time
// of a testing/synctest bubble. An address is host:port, or a bare host.
package fabric

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// ErrRefused is what dialling an address fails with where nobody listens.
var ErrRefused = errors.New("fabric: connection refused")

// Network is one network. Its fields are set before it is used.
type Network struct {
	// Delay is how long whatever is sent from one host to another is under
	// way. nil: no time at all.
	Delay func(from, to string) time.Duration
	// Capacity is the bytes under way per direction of a connection before a
	// write waits.
	Capacity int

	mu         sync.Mutex
	listeners  map[string]*listener
	transports map[string]*Transport
	conns      map[*conn]struct{}
	cuts       map[[2]string]bool
	isolated   map[string]bool
	healed     chan struct{} // closed and replaced when something heals
}

// New returns a network without delays.
func New() *Network {
	return &Network{
		Capacity:   64 << 10,
		listeners:  make(map[string]*listener),
		transports: make(map[string]*Transport),
		conns:      make(map[*conn]struct{}),
		cuts:       make(map[[2]string]bool),
		isolated:   make(map[string]bool),
		healed:     make(chan struct{}),
	}
}

// Listen takes connections at the address. A listener that is there already is
// replaced.
func (n *Network) Listen(address string) net.Listener {
	l := &listener{network: n, address: address, backlog: newBacklog()}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[address] = l
	return l
}

// Dialer returns a function that connects from the host to an address. To a
// host that is cut off, it waits until the context ends.
func (n *Network) Dialer(host string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		if err := n.await(ctx, host, hostOf(address)); err != nil {
			return nil, err
		}
		n.mu.Lock()
		l := n.listeners[address]
		n.mu.Unlock()
		if l == nil {
			return nil, ErrRefused
		}
		return n.connect(ctx, host, address, l.backlog)
	}
}

// Cut lets nothing pass between two hosts, until Heal. What is under way on a
// connection waits; packets are lost.
func (n *Network) Cut(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[link(a, b)] = true
}

// Heal undoes Cut.
func (n *Network) Heal(a, b string) {
	n.heal(func() { delete(n.cuts, link(a, b)) })
}

// Isolate cuts a host off from all others, until Reconnect.
func (n *Network) Isolate(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isolated[host] = true
}

// Reconnect undoes Isolate.
func (n *Network) Reconnect(host string) {
	n.heal(func() { delete(n.isolated, host) })
}

// Crash ends everything of a host as the death of its process does: its
// connections are lost and its addresses refuse.
func (n *Network) Crash(host string) {
	n.mu.Lock()
	for address := range n.listeners {
		if hostOf(address) == host {
			delete(n.listeners, address)
		}
	}
	for address := range n.transports {
		if hostOf(address) == host {
			delete(n.transports, address)
		}
	}
	n.mu.Unlock()
	n.reset(func(c *conn) bool { return c.from == host })
}

// Reset ends all connections.
func (n *Network) Reset() { n.reset(func(*conn) bool { return true }) }

func (n *Network) reset(which func(*conn) bool) {
	n.mu.Lock()
	var lost []*conn
	for c := range n.conns {
		if which(c) {
			lost = append(lost, c)
		}
	}
	n.mu.Unlock()
	for _, c := range lost {
		c.Close()
	}
}

func (n *Network) heal(undo func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	undo()
	close(n.healed)
	n.healed = make(chan struct{})
}

// passable reports whether anything passes between two hosts; if not, heals is
// closed at the next change for the better.
func (n *Network) passable(from, to string) (ok bool, heals <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	blocked := from != to && (n.cuts[link(from, to)] || n.isolated[from] || n.isolated[to])
	return !blocked, n.healed
}

// await waits until something passes.
func (n *Network) await(ctx context.Context, from, to string) error {
	for {
		ok, heals := n.passable(from, to)
		if ok {
			return nil
		}
		select {
		case <-heals:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (n *Network) delay(from, to string) time.Duration {
	if n.Delay == nil {
		return 0
	}
	return n.Delay(from, to)
}

func link(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// addr is an address of the network.
type addr string

// Network implements net.Addr.
func (addr) Network() string  { return "fabric" }
func (a addr) String() string { return string(a) }
