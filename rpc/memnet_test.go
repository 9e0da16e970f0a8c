package rpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// memnet is a network in memory. It uses nothing but channels and timers, so
// that it works in a synctest bubble.
type memnet struct {
	there, back time.Duration // one-way delays from dialler to listener and back
	capacity    int           // bytes under way per direction before a write waits

	mu        sync.Mutex
	listeners map[string]*memListener
	conns     []*memConn
}

func newMemnet() *memnet {
	return &memnet{capacity: 64 << 10, listeners: make(map[string]*memListener)}
}

var errRefused = errors.New("connection refused")

func (n *memnet) listen(address string) net.Listener {
	l := &memListener{net: n, address: address, conns: make(chan net.Conn, 16), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[address] = l
	return l
}

func (n *memnet) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	out, in := newStream(n.there, n.capacity), newStream(n.back, n.capacity)
	client := &memConn{in: in, out: out, address: memAddr("dialler")}
	server := &memConn{in: out, out: in, address: memAddr(address)}
	select {
	case l.conns <- server:
		n.mu.Lock()
		n.conns = append(n.conns, client, server)
		n.mu.Unlock()
		return client, nil
	case <-l.done:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cut ends all connections as a crash does.
func (n *memnet) cut() {
	n.mu.Lock()
	conns := n.conns
	n.conns = nil
	n.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

type memListener struct {
	net     *memnet
	address string
	conns   chan net.Conn
	once    sync.Once
	done    chan struct{}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		if l.net.listeners[l.address] == l {
			delete(l.net.listeners, l.address)
		}
		l.net.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.conns:
				c.Close()
			default:
				return
			}
		}
	})
	return nil
}

func (l *memListener) Addr() net.Addr { return memAddr(l.address) }

type memAddr string

func (memAddr) Network() string  { return "mem" }
func (a memAddr) String() string { return string(a) }

type memConn struct {
	in, out *stream
	address memAddr
}

func (c *memConn) Read(p []byte) (int, error)         { return c.in.read(p) }
func (c *memConn) Write(p []byte) (int, error)        { return c.out.write(p) }
func (c *memConn) LocalAddr() net.Addr                { return c.address }
func (c *memConn) RemoteAddr() net.Addr               { return c.address }
func (c *memConn) SetReadDeadline(t time.Time) error  { return c.in.setDeadline(&c.in.readBy, t) }
func (c *memConn) SetWriteDeadline(t time.Time) error { return c.out.setDeadline(&c.out.writeBy, t) }
func (c *memConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *memConn) Close() error {
	c.in.change(func() { c.in.readerGone = true })
	c.out.change(func() { c.out.writerGone = true })
	return nil
}

// stream is one direction of a connection: bytes arrive delay after they were
// written.
type stream struct {
	delay    time.Duration
	capacity int

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

func newStream(delay time.Duration, capacity int) *stream {
	return &stream{delay: delay, capacity: capacity, changed: make(chan struct{})}
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

func (s *stream) read(p []byte) (n int, err error) {
	return s.until(&s.readBy, func() (n int, next time.Time, err error) {
		switch {
		case s.readerGone:
			return 0, next, net.ErrClosed
		case len(s.chunks) == 0 && s.writerGone:
			return 0, next, io.EOF
		case len(s.chunks) == 0:
			return 0, next, nil
		case time.Now().Before(s.chunks[0].at):
			return 0, s.chunks[0].at, nil
		}
		n = copy(p, s.chunks[0].data)
		s.chunks[0].data = s.chunks[0].data[n:]
		if len(s.chunks[0].data) == 0 {
			s.chunks = s.chunks[1:]
		}
		s.size -= n
		return n, next, nil
	})
}

func (s *stream) write(p []byte) (n int, err error) {
	for len(p) > 0 {
		m, err := s.until(&s.writeBy, func() (int, time.Time, error) {
			if s.readerGone || s.writerGone {
				return 0, time.Time{}, net.ErrClosed
			}
			m := min(len(p), s.capacity-s.size)
			if m > 0 {
				s.chunks = append(s.chunks, chunk{append([]byte(nil), p[:m]...), time.Now().Add(s.delay)})
				s.size += m
			}
			return m, time.Time{}, nil
		})
		n += m
		if err != nil {
			return n, err
		}
		p = p[m:]
	}
	return n, nil
}

// until repeats step at every change, and at the instant it names, until it has
// done something, fails or is too late.
func (s *stream) until(by *time.Time, step func() (int, time.Time, error)) (int, error) {
	for {
		s.mu.Lock()
		if !by.IsZero() && !time.Now().Before(*by) {
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		n, next, err := step()
		if n > 0 {
			close(s.changed)
			s.changed = make(chan struct{})
		}
		if !by.IsZero() && (next.IsZero() || by.Before(next)) {
			next = *by
		}
		changed := s.changed
		s.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		wait(changed, next)
	}
}

func wait(changed chan struct{}, next time.Time) {
	if next.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}
