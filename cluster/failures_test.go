package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The log tells of decisions that are degraded, and why.
func TestFailuresAreLogged(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		var log bytes.Buffer // looked at while every goroutine waits
		a, _ := w.node("n1", three, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		b, _ := w.node("n2", three)
		c, _ := w.node("n3", three)
		w.settle(a, b, c)
		far := one(check(owned(t, three, "n2 n3"), 1, rule(t, 9, 300*time.Hour)))
		same(t, "before", says(a.Decide(t.Context(), far, take)), "+8")
		synctest.Wait()
		log.Reset()
		w.net.Crash(hostOf("n2"))
		w.net.Crash(hostOf("n3"))
		same(t, "nobody who knows", says(a.Decide(t.Context(), far, take)), "degraded")
		synctest.Wait()
		for _, line := range []string{
			`msg="node could not be asked" peer=n2 `, `msg="node could not be asked" peer=n3 `,
			`msg="decisions are degraded" reason=unavailable`,
		} {
			same(t, line, strings.Count(log.String(), line), 1)
		}
	})
}
