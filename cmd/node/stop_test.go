package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// All nodes are stopped while callers ask, to the last moment. With snapshots
// nothing that was admitted is forgotten, but for what was said to be degraded.
func TestStoppedUnderLoad(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			dir := t.TempDir()
			file := func(node int) []string { return []string{"--snapshot", filepath.Join(dir, fmt.Sprint(node))} }
			f := newFleet(t, 0)
			for node := 1; node <= nodes; node++ {
				f.start(node, file(node)...)
			}
			const items = 2000
			var mu sync.Mutex
			var admitted [items]int64
			sum, degraded, atSignal := int64(0), int64(0), int64(0)
			var callers sync.WaitGroup
			for i := range 6 {
				callers.Go(func() {
					for { // until the node has gone
						item := rand.IntN(items)
						out, err := f.ask(1+i%nodes, false, item)
						if err != nil {
							return
						}
						mu.Lock()
						if out[0].Allowed {
							admitted[item]++
							sum++
						}
						if out[0].Degraded {
							degraded++
						}
						mu.Unlock()
					}
				})
			}
			eventually(t, "callers are at work", func() bool { mu.Lock(); defer mu.Unlock(); atSignal = sum; return sum > 2000 })
			f.leave(slices.Collect(maps.Keys(f.daemons))...)
			callers.Wait()
			f.http.CloseIdleConnections()
			for node := 1; node <= nodes; node++ {
				f.start(node, file(node)...)
			}
			forgotten := int64(0)
			for item, left := range f.census(0, items) {
				forgotten += max(0, left-(fleetLimit-min(fleetLimit, admitted[item])))
			}
			t.Logf("%d admitted, %d of them after the signal; %d degraded; %d are forgotten", sum, sum-atSignal, degraded, forgotten)
			if sum == atSignal {
				t.Error("nothing was admitted after the signal")
			}
			if forgotten > degraded {
				t.Errorf("%d units are forgotten, and %d answers were degraded", forgotten, degraded)
			}
		})
	}
}

// A node that is stopped while its partitions arrive hands over what it has got
// by then, and is not missed.
func TestStoppedWhileItJoins(t *testing.T) {
	f := newFleet(t, 2, patient...)
	const hot, all = 200, 20_000
	f.fill(hot, all)
	left := f.census(hot, all)
	stop := f.hammer(4, 0, hot)
	before, ok := f.cluster(1)
	if !ok {
		t.Fatal("node 1 does not tell of the cluster")
	}
	joining := startBehind(t, nil, nil, f.net.flags(3, append([]string{"--join", f.net.at(1, 7946)}, f.args...)...)...)
	eventually(t, "partitions move", func() bool {
		now, ok := f.cluster(1)
		return ok && now.Transfers.Given > before.Transfers.Given
	})
	if err := joining.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := joining.wait(); status != exitOK {
		t.Errorf("it exits with %d", status)
	}
	eventually(t, "the cluster settles", func() bool { return f.agree(2, 1, 2) && f.copied(1, 2) })
	seen := stop()
	seen.log(t, "an interrupted join")
	if sum, _ := seen.extra(); sum > 0 || seen.degraded > 0 {
		t.Errorf("%d admitted beyond the limit and %d degraded, want none", sum, seen.degraded)
	}
	refilled := f.refilled(hot, left)
	t.Logf("afterwards %d of %d buckets are refilled", refilled, len(left))
	if refilled > 0 {
		t.Errorf("%d buckets are refilled", refilled)
	}
}
