package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A deploy at noon: a node joins, one leaves, all are restarted one by one, while
// callers hammer. Nobody's limit is refilled, no call fails, nothing is admitted
// too much.
func TestDeploy(t *testing.T) {
	f := newFleet(t, 3, patient...)
	const hot, all = 200, 10_000
	f.spend(hot, all, 3)
	stop := f.hammer(4, 0, hot)
	f.start(4)
	f.expect("after a join", hot, all, fleetLimit-3)
	f.leave(2)
	f.expect("after a leave", hot, all, fleetLimit-3)
	for _, node := range []int{1, 3, 4} {
		f.leave(node)
		f.start(node)
	}
	f.expect("after a rolling restart", hot, all, fleetLimit-3)
	seen := stop()
	seen.log(t, "deploy")
	if sum, _ := seen.extra(); sum > 0 || seen.degraded > 0 {
		t.Errorf("%d admitted beyond the limit and %d degraded, want none", sum, seen.degraded)
	}
	f.expect("hammered", 0, hot, 0)
}

// A node is killed under load. The others go on at once; a bucket admits too
// much by what its owner had admitted in its last moment, and never more than
// its limit.
func TestKilledUnderLoad(t *testing.T) {
	f := newFleet(t, 3)
	const hot, all = 200, 5_000
	f.spend(hot, all, 3)
	stop := f.hammer(4, 0, hot)
	eventually(t, "callers are at work", func() bool { return f.left(0, hot) < hot*fleetLimit/2 })
	d := f.hide(2)
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	eventually(t, "the others agree on new owners", func() bool { return f.agree(2, 1, 3) })
	agreed := time.Since(killed)
	f.expect("after a kill", hot, all, fleetLimit-3)
	eventually(t, "the hammered buckets are exhausted", func() bool { return f.left(0, hot) == 0 })
	seen := stop()
	seen.log(t, "kill")
	t.Logf("agreed after %s", agreed.Round(time.Millisecond))
	if agreed > 30*time.Second {
		t.Errorf("agreed after %s, ten times what is promised is 30 s", agreed)
	}
	if _, most := seen.extra(); most > fleetLimit {
		t.Errorf("one bucket admitted %d beyond its limit of %d", most, fleetLimit)
	}
}

// A node that is stopped for ten seconds costs the first calls a forward
// timeout, and no decision. When it goes on it does not decide from what it knew
// before.
func TestStoppedForAWhile(t *testing.T) {
	f := newFleet(t, 3)
	const hot, all = 200, 5_000
	f.spend(hot, all, 3)
	f.spend(0, hot, fleetLimit-2)
	d := f.hide(2)
	eventually(t, "backups know", func() bool { return f.copied(1, 2, 3) })
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stop := f.hammer(4, 0, hot)
	stopped := time.NewTimer(10 * time.Second)
	<-stopped.C
	if err := d.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// Asked of the one that goes on, too, at once.
	refused := 0
	for i := range hot {
		out, err := f.ask(2, false, i)
		if err != nil {
			t.Fatal(err)
		}
		if !out[0].Allowed {
			refused++
		}
	}
	seen := stop()
	seen.log(t, "stop")
	if refused != hot {
		t.Errorf("the node that goes on admits %d of %d exhausted buckets", hot-refused, hot)
	}
	if sum, _ := seen.extra(); sum > 0 || len(seen.admitted) != hot {
		t.Errorf("%d admitted beyond the limit, %d buckets asked", sum, len(seen.admitted))
	}
	if most := 10 * 150 * time.Millisecond; seen.slowest > most {
		t.Errorf("a call took %s, ten times what is promised is %s", seen.slowest, most)
	}
	f.mu.Lock()
	f.daemons[2] = d
	f.mu.Unlock()
	eventually(t, "all agree again", func() bool { return f.agree(3, 1, 2, 3) })
	f.expect("afterwards", hot, all, fleetLimit-3)
	f.expect("hammered", 0, hot, 0)
}

// All nodes stop, and start again from their snapshots.
func TestSnapshots(t *testing.T) {
	dir := t.TempDir()
	file := func(node int) []string {
		return []string{"--snapshot", filepath.Join(dir, fmt.Sprint(node))}
	}
	f := newFleet(t, 0)
	for node := 1; node <= 3; node++ {
		f.start(node, file(node)...)
	}
	f.spend(0, 5000, 3)
	f.leave(1, 2, 3)
	f.http.CloseIdleConnections()
	for node := 1; node <= 3; node++ {
		f.start(node, file(node)...)
	}
	eventually(t, "all agree", func() bool { return f.agree(3, 1, 2, 3) })
	f.expect("after all were stopped", 0, 5000, fleetLimit-3)
}

// A snapshot that cannot be used is refused with one line and kept, also when
// the node stops; the node starts empty.
func TestBadSnapshot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot")
	good := func() []byte {
		f := newFleet(t, 0)
		f.start(1, "--snapshot", file)
		f.spend(0, 10, 1)
		f.leave(1)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		return data
	}()
	for name, bad := range map[string][]byte{
		"cut off":      good[:len(good)-1],
		"one bit":      append(append([]byte{}, good[:60]...), append([]byte{good[60] ^ 1}, good[61:]...)...),
		"no snapshot":  []byte("something else"),
		"nothing":      {},
		"more than it": append(append([]byte{}, good...), 0),
	} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		f := newFleet(t, 0)
		d := f.start(1, "--snapshot", file)
		f.expect(name, 0, 10, fleetLimit)
		f.leave(1)
		if n := strings.Count(d.stderr.String(), "the snapshot cannot be used"); n != 1 {
			t.Errorf("%s: said %d times in %s", name, n, d.stderr)
		}
		if kept, err := os.ReadFile(file); err != nil || !bytes.Equal(kept, bad) {
			t.Errorf("%s: the file is changed, %v", name, err)
		}
		f.http.CloseIdleConnections()
	}
}
