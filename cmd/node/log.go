package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// newLogger returns the node's logger.
func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if format == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	return slog.New(&throttle{Handler: handler, tallies: &tallies{of: make(map[cause]*tally)}})
}

// throttle passes a warning or an error on once a minute per cause, and says
// with it how many were left out since the last one, as left_out: no peer,
// caller or network can flood the log. Messages are a fixed few; what varies is
// in the attributes.
type throttle struct {
	slog.Handler
	tallies *tallies
	host    string // of a peer from WithAttrs
}

const (
	throttleFor = time.Minute
	maxCauses   = 256 // of hosts within a minute
)

// cause is a message together with the host it is about, which the attribute
// "peer" names; the port of a stranger is another one each time. Without a host
// it stands for all hosts that come when there are too many causes already.
type cause struct{ message, host string }

// tallies remember the causes of the last minute, at most maxCauses and one for
// each message.
type tallies struct {
	mu sync.Mutex
	of map[cause]*tally
}

type tally struct {
	said time.Time
	left int // lines left out since
}

// Handle implements slog.Handler.
func (t *throttle) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		host := t.host
		r.Attrs(func(a slog.Attr) bool {
			host = hostOf(a, host)
			return true
		})
		left, say := t.tallies.count(cause{r.Message, host}, r.Time)
		if !say {
			return nil
		}
		if left > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("left_out", left))
		}
	}
	return t.Handler.Handle(ctx, r)
}

// hostOf returns the host that the attribute names, or the other one if it is
// no peer.
func hostOf(a slog.Attr, other string) string {
	if a.Key != "peer" {
		return other
	}
	peer := a.Value.String()
	if host, _, err := net.SplitHostPort(peer); err == nil {
		return host
	}
	return peer
}

// count takes in a line. It reports whether it is to be said, and if so, how
// many of its cause were left out before it.
func (t *tallies) count(c cause, now time.Time) (left int, say bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[c] == nil && len(t.of) >= maxCauses {
		t.forget(now)
		if len(t.of) >= maxCauses {
			c.host = ""
		}
	}
	n := t.tally(c)
	if now.Sub(n.said) < throttleFor {
		n.left++
		return 0, false
	}
	left = n.left
	*n = tally{said: now}
	return left, true
}

// forget drops the hosts that are free to be said again. What was left out of
// them is not lost: it counts for their message.
func (t *tallies) forget(now time.Time) {
	for c, n := range t.of {
		if c.host == "" || now.Sub(n.said) < throttleFor {
			continue
		}
		delete(t.of, c)
		if n.left > 0 {
			t.tally(cause{message: c.message}).left += n.left
		}
	}
}

func (t *tallies) tally(c cause) *tally {
	n := t.of[c]
	if n == nil {
		n = new(tally)
		t.of[c] = n
	}
	return n
}

// WithAttrs implements slog.Handler.
func (t *throttle) WithAttrs(attrs []slog.Attr) slog.Handler {
	host := t.host
	for _, a := range attrs {
		host = hostOf(a, host)
	}
	return &throttle{Handler: t.Handler.WithAttrs(attrs), tallies: t.tallies, host: host}
}

// WithGroup implements slog.Handler.
func (t *throttle) WithGroup(name string) slog.Handler {
	return &throttle{Handler: t.Handler.WithGroup(name), tallies: t.tallies, host: t.host}
}
