package rpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Client asks one peer, over one connection at a time. It connects when it is
// first called, and again after the connection was lost.
type Client struct {
	cfg     Config
	peer    Identity
	address string
	calls   sync.Pool // of *call; not shared between clients, channels belong to one test bubble

	live atomic.Pointer[link] // the connection in use; changed under mu

	mu      sync.Mutex
	attempt *attempt           // under way, or nil
	opening net.Conn           // the attempt's, or nil
	cancel  context.CancelFunc // the attempt's
	failure *Error             // what the last connection ended with
	retry   time.Time          // no attempt before
	delay   time.Duration      // between the last attempt and retry
	closed  bool

	running sync.WaitGroup
}

// attempt is one try to connect. Its fields are set before done is closed.
type attempt struct {
	done chan struct{}
	link *link
	err  *Error
}

// NewClient returns a client of the node at the address. Of peer, Name and Boot
// say who is expected there, if they are not zero. It panics if cfg.Self lacks
// a name.
func NewClient(cfg Config, peer Identity, address string) *Client {
	c := &Client{cfg: cfg.complete(), peer: peer, address: address}
	c.calls.New = func() any { return &call{done: make(chan struct{}, 1)} }
	return c
}

// Decide asks the peer. It returns when ctx ends, after DefaultTimeout if ctx
// has no deadline; the peer may decide all the same. Errors are of type *Error.
// The request must not be changed meanwhile, and the reply, which answers each
// sequence of the request, is the caller's.
func (c *Client) Decide(ctx context.Context, req *DecideRequest) (*DecideReply, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	reply, err := c.decide(ctx, req)
	c.cfg.Stats.call(err)
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// bounded returns a context that has a deadline.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}

// Status asks the peer how it is. It returns when ctx ends, or after
// DefaultTimeout. Errors are of type *Error.
func (c *Client) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	got, err := c.exchange(ctx, wantStatus, func(e *encoder, id uint64) { e.statusRequest(id) })
	c.cfg.Stats.call(err)
	if err != nil {
		return Status{}, err
	}
	return got.status, nil
}

func (c *Client) decide(ctx context.Context, req *DecideRequest) (*DecideReply, *Error) {
	if err := req.check(); err != nil {
		return nil, c.error(CodeInvalid, "request", err)
	}
	results := 0
	for _, seq := range req.Sequences {
		results += len(seq)
	}
	got, err := c.exchange(ctx, results, func(e *encoder, id uint64) { e.request(id, req) })
	if err != nil {
		return nil, err
	}
	reply := got.reply
	if err := reply.answers(req); err != nil {
		e := c.error(CodeInvalid, "reply", err)
		e.Sent = true
		return nil, e
	}
	return reply, nil
}

// exchange sends a request and waits for what comes of it: a reply of at most
// so many results, or wantStatus.
func (c *Client) exchange(ctx context.Context, want int, request func(*encoder, uint64)) (answer, *Error) {
	if ctx.Err() != nil {
		return answer{}, ended(ctx, c.Peer(), false)
	}
	call := c.calls.Get().(*call)
	got, err := c.await(ctx, call, want, request)
	call.answer, call.err = answer{}, nil
	c.calls.Put(call)
	return got, err
}

// await returns once nobody else refers to the call.
func (c *Client) await(ctx context.Context, call *call, want int, request func(*encoder, uint64)) (answer, *Error) {
	for {
		l, err := c.connect(ctx)
		if err != nil {
			return answer{}, err
		}
		ok, err := l.start(call, want, request)
		if err != nil {
			return answer{}, err
		}
		if !ok {
			// The link ended just now. connect does not return it again, and
			// a peer that ends one after the other without a reply makes it
			// return an error.
			continue
		}
		select {
		case <-call.done:
			return call.answer, call.err
		case <-ctx.Done():
		}
		if l.abandon(call) {
			return answer{}, ended(ctx, c.Peer(), true)
		}
		<-call.done
		return call.answer, call.err
	}
}

// connect returns the live link, or waits for the attempt to make one, until
// ctx ends and no longer than DefaultTimeout if ctx has no deadline.
func (c *Client) connect(ctx context.Context) (*link, *Error) {
	if l := c.live.Load(); l != nil {
		return l, nil
	}
	a, l, err := c.try()
	if a == nil {
		return l, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	select {
	case <-a.done:
		return a.link, a.err
	case <-ctx.Done():
		return nil, ended(ctx, c.Peer(), false)
	}
}

// try returns the attempt under way, having started it if need be; or the link,
// if there is one by now, or an error if there may be none.
func (c *Client) try() (*attempt, *link, *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.live.Load(); l != nil {
		return nil, l, nil
	}
	switch {
	case c.closed:
		return nil, nil, c.closedError()
	case c.attempt != nil:
		return c.attempt, nil, nil
	case time.Now().Before(c.retry):
		return nil, nil, c.failure
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	c.attempt, c.cancel = &attempt{done: make(chan struct{})}, cancel
	c.running.Add(1)
	go c.run(ctx, cancel, c.attempt)
	return c.attempt, nil, nil
}

// run makes the attempt and, if it succeeds, lives as long as the link.
func (c *Client) run(ctx context.Context, cancel context.CancelFunc, a *attempt) {
	defer c.running.Done()
	l, err := c.open(ctx)
	cancel()

	c.mu.Lock()
	c.attempt, c.opening = nil, nil
	if c.closed {
		err = c.closedError()
	}
	if err != nil {
		c.backOff(err)
		a.err = err
	} else {
		c.cfg.Stats.Connected.Add(1)
		c.live.Store(l)
		a.link = l
	}
	c.mu.Unlock()
	close(a.done)

	if err == nil {
		l.run()
	} else if l != nil {
		_ = l.nc.Close()
	}
}

// open dials and says hello.
func (c *Client) open(ctx context.Context) (*link, *Error) {
	nc, err := c.cfg.Dial(ctx, c.address)
	if err != nil {
		return nil, c.error(CodeUnavailable, "cannot connect", err)
	}
	c.mu.Lock()
	c.opening = nc // for Close, which may have come before
	closed := c.closed
	c.mu.Unlock()
	if closed {
		_ = nc.Close()
		return nil, c.closedError()
	}
	l := &link{client: c, nc: nc, w: newWriter(nc), fr: newFrameReader(nc), calls: make(map[uint64]*call)}
	by, _ := ctx.Deadline()
	hello, sent, received, err := introduce(nc, l.fr, by, &c.cfg, c.peer)
	if err != nil {
		_ = nc.Close()
		if r, ok := errors.AsType[*refusal](err); ok {
			return nil, c.error(r.cause.code(), "no agreement", r)
		}
		return nil, c.error(CodeUnavailable, "no hello", err)
	}
	l.clock.add(sent, received, hello.clock)
	return l, nil
}

// forget stops the use of a link that has ended.
func (c *Client) forget(l *link, err *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.live.CompareAndSwap(l, nil) || c.closed {
		return
	}
	c.cfg.Stats.Broken.Add(1)
	if l.answered.Load() {
		c.delay = 0
		return
	}
	c.backOff(err)
}

// backOff keeps calls from dialling again for a while. mu is held.
func (c *Client) backOff(err *Error) {
	c.failure = err
	c.delay = min(max(2*c.delay, minBackOff), maxBackOff)
	c.retry = time.Now().Add(c.delay)
}

// Offset returns how far the peer's clock is ahead of the own one, in
// nanoseconds, as the exchange with the smallest round trip of the last minute
// or so on the current connection showed it, and that round trip: the offset is
// wrong by at most half of it. ok is false without a connection.
func (c *Client) Offset() (offset, rtt int64, ok bool) {
	l := c.live.Load()
	if l == nil {
		return 0, 0, false
	}
	s := l.clock.best()
	return s.offset, s.rtt, s.ok
}

// Close ends the connection; calls that wait fail. It returns nil once all
// goroutines of the client have ended, and may be called again.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	l := c.live.Load()
	if c.attempt != nil {
		c.cancel()
		if c.opening != nil {
			_ = c.opening.Close()
		}
	}
	c.mu.Unlock()
	if l != nil {
		l.fail(c.closedError())
	}
	c.running.Wait()
	return nil
}

func (c *Client) closedError() *Error {
	return c.error(CodeUnavailable, "client is closed", net.ErrClosed)
}

// Peer returns what errors and logs call the node that is called: its name, or
// its address if none was given.
func (c *Client) Peer() string {
	if c.peer.Name != "" {
		return c.peer.Name
	}
	return c.address
}

func (c *Client) error(code Code, text string, err error) *Error {
	return &Error{Code: code, Text: text, Peer: c.Peer(), Err: err}
}
