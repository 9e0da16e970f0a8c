package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Identity says which run of which node one end of a connection is.
type Identity struct {
	Name   string // member name, 1 to MaxName bytes
	Boot   uint64 // differs between two starts of one name
	Label  string // the cluster's, at most MaxName bytes; ends with different ones refuse each other
	Format uint32 // ring format; ends that place keys differently refuse each other
}

// Node is one run of a member. The zero Node is nobody.
type Node struct {
	Name string // member name, at most MaxName bytes
	Boot uint64 // differs between two starts of one name
}

// IsZero reports whether the node is nobody.
func (n Node) IsZero() bool { return n == Node{} }

// check returns why the node cannot be named on the wire, or nil.
func (n Node) check() error {
	switch {
	case len(n.Name) > MaxName:
		return fmt.Errorf("name of %d bytes, at most %d", len(n.Name), MaxName)
	case n.Name == "" && n.Boot != 0:
		return errors.New("run of a node without a name")
	}
	return nil
}

// Node returns which run of which member the end is.
func (i Identity) Node() Node { return Node{Name: i.Name, Boot: i.Boot} }

// Config is what clients and servers of one node share. Only Self is needed.
type Config struct {
	Self Identity

	// Clock is the clock this node decides by, in Unix nanoseconds, never
	// negative. It is read once or twice per call. nil: the wall clock.
	Clock func() int64

	// Dial opens a connection and must return once ctx ends. nil: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	// MaxInFlight is how many calls may wait for replies on one connection;
	// more fail with CodeOverloaded. 0: 4096.
	MaxInFlight int

	// Log receives what a server refuses: one of a fixed few messages per event,
	// with the peer's address as "peer". Strangers can cause any number of them,
	// so its handler should leave some out. nil: nothing is logged.
	Log *slog.Logger

	// Stats is counted into, by as many clients and servers as share it.
	// nil: counts are lost.
	Stats *Stats
}

// DefaultTimeout bounds a call whose context has no deadline.
const DefaultTimeout = time.Second

const (
	handshakeTimeout = 3 * time.Second // dial and hello together
	frameTimeout     = 5 * time.Second // from the first byte of a frame to its last
	writeTimeout     = 5 * time.Second // one write of all that was queued
	closeTimeout     = time.Second     // for the replies still queued when a server closes
	stallTimeout     = 2 * time.Second // silence after which a call that gives up ends the connection

	minBackOff = 50 * time.Millisecond
	maxBackOff = time.Second

	maxQueue       = 4 * MaxFrame // bytes queued for writing before a client is overloaded or a server stops reading
	maxConnections = 1024         // of one server
	maxLater       = 4096         // requests of one server that wait for something
)

// complete returns the config with its defaults filled in. It panics if Self
// could not be sent.
func (c Config) complete() Config {
	if c.Self.Name == "" || len(c.Self.Name) > MaxName || len(c.Self.Label) > MaxName {
		panic("rpc: Config.Self needs a Name of 1 to 256 bytes and a Label of at most 256")
	}
	if c.Clock == nil {
		c.Clock = func() int64 { return time.Now().UnixNano() }
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address)
		}
	}
	if c.MaxInFlight <= 0 {
		c.MaxInFlight = 4096
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Stats == nil {
		c.Stats = new(Stats)
	}
	return c
}
