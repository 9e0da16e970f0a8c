package cluster

// degrade counts an answer that a failure shows in, and logs it: it is for the
// logger to leave out what comes with each of a million decisions.
func (c *Cluster) degrade(reason Reason) {
	c.stats.Degraded[reason].Add(1)
	c.config.Log.Warn("decisions are degraded", "reason", reason.String())
}

// failures is how many partitions failures have cost so far.
type failures struct{ taken, reopened int64 }

// tellFailures logs what has come since it was last told, in one line however
// many partitions it concerns.
func (c *Cluster) tellFailures(told failures) failures {
	now := failures{c.stats.TakenOver.Load(), c.stats.Reopened.Load()}
	if n := now.taken - told.taken; n > 0 {
		c.config.Log.Warn("partitions taken over from a node that decides no more", "partitions", n)
	}
	if n := now.reopened - told.reopened; n > 0 {
		c.config.Log.Info("partitions opened that no other node has", "partitions", n)
	}
	return now
}
