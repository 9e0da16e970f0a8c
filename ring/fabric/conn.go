package fabric

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// conn is one end of a connection. Reads and writes may be concurrent with each
// other and with everything else; two writes at a time may mix.
type conn struct {
	network       *Network
	host          string // whose end it is
	in, out       *stream
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
// written, and not while the hosts are cut off. That an end is closed the other
// one learns without a delay, after all bytes that come before it, and not
// while the hosts are cut off either.
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
	at   time.Time // of arrival
}

func (n *Network) newStream(from, to string) *stream {
	return &stream{network: n, from: from, to: to, changed: make(chan struct{})}
}

func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.announce()
}

// announce wakes all who wait for a change. mu is held.
func (s *stream) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stream) setDeadline(field *time.Time, t time.Time) error {
	s.change(func() { *field = t })
	return nil
}

// progress is what a step of reading or writing came to: bytes moved, or an
// error, or else what to wait for besides a change.
type progress struct {
	n     int
	err   error
	next  time.Time       // zero: nothing comes by itself
	heals <-chan struct{} // nil: it is no cut that is in the way
}

func (s *stream) read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
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
			passable, heals := s.network.passable(s.from, s.to)
			switch {
			case s.writerGone:
				return progress{err: net.ErrClosed}
			case s.readerGone && passable:
				return progress{err: ErrReset}
			}
			m := min(len(p), s.network.Capacity-s.size)
			if m > 0 {
				at := time.Now().Add(s.network.delay(s.from, s.to))
				s.chunks = append(s.chunks, chunk{append([]byte(nil), p[:m]...), at})
				s.size += m
			}
			return progress{n: m, heals: heals}
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
			s.announce()
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
