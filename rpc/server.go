package rpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Handler decides for peers. What it is called with in the goroutine that reads
// a connection holds up all that the peer sends after it.
type Handler interface {
	// Decide answers a request: one outcome for each of its sequences, made
	// with reply.Add. It runs in the goroutine that reads the connection.
	// Request and reply, with all that the reply refers to, belong to the
	// server once it returns. ctx ends with the connection. The peer sees code
	// and text of an *Error; any other error reaches it as CodeInternal without
	// its text, which is logged, or as CodeUnavailable if ctx had ended.
	//
	// If the answer has to wait for something, Decide returns what waits for
	// it: later runs in a goroutine of its own, while others are answered,
	// completes the reply, which holds the outcomes made so far, and must
	// return soon once ctx ends. Request and reply are the handler's until
	// then. Beyond 4096 of them the request fails with CodeOverloaded and later
	// is not run. A peer that gets no answer at all for 2 s takes the
	// connection for broken, so no wait should be longer than its callers'.
	Decide(ctx context.Context, peer Identity, req *DecideRequest, reply *DecideReply) (later func(ctx context.Context, reply *DecideReply) error, err error)
	// Receive takes messages in the order in which one Send, or one after the
	// other, queued them; it runs in the goroutine that reads the connection.
	// Their words are on this node's clock. The slice and all words belong to
	// the server once it returns, which uses their memory again.
	Receive(peer Identity, messages []Message)
	// Status says how this node is. It runs where Decide does.
	Status() Status
}

// Server answers the clients of other nodes.
type Server struct {
	cfg     Config
	handler Handler

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	sessions  map[*session]struct{}
	closed    bool
	closing   chan struct{} // closed together with setting closed

	later   atomic.Int64 // requests that wait for something
	running sync.WaitGroup
}

// NewServer returns a server that has yet to Serve. It panics if cfg.Self lacks
// a name.
func NewServer(cfg Config, handler Handler) *Server {
	cfg = cfg.complete()
	return &Server{
		cfg:       cfg,
		handler:   handler,
		listeners: make(map[net.Listener]struct{}),
		sessions:  make(map[*session]struct{}),
		closing:   make(chan struct{}),
	}
}

// Serve takes connections until the server is closed, and then returns nil; or
// until the listener is closed by someone else, which is an error. It closes
// the listener. Several may run at once.
func (s *Server) Serve(listener net.Listener) error {
	defer listener.Close()
	if !s.enter(listener) {
		return nil
	}
	defer s.leave(listener)
	const least, most = 5 * time.Millisecond, time.Second
	delay := least
	for {
		nc, err := listener.Accept()
		if err == nil {
			delay = least
			s.accept(nc)
			continue
		}
		select {
		case <-s.closing:
			return nil
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		// Out of file descriptors, for example: those in use keep working.
		s.cfg.Log.Warn("rpc: accept failed", "address", listener.Addr().String(), "error", err)
		wait := time.NewTimer(delay)
		select {
		case <-s.closing:
			wait.Stop()
			return nil
		case <-wait.C:
		}
		delay = min(2*delay, most)
	}
}

func (s *Server) enter(listener net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.listeners[listener] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *Server) leave(listener net.Listener) {
	s.mu.Lock()
	delete(s.listeners, listener)
	s.mu.Unlock()
	s.running.Done()
}

// accept starts a session, or drops the connection if there are too many.
func (s *Server) accept(nc net.Conn) {
	s.cfg.Stats.Accepted.Add(1)
	ctx, cancel := context.WithCancel(context.Background())
	ss := &session{server: s, nc: nc, fr: newFrameReader(nc), w: newWriter(nc), ctx: ctx, cancel: cancel}
	s.mu.Lock()
	closed, full := s.closed, len(s.sessions) >= maxConnections
	if !closed && !full {
		s.sessions[ss] = struct{}{}
		s.running.Add(1)
	}
	s.mu.Unlock()
	if closed || full {
		cancel()
		_ = nc.Close()
		s.cfg.Stats.Refused.Add(1)
		if full {
			s.cfg.Log.Warn("rpc: too many connections", "peer", nc.RemoteAddr().String())
		}
		return
	}
	go func() {
		defer s.running.Done()
		defer s.remove(ss)
		ss.run()
	}()
}

func (s *Server) remove(ss *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, ss)
}

// Close stops taking connections and requests, ends the context of those that
// wait for something, sends the replies of those that were decided, for at most
// a second, and ends all connections. It returns nil once all goroutines of the
// server have ended; these wait for handlers. It may be called again.
func (s *Server) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	for listener := range s.listeners {
		_ = listener.Close()
	}
	for ss := range s.sessions {
		ss.stop()
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}
