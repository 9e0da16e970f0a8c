package rpc

import (
	"log/slog"
	"sync"
	"time"
)

// warnEvery is the least time between two lines about the same topic: what a
// peer does must not fill the log.
const warnEvery = time.Minute

// Topics that are not causes of a refusal.
const (
	topicTold     = "refused by peer"
	topicFrame    = "bad frame"
	topicHandler  = "handler failed"
	topicAccept   = "accept failed"
	topicTooMany  = "too many connections"
	topicNoHello  = "no hello"
	topicNotRead  = "peer does not read"
	topicHalfSent = "frame not completed"
)

// topic returns what a refusal is logged as.
func (c cause) topic() string {
	switch c {
	case causeProtocol:
		return "protocol version"
	case causeLabel:
		return "cluster label"
	case causeFormat:
		return "ring format"
	case causeName:
		return "expected name"
	case causeBoot:
		return "expected boot"
	}
	return "malformed hello"
}

// warner logs what peers do wrong, once a minute for each topic. Topics are a
// fixed few, so it does not grow.
type warner struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[string]time.Time
	held map[string]int // lines left out since the last
}

func newWarner(log *slog.Logger) *warner {
	return &warner{log: log, last: make(map[string]time.Time), held: make(map[string]int)}
}

func (w *warner) warn(topic, address string, err error) {
	w.mu.Lock()
	now := time.Now()
	last, seen := w.last[topic]
	if seen && now.Sub(last) < warnEvery {
		w.held[topic]++
		w.mu.Unlock()
		return
	}
	held := w.held[topic]
	w.last[topic] = now
	delete(w.held, topic)
	w.mu.Unlock()
	w.log.Warn("rpc: "+topic, "peer", address, "error", err, "left_out", held)
}
