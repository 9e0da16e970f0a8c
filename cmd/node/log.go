package main

import (
	"context"
	"io"
	"log/slog"
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
	return slog.New(&throttle{Handler: handler, seen: &seen{last: make(map[string]time.Time)}})
}

// throttle passes a warning or an error on once a minute per cause, so that no
// peer, caller or network can flood the log. A cause is a message together with
// whom it is about, the attribute "peer".
type throttle struct {
	slog.Handler
	seen *seen
	peer string // from WithAttrs
}

type seen struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const (
	throttleFor = time.Minute
	maxCauses   = 4096 // remembered; beyond it all are forgotten, and may be said once more
)

// Handle implements slog.Handler.
func (t *throttle) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		peer := t.peer
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "peer" {
				peer = a.Value.String()
			}
			return true
		})
		if !t.seen.first(r.Message+"\x00"+peer, r.Time) {
			return nil
		}
	}
	return t.Handler.Handle(ctx, r)
}

func (s *seen) first(cause string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.last[cause]; ok && now.Sub(last) < throttleFor {
		return false
	}
	if len(s.last) >= maxCauses {
		clear(s.last)
	}
	s.last[cause] = now
	return true
}

// WithAttrs implements slog.Handler.
func (t *throttle) WithAttrs(attrs []slog.Attr) slog.Handler {
	peer := t.peer
	for _, a := range attrs {
		if a.Key == "peer" {
			peer = a.Value.String()
		}
	}
	return &throttle{Handler: t.Handler.WithAttrs(attrs), seen: t.seen, peer: peer}
}

// WithGroup implements slog.Handler.
func (t *throttle) WithGroup(name string) slog.Handler {
	return &throttle{Handler: t.Handler.WithGroup(name), seen: t.seen, peer: t.peer}
}
