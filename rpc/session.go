package rpc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// session is one connection of a server.
type session struct {
	server *Server
	nc     net.Conn
	fr     *frameReader
	w      *writer
	peer   Identity
	ctx    context.Context // for the handler; ends with the session
	cancel context.CancelFunc

	waiting sync.WaitGroup // for requests answered later
}

// run serves the connection until its end, and returns once all its goroutines
// have.
func (ss *session) run() {
	defer ss.nc.Close()
	defer ss.cancel()
	if !ss.greet() {
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		if err := ss.w.run(); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				ss.warn("rpc: peer does not read", err)
			}
			ss.cancel()
			_ = ss.nc.Close() // ends the reader
		}
	}()
	ss.read()
	ss.cancel()
	ss.waiting.Wait()
	ss.w.finish()
	<-written
}

// greet does the handshake and reports whether there is someone to serve.
func (ss *session) greet() bool {
	s := ss.server
	peer, err := welcome(ss.nc, ss.fr, time.Now().Add(handshakeTimeout), &s.cfg)
	if err == nil {
		ss.peer = peer
		return true
	}
	s.cfg.Stats.Refused.Add(1)
	if r, ok := errors.AsType[*refusal](err); ok {
		level := slog.LevelWarn
		if r.cause == causeBoot { // as whenever a node restarts, until all have heard of it
			level = slog.LevelInfo
		}
		ss.log(level, r.cause.message(), err)
	} else if !errors.Is(err, errStopped) {
		ss.warn("rpc: no hello", err)
	}
	return false
}

// read serves requests until the connection ends or makes no sense.
func (ss *session) read() {
	d := newDecoder()
	var box inbox
	asked := new(job)
	for first := true; ; first = false {
		frame, err := ss.fr.next(MaxFrame, time.Time{})
		if err != nil {
			ss.lost(err)
			return
		}
		d.reset(frame)
		n, k := d.begin()
		if k == kindRefusal && first && d.err == nil {
			ss.server.cfg.Stats.Refused.Add(1)
			ss.warn("rpc: refused by peer", d.refusal())
			return
		}
		if k == kindMessages && n == 2 && d.err == nil {
			if !ss.receive(d, &box) {
				return
			}
			continue
		}
		id := d.uint("id", maxUint64)
		if d.err == nil && k == kindStatusRequest && n == 2 && d.left() == 0 {
			if !ss.sayStatus(id) {
				return
			}
			continue
		}
		if d.err != nil || k != kindRequest {
			ss.badFrame(cmp.Or(d.err, errKind))
			return
		}
		if n != requestSize {
			d.fail("request", errKind)
		}
		var ok bool
		if asked, ok = ss.serve(d, id, asked); !ok {
			return
		}
	}
}

// receive hands messages over and reports whether they made sense.
func (ss *session) receive(d *decoder, box *inbox) bool {
	messages, err := box.read(d)
	if err != nil {
		ss.badFrame(err)
		return false
	}
	ss.server.cfg.Stats.MessagesReceived.Add(uint64(len(messages)))
	ss.server.handler.Receive(ss.peer, messages)
	return true
}

// job is a request and its reply, and their memory.
type job struct {
	in    incoming
	reply DecideReply
}

// serve answers one request, or has it answered later. It returns the memory for
// the next one, and whether the connection is still good.
func (ss *session) serve(d *decoder, id uint64, j *job) (next *job, ok bool) {
	later, err := ss.decide(d, j)
	if later == nil {
		return j, ss.answer(id, j, err)
	}
	if s := ss.server; s.later.Add(1) > maxLater {
		s.later.Add(-1)
		return new(job), ss.fail(id, &Error{Code: CodeOverloaded, Text: "too many requests are waiting"})
	}
	ss.waiting.Go(func() {
		defer ss.server.later.Add(-1)
		ss.answer(id, j, later(ss.ctx, &j.reply))
	})
	return new(job), true
}

// decide decodes the request and lets the handler answer it.
func (ss *session) decide(d *decoder, j *job) (later func(context.Context, *DecideReply) error, err error) {
	if err := d.request(&j.in); err != nil {
		ss.badFrame(err)
		return nil, &Error{Code: CodeInvalid, Text: err.Error()}
	}
	j.reply.reset()
	later, err = ss.server.handler.Decide(ss.ctx, ss.peer, &j.in.DecideRequest, &j.reply)
	if err != nil {
		return nil, err
	}
	return later, nil
}

// answer sends the reply, or what the handler failed with, and reports whether
// the connection is still good.
func (ss *session) answer(id uint64, j *job, err error) bool {
	if err == nil {
		err = j.reply.answers(&j.in.DecideRequest)
	}
	if err != nil {
		return ss.fail(id, ss.failure(err))
	}
	ss.server.cfg.Stats.Served.Add(1)
	// Read as late as possible: what comes after the reading counts as the
	// time of the way back.
	clock := ss.server.cfg.Clock()
	return ss.say(func(e *encoder) { e.reply(id, clock, &j.reply) })
}

// failure returns what the peer is told of the error.
func (ss *session) failure(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok && e.Code >= CodeInvalid && e.Code <= lastCode {
		return e
	}
	if ended := ss.ctx.Err(); ended != nil && errors.Is(err, ended) {
		return &Error{Code: CodeUnavailable, Text: "connection ends"}
	}
	ss.warn("rpc: handler failed", err)
	return &Error{Code: CodeInternal}
}

func (ss *session) fail(id uint64, failure *Error) bool {
	ss.server.cfg.Stats.Failed.Add(1)
	clock := ss.server.cfg.Clock()
	return ss.say(func(e *encoder) { e.failure(id, clock, failure.Code, failure.Text) })
}

// say queues a frame and reports whether the connection is still good. It waits
// while the peer does not read, so that no more is read from it.
func (ss *session) say(build func(*encoder)) bool { return ss.w.put(true, maxQueue, build) == nil }

func (ss *session) sayStatus(id uint64) bool {
	status := ss.server.handler.Status()
	clock := ss.server.cfg.Clock()
	return ss.say(func(e *encoder) { e.status(id, clock, status) })
}

// lost logs the end of a connection if the peer is to blame.
func (ss *session) lost(err error) {
	switch {
	case errors.Is(err, errLength):
		ss.badFrame(err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		ss.warn("rpc: frame not completed", err)
	}
}

func (ss *session) badFrame(err error) {
	ss.server.cfg.Stats.BadFrames.Add(1)
	ss.warn("rpc: bad frame", err)
}

func (ss *session) warn(message string, err error) { ss.log(slog.LevelWarn, message, err) }

// log logs one of a fixed few messages, so that they can be counted.
func (ss *session) log(level slog.Level, message string, err error) {
	ss.server.cfg.Log.Log(context.Background(), level, message, "peer", ss.nc.RemoteAddr().String(), "error", err)
}

// stop ends the session once what it has decided is sent, or closeTimeout is
// over.
func (ss *session) stop() {
	ss.fr.stop()
	ss.w.hurry(closeTimeout)
	ss.cancel()
}
