package fabric

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

func TestDial(t *testing.T) {
	virtually(t, func(t *testing.T, n *Network) {
		dialling(t.Context(), n, "a", "b:1").wants(t, "nobody listens", 0, ErrRefused, 0)
		l := n.Listen("b:1")
		dialling(t.Context(), n, "a", "b:2").wants(t, "another address", 0, ErrRefused, 0)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 64 { // where a select may choose
			dialling(ended, n, "a", "b:1").wants(t, "no longer wanted", 0, context.Canceled, 0)
		}
		for range cap(l.(*listener).backlog.conns) {
			dialling(t.Context(), n, "a", "b:1").wants(t, "room", 0, nil, 0)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		dialling(ctx, n, "a", "b:1").wants(t, "no room", 0, context.DeadlineExceeded, time.Second)
		time.AfterFunc(time.Second, func() { accept(t, l) })
		dialling(t.Context(), n, "a", "b:1").wants(t, "until there is", 0, nil, time.Second)
		time.AfterFunc(time.Second, func() { l.Close() })
		dialling(t.Context(), n, "a", "b:1").wants(t, "until nobody listens", 0, ErrRefused, time.Second)
		dialling(t.Context(), n, "a", "b:1").wants(t, "then", 0, ErrRefused, 0)
	})
}

// What was not accepted ends with the listener, or when another takes its place.
func TestListenerClose(t *testing.T) {
	virtually(t, func(t *testing.T, n *Network) {
		old := n.Listen("b:1")
		same(t, "address", old.Addr(), "b:1")
		kept := dial(t, n, "a", "b:1")
		accept(t, old)
		first := dial(t, n, "a", "b:1")
		l := n.Listen("b:1")
		reading(first).wants(t, "replaced", 0, io.EOF, 0)
		old.Close()
		second := dial(t, n, "a", "b:1")
		time.AfterFunc(time.Second, func() { l.Close(); l.Close() })
		reading(second).wants(t, "closed", 0, io.EOF, time.Second)
		_, err := l.Accept()
		same(t, "accept", err, net.ErrClosed)
		writing(kept, "x").wants(t, "what was accepted stays", 1, nil, 0)
	})
}

func TestCrash(t *testing.T) {
	virtually(t, func(t *testing.T, n *Network) {
		a, b := connected(t, n)
		n.Listen("a:1")
		old, out := n.Dialer("b"), dial(t, n, "b", "a:1")
		l := n.Listen("b:2")
		pending := dial(t, n, "a", "b:2")
		time.AfterFunc(time.Second, func() { n.Crash("b") })
		reading(a).wants(t, "accepted", 0, io.EOF, time.Second)
		reading(pending).wants(t, "pending", 0, io.EOF, 0)
		reading(b).wants(t, "its own end", 0, net.ErrClosed, 0)
		reading(out).wants(t, "its own end", 0, net.ErrClosed, 0)
		dialling(t.Context(), n, "a", "b:1").wants(t, "dial", 0, ErrRefused, 0)
		dialling(t.Context(), n, "a", "b:2").wants(t, "dial", 0, ErrRefused, 0)
		_, err := old(t.Context(), "a:1")
		same(t, "the dead dials", err, net.ErrClosed)

		// It is started again, while what was left of it is still to be closed.
		next := n.Listen("b:2")
		dialling(t.Context(), n, "a", "b:2").wants(t, "dial", 0, nil, 0)
		dialling(t.Context(), n, "b", "a:1").wants(t, "dial", 0, nil, 0)
		began := time.Now()
		time.AfterFunc(time.Second, func() { l.Close() })
		_, err = l.Accept()
		same(t, "the dead accepts", []any{err, time.Since(began)}, []any{net.ErrClosed, time.Second})
		accept(t, next)
	})
}

// late is a context during whose first use something happens: after dial has
// looked who is there, and before it connects.
type late struct {
	context.Context
	happens func()
}

func (l late) Done() <-chan struct{} { l.happens(); return l.Context.Done() }

// If a host or a listener ends just then, there is no connection that nobody
// ends: its reader would wait for ever.
func TestNoConnectionIsForgotten(t *testing.T) {
	for what, err := range map[string]error{"crash of b": ErrRefused, "close": ErrRefused, "crash of a": net.ErrClosed} {
		for range 64 { // where a select may choose
			virtually(t, func(t *testing.T, n *Network) {
				l := n.Listen("b:1")
				ctx := late{t.Context(), func() {
					switch what {
					case "close":
						l.Close()
					default:
						n.Crash(what[len(what)-1:])
					}
				}}
				dialling(ctx, n, "a", "b:1").wants(t, what, 0, err, 0)
				same(t, "connections", len(n.conns), 0)
				if waiting := len(l.(*listener).backlog.conns); err == ErrRefused {
					same(t, "waiting", waiting, 0)
				}
			})
		}
	}
}
