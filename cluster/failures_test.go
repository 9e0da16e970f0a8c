package cluster

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), message)
}

// Failures that last are logged when they begin, however many calls they cost.
func TestFailuresAreLoggedOnce(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		var log lines
		a, _ := w.node("n1", three, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		b, _ := w.node("n2", three)
		c, _ := w.node("n3", three)
		w.settle(a, b, c)
		far := one(check(owned(t, three, "n2 n3"), 1, rule(t, 9, 300*time.Hour)))
		same(t, "before", says(a.Decide(t.Context(), far, take)), "+8")
		w.net.Crash(hostOf("n2"))
		w.net.Crash(hostOf("n3"))
		for range 100 {
			same(t, "nobody who knows", says(a.Decide(t.Context(), far, take)), "degraded")
		}
		same(t, "n2 told of", log.count(`"node could not be asked" peer=n2`), 1)
		same(t, "n3 told of", log.count(`"node could not be asked" peer=n3`), 1)
		same(t, "degraded told of", log.count(`"decisions are degraded"`), 1)

		time.Sleep(quiet + time.Second)
		same(t, "still nobody", says(a.Decide(t.Context(), far, take)), "degraded")
		same(t, "degraded told of anew", log.count(`"decisions are degraded"`), 2)
	})
}
