package cluster

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// quiet is how long nothing of a kind has failed when a failure is news.
const quiet = 10 * time.Second

// episode is a run of failures, of which the first is news.
type episode struct{ last atomic.Int64 }

// news takes in a failure, and reports whether it is the first for a while.
func (e *episode) news(now int64) bool {
	before := e.last.Swap(now)
	return before == 0 || now-before > int64(quiet)
}

// logFailure logs a failure at a level that says whether it is news: one that
// comes with each of a million decisions must not fill the log.
func (c *Cluster) logFailure(e *episode, message string, args ...any) {
	level := slog.LevelDebug
	if e.news(c.now()) {
		level = slog.LevelWarn
	}
	c.config.Log.Log(context.Background(), level, message, args...)
}

// degrade counts an answer that a failure shows in.
func (c *Cluster) degrade(reason Reason) {
	c.stats.Degraded[reason].Add(1)
	c.logFailure(&c.degraded, "decisions are degraded", "reason", reason.String())
}

// failures is how many partitions failures have cost so far.
type failures struct{ taken, reopened int64 }

// tellFailures logs what has come since it was last told, in one line however
// many partitions it concerns.
func (c *Cluster) tellFailures(told failures) failures {
	now := failures{c.stats.TakenOver.Load(), c.stats.Reopened.Load()}
	if n := now.taken - told.taken; n > 0 {
		c.config.Log.Warn("partitions taken over from a node that failed", "partitions", n)
	}
	if n := now.reopened - told.reopened; n > 0 {
		c.config.Log.Info("partitions opened that no other node has", "partitions", n)
	}
	return now
}
