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

var (
	// ErrRefused is what dialling an address fails with where nobody listens.
	ErrRefused = errors.New("fabric: connection refused")
	// ErrReset is what a write fails with when the other end is closed.
	ErrReset = errors.New("fabric: connection reset")
)

// Network is one network. Its fields are set before it is used.
type Network struct {
	// Delay is how long packets and bytes from one host to another are under
	// way. nil: no time at all.
	Delay func(from, to string) time.Duration
	// Capacity is how many bytes per direction of a connection may be written
	// and not yet read before a write waits.
	Capacity int

	mu         sync.Mutex
	backlogs   map[string]*backlog      // of the addresses where somebody listens
	transports map[string]*Transport    // the last one of each address
	processes  map[string]chan struct{} // of each host that dials; closed at its crash
	conns      map[*conn]struct{}
	cuts       map[[2]string]bool
	isolated   map[string]bool
	healed     chan struct{} // closed and replaced when something heals
}

// New returns a network without delays.
func New() *Network {
	return &Network{
		Capacity:   64 << 10,
		backlogs:   make(map[string]*backlog),
		transports: make(map[string]*Transport),
		processes:  make(map[string]chan struct{}),
		conns:      make(map[*conn]struct{}),
		cuts:       make(map[[2]string]bool),
		isolated:   make(map[string]bool),
		healed:     make(chan struct{}),
	}
}

// Listen takes connections at the address. Who listened there before is
// replaced.
func (n *Network) Listen(address string) net.Listener {
	return &listener{network: n, address: address, backlog: n.listen(address), closed: make(chan struct{})}
}

// Dialer returns a function that connects from the host to an address, until
// the host crashes. It takes no time; but if nothing passes, or too many
// connections wait to be accepted, until that changes or the context ends.
func (n *Network) Dialer(host string) func(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	gone, ok := n.processes[host]
	if !ok {
		gone = make(chan struct{})
		n.processes[host] = gone
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		return n.dial(ctx, gone, host, address)
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
// connections are lost, its addresses refuse, and what it had opened neither
// takes nor sends anything any more. What is opened later is another process's.
func (n *Network) Crash(host string) {
	n.mu.Lock()
	var lost []*backlog
	for address, b := range n.backlogs {
		if hostOf(address) == host {
			lost = append(lost, b)
			delete(n.backlogs, address)
		}
	}
	if gone, ok := n.processes[host]; ok {
		close(gone)
		delete(n.processes, host)
	}
	n.mu.Unlock()
	for _, b := range lost {
		b.refuse()
	}
	n.reset(func(c *conn) bool { return c.host == host })
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
