package rpc

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is one connection of a client, from hello to its end.
type link struct {
	client *Client
	nc     net.Conn
	w      *writer
	fr     *frameReader
	clock  offsets

	mu     sync.Mutex
	calls  map[uint64]*call // those that wait for a reply, by id
	last   uint64           // id given last
	broken *Error           // why the link ended; no call enters afterwards
	silent time.Time        // nothing came since, though a call waits; zero if unknown

	answered atomic.Bool // a reply or failure came: the peer works
}

// call is one exchange. It belongs to the link while it is in calls, then to
// whoever took it out, who either completes it or gives it back.
type call struct {
	id     uint64
	want   int   // the most results a reply may hold, or wantStatus
	sent   int64 // own clock
	answer answer
	err    *Error
	done   chan struct{} // holds one token once completed
}

// answer is what the peer said to one call: a reply, or its status.
type answer struct {
	reply  *DecideReply
	status Status
}

// wantStatus marks a call that asks for the status.
const wantStatus = -1

func (c *call) complete(got answer, err *Error) {
	c.answer, c.err = got, err
	c.done <- struct{}{}
}

// start sends the request. If it returns nil, the call will be completed unless
// it is abandoned; ok is false, and nothing was sent, if the link had ended.
func (l *link) start(c *call, want int, request func(*encoder, uint64)) (ok bool, err *Error) {
	c.want = want
	c.sent = l.client.cfg.Clock()

	l.mu.Lock()
	switch {
	case l.broken != nil:
		l.mu.Unlock()
		return false, nil
	case len(l.calls) >= l.client.cfg.MaxInFlight:
		l.mu.Unlock()
		return true, l.client.error(CodeOverloaded, "too many calls in flight", nil)
	}
	l.last++
	c.id = l.last
	l.calls[c.id] = c
	if l.silent.IsZero() {
		l.silent = time.Now()
	}
	l.mu.Unlock()

	put := l.w.put(false, maxQueue, func(e *encoder) { request(e, c.id) })
	if put == errQueueFull && l.take(c.id) == c {
		return true, l.client.error(CodeOverloaded, "too many bytes are waiting to be written", nil)
	}
	// If the writer has ended, fail is about to complete all calls.
	return true, nil
}

// take removes a call that waits. It returns nil if there is none of that id.
func (l *link) take(id uint64) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[id]
	delete(l.calls, id)
	return c
}

// abandon takes the call back from the link, or reports false: then it is being
// completed. A peer that has long been silent while calls give up is given up,
// because TCP may need minutes to say so.
func (l *link) abandon(c *call) bool {
	l.mu.Lock()
	_, ok := l.calls[c.id]
	delete(l.calls, c.id)
	stalled := false
	switch now := time.Now(); {
	case !ok:
	case l.silent.IsZero():
		l.silent = now
	default:
		stalled = now.Sub(l.silent) >= stallTimeout
	}
	l.mu.Unlock()
	if stalled {
		l.fail(l.client.error(CodeUnavailable, "no answer for "+stallTimeout.String(), nil))
	}
	return ok
}

// run works until the link ends, and returns once all its goroutines have.
func (l *link) run() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		if err := l.w.run(); err != nil {
			l.fail(l.client.error(CodeUnavailable, "connection lost", err))
		}
	}()
	l.fail(l.read())
	l.w.finish()
	<-written
}

// fail ends the link: all its calls fail at once. The first error wins.
func (l *link) fail(err *Error) {
	// Before broken is set: whoever sees broken must not get this link again.
	l.client.forget(l, err)
	lost := *err
	lost.Sent = true
	l.mu.Lock()
	if l.broken != nil {
		l.mu.Unlock()
		return
	}
	l.broken = err
	calls := l.calls
	l.calls = nil
	l.mu.Unlock()
	_ = l.nc.Close()
	for _, c := range calls {
		c.complete(answer{}, &lost)
	}
}

// read completes calls until the connection or the peer fails.
func (l *link) read() *Error {
	d := newDecoder()
	for {
		frame, err := l.fr.next(MaxFrame, time.Time{})
		if err != nil {
			return l.client.error(CodeUnavailable, "connection lost", err)
		}
		d.reset(frame)
		if err := l.receive(d); err != nil {
			return l.client.error(CodeInvalid, "bad frame", err)
		}
	}
}

// receive takes one frame in. An error is the peer's fault.
func (l *link) receive(d *decoder) error {
	n, k := d.begin()
	id := d.uint("id", maxUint64)
	clock := int64(d.uint("clock", maxInt64))
	if d.err == nil && !(k == kindReply && n == 4 || k == kindFailure && n == 5 || k == kindStatus && n == 4) {
		return errKind
	}
	if d.err != nil {
		return d.err
	}
	received := l.client.cfg.Clock()
	c, err := l.claim(id)
	if err != nil {
		return err
	}
	if c == nil {
		l.client.cfg.Stats.Late.Add(1)
		return nil
	}
	// From here on the call is ours to complete, whatever happens.
	l.clock.add(c.sent, received, clock)
	got, failure, err := c.read(d, k)
	if err != nil {
		failure = &Error{Code: CodeInvalid, Text: "bad frame", Err: err}
	}
	if failure != nil {
		failure.Peer, failure.Sent = l.client.Peer(), true
	}
	c.complete(got, failure)
	return err
}

// read decodes what follows the clock of a frame that answers the call.
func (c *call) read(d *decoder, k kind) (got answer, failure *Error, err error) {
	switch {
	case k == kindFailure:
		failure = &Error{Remote: true}
		failure.Code, failure.Text, err = d.failure()
	case (k == kindStatus) != (c.want == wantStatus):
		err = errKind
	case k == kindStatus:
		got.status, err = d.status()
	default:
		got.reply, err = d.reply(c.want)
	}
	return got, failure, err
}

// claim takes the call that a reply is for. It returns nil if that call has
// given up, and an error if there never was one.
func (l *link) claim(id uint64) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == 0 || id > l.last {
		return nil, errID
	}
	l.silent = time.Time{}
	l.answered.Store(true)
	c := l.calls[id]
	delete(l.calls, id)
	return c, nil
}
