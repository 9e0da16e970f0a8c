package main

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// movingKeys is how many buckets there are while nodes are killed; a soak asks
// for more.
func movingKeys(t *testing.T) int {
	text := os.Getenv("WEIR_TEST_KEYS")
	if text == "" {
		return 100_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("WEIR_TEST_KEYS: %v", err)
	}
	return n
}

// Nodes are killed in the middle of a hand-over: one that gives, then one that
// receives. The cluster settles, and no bucket is refilled: all that was asked
// for was known to the backups.
func TestKilledWhileMoving(t *testing.T) {
	f := newFleet(t, 3)
	all := movingKeys(t)
	f.fill(0, all)
	eventually(t, "backups know", func() bool { return f.agree(3, 1, 2, 3) && f.copied(1, 2, 3) })
	before := f.census(0, all)
	for _, c := range []struct {
		side        string
		joins, dies int
		asked       int // who is seen to give
		rest        []int
	}{
		{"sender", 4, 2, 2, []int{1, 3, 4}},
		{"receiver", 2, 2, 1, []int{1, 3, 4}},
	} {
		joined := startBehind(t, nil, nil, f.net.flags(c.joins, append([]string{"--join", f.net.at(1, 7946)}, f.args...)...)...)
		eventually(t, "partitions move", func() bool {
			now, ok := f.cluster(c.asked)
			return ok && now.Transfers.Moving > 0
		})
		dies := joined
		if c.joins != c.dies {
			dies = f.hide(c.dies)
			f.mu.Lock()
			f.daemons[c.joins] = joined
			f.mu.Unlock()
		}
		if err := dies.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		eventually(t, "the cluster settles", func() bool { return f.agree(3, c.rest...) && f.copied(c.rest...) && f.ready(c.rest...) })
		refilled := f.refilled(0, before)
		t.Logf("the %s killed: settled after %s, %d of %d buckets are refilled", c.side, time.Since(began).Round(time.Millisecond), refilled, all)
		if refilled > 0 {
			t.Errorf("%d of %d buckets are refilled", refilled, all)
		}
	}
}
