package fabric

import (
	"context"
	"net"
	"sync"
)

// backlog holds the connections to an address that nobody has accepted yet.
type backlog struct {
	conns chan net.Conn
	once  sync.Once
	gone  chan struct{} // closed once it takes no more
}

// refuse ends the connections in the backlog and those to come.
func (b *backlog) refuse() {
	b.once.Do(func() { close(b.gone) })
	for {
		select {
		case c := <-b.conns:
			c.Close()
		default:
			return
		}
	}
}

// add puts in a connection, unless its dialler or the backlog is gone.
func (b *backlog) add(ctx context.Context, gone <-chan struct{}, c net.Conn) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case b.conns <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-gone:
	case <-b.gone:
	}
	// It may be in although one of them is gone: then it came too late for
	// Crash or refuse to find it.
	switch {
	case over(gone):
		return net.ErrClosed
	case over(b.gone):
		b.refuse()
		return ErrRefused
	}
	return nil
}

func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// listen opens the address to connections and ends what listened there before.
func (n *Network) listen(address string) *backlog {
	b := &backlog{conns: make(chan net.Conn, 64), gone: make(chan struct{})}
	n.mu.Lock()
	old := n.backlogs[address]
	n.backlogs[address] = b
	n.mu.Unlock()
	if old != nil {
		old.refuse()
	}
	return b
}

func (n *Network) unlisten(address string, b *backlog) {
	n.mu.Lock()
	if n.backlogs[address] == b {
		delete(n.backlogs, address)
	}
	n.mu.Unlock()
	b.refuse()
}

// dial connects a host to an address, once it can be reached. It ends with ctx,
// or when the dialler is gone.
func (n *Network) dial(ctx context.Context, gone <-chan struct{}, host, address string) (net.Conn, error) {
	for {
		ok, heals := n.passable(host, hostOf(address))
		if ok {
			break
		}
		select {
		case <-heals:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-gone:
			return nil, net.ErrClosed
		}
	}
	b, client, server := n.pair(host, address)
	if b == nil {
		return nil, ErrRefused
	}
	if err := b.add(ctx, gone, server); err != nil {
		client.Close()
		server.Close()
		return nil, err
	}
	return client, nil
}

// pair returns the two ends of a new connection and the backlog for the second.
// Both are known to the network before either is used, and Crash first marks as
// gone what it ends: a connection is found by it, or finds itself refused.
func (n *Network) pair(host, address string) (b *backlog, client, server *conn) {
	to := hostOf(address)
	there, back := n.newStream(host, to), n.newStream(to, host)
	client = &conn{network: n, host: host, in: back, out: there, local: addr(host), remote: addr(address)}
	server = &conn{network: n, host: to, in: there, out: back, local: addr(address), remote: addr(host)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if b = n.backlogs[address]; b != nil {
		n.conns[client], n.conns[server] = struct{}{}, struct{}{}
	}
	return b, client, server
}

type listener struct {
	network *Network
	address string
	backlog *backlog
	once    sync.Once
	closed  chan struct{}
}

// Accept implements net.Listener. After a crash, nothing comes until Close: who
// is dead learns nothing.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	l.network.unlisten(l.address, l.backlog)
	return nil
}

func (l *listener) Addr() net.Addr { return addr(l.address) }
