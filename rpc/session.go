package rpc

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
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
		ss.warn(r.cause.message(), err)
	} else if !errors.Is(err, errStopped) {
		ss.warn("rpc: no hello", err)
	}
	return false
}

// read serves requests until the connection ends or makes no sense.
func (ss *session) read() {
	d := newDecoder()
	var in incoming
	var reply DecideReply
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
		if n != 5 {
			d.fail("request", errKind)
		}
		if !ss.serve(d, id, &in, &reply) {
			return
		}
	}
}

// serve answers one request and reports whether the connection is still good.
func (ss *session) serve(d *decoder, id uint64, in *incoming, reply *DecideReply) bool {
	stats := ss.server.cfg.Stats
	failure := ss.decide(d, in, reply)
	// Read as late as possible: what comes after the reading counts as the
	// time of the way back.
	clock := ss.server.cfg.Clock()
	if failure != nil {
		stats.Failed.Add(1)
		return ss.say(func(e *encoder) { e.failure(id, clock, failure.Code, failure.Text) })
	}
	stats.Served.Add(1)
	return ss.say(func(e *encoder) { e.reply(id, clock, reply) })
}

// say queues a frame and reports whether the connection is still good. It waits
// while the peer does not read, so that no more is read from it.
func (ss *session) say(build func(*encoder)) bool { return ss.w.put(true, build) == nil }

func (ss *session) sayStatus(id uint64) bool {
	status := ss.server.handler.Status()
	clock := ss.server.cfg.Clock()
	return ss.say(func(e *encoder) { e.status(id, clock, status) })
}

// decide decodes the request and lets the handler answer it. What it returns is
// sent instead of the reply.
func (ss *session) decide(d *decoder, in *incoming, reply *DecideReply) *Error {
	if err := d.request(in); err != nil {
		ss.badFrame(err)
		return &Error{Code: CodeInvalid, Text: err.Error()}
	}
	reply.reset()
	err := ss.server.handler.Decide(ss.ctx, ss.peer, &in.DecideRequest, reply)
	if e, ok := errors.AsType[*Error](err); ok && e.Code >= CodeInvalid && e.Code <= lastCode {
		return e
	}
	if err == nil {
		err = reply.answers(&in.DecideRequest)
	}
	if err != nil {
		ss.warn("rpc: handler failed", err)
		return &Error{Code: CodeInternal}
	}
	return nil
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

// warn logs one of a fixed few messages, so that they can be counted.
func (ss *session) warn(message string, err error) {
	ss.server.cfg.Log.Warn(message, "peer", ss.nc.RemoteAddr().String(), "error", err)
}

// stop ends the session once what it has decided is sent, or closeTimeout is
// over.
func (ss *session) stop() {
	ss.fr.stop()
	ss.w.hurry(closeTimeout)
	ss.cancel()
}
