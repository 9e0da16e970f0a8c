package fabric

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// backlog holds connections that have not been accepted yet.
type backlog struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newBacklog() *backlog {
	return &backlog{conns: make(chan net.Conn, 64), done: make(chan struct{})}
}

func (b *backlog) close() {
	b.once.Do(func() {
		close(b.done)
		for {
			select {
			case c := <-b.conns:
				c.Close()
			default:
				return
			}
		}
	})
}

// connect puts one end of a new connection into the backlog and returns the
// other.
func (n *Network) connect(ctx context.Context, host, address string, b *backlog) (net.Conn, error) {
	to := hostOf(address)
	there, back := n.newStream(host, to), n.newStream(to, host)
	client := &conn{network: n, in: back, out: there, from: host, to: to, local: addr(host), remote: addr(address)}
	server := &conn{network: n, in: there, out: back, from: to, to: host, local: addr(address), remote: addr(host)}
	select {
	case <-b.done:
		return nil, ErrRefused
	default:
	}
	select {
	case b.conns <- server:
		n.mu.Lock()
		n.conns[client], n.conns[server] = struct{}{}, struct{}{}
		n.mu.Unlock()
		return client, nil
	case <-b.done:
		return nil, ErrRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type listener struct {
	network *Network
	address string
	*backlog
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.network.mu.Lock()
	if l.network.listeners[l.address] == l {
		delete(l.network.listeners, l.address)
	}
	l.network.mu.Unlock()
	l.close()
	return nil
}

func (l *listener) Addr() net.Addr { return addr(l.address) }

// conn is one end of a connection.
type conn struct {
	network       *Network
	in, out       *stream
	from, to      string // own host and the other's
	local, remote addr
}

func (c *conn) Read(p []byte) (int, error)         { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error)        { return c.out.write(p) }
func (c *conn) LocalAddr() net.Addr                { return c.local }
func (c *conn) RemoteAddr() net.Addr               { return c.remote }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.in.setDeadline(&c.in.readBy, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.setDeadline(&c.out.writeBy, t) }
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) Close() error {
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.network.mu.Unlock()
	c.in.change(func() { c.in.readerGone = true })
	c.out.change(func() { c.out.writerGone = true })
	return nil
}

// stream is one direction of a connection: bytes arrive a delay after they were
// written, and not while the hosts are cut off.
type stream struct {
	network  *Network
	from, to string

	mu                     sync.Mutex
	changed                chan struct{} // closed and replaced at every change
	chunks                 []chunk
	size                   int
	readBy, writeBy        time.Time
	readerGone, writerGone bool
}

type chunk struct {
	data []byte
	at   time.Time
}

func (n *Network) newStream(from, to string) *stream {
	return &stream{network: n, from: from, to: to, changed: make(chan struct{})}
}

func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stream) setDeadline(field *time.Time, t time.Time) error {
	s.change(func() { *field = t })
	return nil
}

// progress is what a step of reading or writing came to: bytes moved, or an
// error, or else what to wait for.
type progress struct {
	n     int
	err   error
	next  time.Time       // zero: nothing comes by itself
	heals <-chan struct{} // nil: the hosts are not cut off
}

func (s *stream) read(p []byte) (n int, err error) {
	return s.until(&s.readBy, func() progress {
		passable, heals := s.network.passable(s.from, s.to)
		switch {
		case s.readerGone:
			return progress{err: net.ErrClosed}
		case !passable:
			return progress{heals: heals}
		case len(s.chunks) == 0 && s.writerGone:
			return progress{err: io.EOF}
		case len(s.chunks) == 0:
			return progress{}
		case time.Now().Before(s.chunks[0].at):
			return progress{next: s.chunks[0].at}
		}
		n := copy(p, s.chunks[0].data)
		s.chunks[0].data = s.chunks[0].data[n:]
		if len(s.chunks[0].data) == 0 {
			s.chunks = s.chunks[1:]
		}
		s.size -= n
		return progress{n: n}
	})
}

func (s *stream) write(p []byte) (n int, err error) {
	for len(p) > 0 {
		m, err := s.until(&s.writeBy, func() progress {
			if s.readerGone || s.writerGone {
				return progress{err: net.ErrClosed}
			}
			m := min(len(p), s.network.Capacity-s.size)
			if m > 0 {
				at := time.Now().Add(s.network.delay(s.from, s.to))
				s.chunks = append(s.chunks, chunk{append([]byte(nil), p[:m]...), at})
				s.size += m
			}
			return progress{n: m}
		})
		n += m
		if err != nil {
			return n, err
		}
		p = p[m:]
	}
	return n, nil
}

// until repeats a step at every change, and whenever what it waits for comes,
// until it has moved something, failed, or is too late.
func (s *stream) until(by *time.Time, step func() progress) (int, error) {
	for {
		s.mu.Lock()
		if !by.IsZero() && !time.Now().Before(*by) {
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		did := step()
		if did.n > 0 {
			close(s.changed)
			s.changed = make(chan struct{})
		}
		if !by.IsZero() && (did.next.IsZero() || by.Before(did.next)) {
			did.next = *by
		}
		changed := s.changed
		s.mu.Unlock()
		if did.n > 0 || did.err != nil {
			return did.n, did.err
		}
		wait(changed, did.heals, did.next)
	}
}

func wait(changed, heals <-chan struct{}, next time.Time) {
	var due <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-changed:
	case <-heals:
	case <-due:
	}
}
