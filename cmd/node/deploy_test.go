package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fleet is a cluster of processes, and callers who see it from outside.
type fleet struct {
	t     *testing.T
	net   addresses
	args  []string
	where func(node int) []string // the command to start a node behind, if any
	http  *http.Client

	mu      sync.Mutex
	daemons map[int]*daemon // by node, of those that may be asked
}

// The limit is so slow that nothing drains in a test.
const (
	fleetLimit = 20
	fleetRules = "version: 1\nbuckets: {\"item::id\": {limit: 20, window: 10h, exempt_from_global: true}}\nroutes: {\"GET /items/:id\": [\"item::id\"]}\n"
)

func newFleet(t *testing.T, n int, args ...string) *fleet {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(fleetRules), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fleet{
		t: t, net: newLoopbackNet(), where: func(int) []string { return nil }, daemons: map[int]*daemon{},
		args: append([]string{"--policy", rules}, args...),
		http: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}},
	}
	t.Cleanup(f.http.CloseIdleConnections)
	for i := range n {
		f.start(i + 1)
	}
	return f
}

// start runs a node; every one knows the first four as its seeds.
func (f *fleet) start(node int, more ...string) *daemon {
	f.t.Helper()
	join := f.net.at(1, 7946) + "," + f.net.at(2, 7946) + "," + f.net.at(3, 7946) + "," + f.net.at(4, 7946)
	timeout := "200ms"
	if len(f.daemons) > 0 {
		timeout = "30s" // others are there
	}
	d := startBehind(f.t, f.where(node), nil, f.net.flags(node, append(append([]string{"--join", join, "--join-timeout", timeout}, f.args...), more...)...)...)
	d.ready()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.daemons[node] = d
	return d
}

// hide keeps callers from a node, and returns it.
func (f *fleet) hide(node int) *daemon {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.daemons[node]
	delete(f.daemons, node)
	return d
}

// leave stops a node as an operator does.
func (f *fleet) leave(node int) {
	f.t.Helper()
	d := f.hide(node)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		f.t.Fatal(err)
	}
	if status := d.wait(); status != exitOK {
		f.t.Errorf("node %d exits with %d", node, status)
	}
}

// any returns one of the nodes that may be asked.
func (f *fleet) any() int { return f.other(0) }

// other returns another than that one, unless it is the only one.
func (f *fleet) other(than int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var nodes []int
	for node := range f.daemons {
		if node != than || len(f.daemons) == 1 {
			nodes = append(nodes, node)
		}
	}
	return nodes[rand.IntN(len(nodes))]
}

// errBroken: the connection to the node broke before its answer.
var errBroken = errors.New("connection broke")

// ask has a node decide about items, and returns its decisions.
func (f *fleet) ask(node int, peek bool, items ...int) ([]answered, error) {
	var body bytes.Buffer
	for i, item := range items {
		fmt.Fprintf(&body, "%c{\"route\":\"GET /items/:id\",\"params\":{\"id\":\"%d\"},\"caller\":{\"account\":\"%d\"},\"peek\":%t}",
			"[,"[min(i, 1)], item, item, peek)
	}
	body.WriteByte(']')
	resp, err := f.http.Post("http://"+f.net.at(node, 8080)+"/v1/decide", "application/json", &body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	var out []answered
	if err := json.Unmarshal(text, &out); err != nil || len(out) != len(items) || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP %d %.200s (%w)", resp.StatusCode, text, err)
	}
	for i := range out {
		if len(out[i].Buckets) != 1 {
			return nil, fmt.Errorf("item %d: %.200s", items[i], text)
		}
	}
	return out, nil
}

// spend takes units of every item in [from, to).
func (f *fleet) spend(from, to, units int) {
	f.t.Helper()
	for range units {
		for first := from; first < to; first += batch {
			var items []int
			for i := first; i < min(to, first+batch); i++ {
				items = append(items, i)
			}
			out, err := f.ask(f.any(), false, items...)
			if err != nil {
				f.t.Fatal(err)
			}
			for i, a := range out {
				if !a.Allowed || a.Degraded {
					f.t.Fatalf("item %d: %+v", items[i], a)
				}
			}
		}
	}
}

// expect looks at every item in [from, to), and reports those that do not have
// exactly so much left.
func (f *fleet) expect(what string, from, to int, remaining int64) {
	f.t.Helper()
	wrong, first := 0, ""
	for i := from; i < to; i += batch {
		var items []int
		for k := i; k < min(to, i+batch); k++ {
			items = append(items, k)
		}
		out, err := f.ask(f.any(), true, items...)
		if err != nil {
			f.t.Fatal(err)
		}
		for k, a := range out {
			if got := a.Buckets[0].Remaining; got != remaining || a.Degraded {
				if wrong++; first == "" {
					first = fmt.Sprintf("item %d: %+v", items[k], a)
				}
			}
		}
	}
	f.t.Logf("%s: %d of %d buckets are not as they were", what, wrong, to-from)
	if wrong > 0 {
		f.t.Errorf("%s: such as %s, want %d left", what, first, remaining)
	}
}

// observed is what callers have seen.
type observed struct {
	mu       sync.Mutex
	calls    int
	broken   int // of them, those whose connection broke, and that were asked of another node
	failed   int
	degraded int
	admitted map[int]int
	slowest  time.Duration
	failure  string
}

// hammer asks for items in [from, to) without pause, until the returned function
// is called. A caller whose connection breaks asks another node, once.
func (f *fleet) hammer(callers, from, to int) (stop func() *observed) {
	total := &observed{admitted: map[int]int{}}
	done := make(chan struct{})
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				item := from + rand.IntN(to-from)
				began := time.Now()
				node := f.any()
				out, err := f.ask(node, false, item)
				broken := errors.Is(err, errBroken)
				if broken {
					out, err = f.ask(f.other(node), false, item)
				}
				total.mu.Lock()
				total.calls++
				if broken {
					total.broken++
				}
				total.slowest = max(total.slowest, time.Since(began))
				switch {
				case err != nil:
					total.failed++
					total.failure = err.Error()
				case out[0].Allowed:
					total.admitted[item]++
				}
				if err == nil && out[0].Degraded {
					total.degraded++
				}
				total.mu.Unlock()
			}
		})
	}
	return func() *observed {
		close(done)
		running.Wait()
		return total
	}
}

// extra is what was admitted beyond the limit, of all items and of the worst.
func (t *observed) extra() (sum, most int) {
	for _, n := range t.admitted {
		sum += max(0, n-fleetLimit)
		most = max(most, n-fleetLimit)
	}
	return sum, most
}

func (t *observed) log(test *testing.T, what string) {
	sum, most := t.extra()
	test.Logf("%s: %d calls, %d of them asked twice, %d failed, %d degraded, %d admitted beyond the limit (%d of one bucket), slowest %s",
		what, t.calls, t.broken, t.failed, t.degraded, sum, most, t.slowest.Round(time.Millisecond))
	if t.failed > 0 {
		test.Errorf("%s: %d calls failed, such as %s", what, t.failed, t.failure)
	}
}

// A deploy at noon: a node joins, one leaves, all are restarted one by one, while
// callers hammer. Nobody's limit is refilled, no call fails, nothing is admitted
// too much.
func TestDeploy(t *testing.T) {
	f := newFleet(t, 3)
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
	var stopping []*daemon
	for node := 1; node <= 3; node++ {
		d := f.hide(node)
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		stopping = append(stopping, d)
	}
	for i, d := range stopping {
		if status := d.wait(); status != exitOK {
			t.Errorf("node %d exits with %d", i+1, status)
		}
	}
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

// left returns how many units all items in [from, to) have left together.
func (f *fleet) left(from, to int) int64 {
	f.t.Helper()
	var items []int
	for i := from; i < to; i++ {
		items = append(items, i)
	}
	out, err := f.ask(f.any(), true, items...)
	if err != nil {
		f.t.Fatal(err)
	}
	var sum int64
	for _, a := range out {
		sum += a.Buckets[0].Remaining
	}
	return sum
}

// clusterOf is the part of GET /v1/cluster that tests look at.
type clusterOf struct {
	Epoch     string
	Lag       float64 `json:"replication_lag"`
	Transfers struct{ Moving, Given int }
	Members   []struct{ State string }
}

func (f *fleet) cluster(node int) (c clusterOf, ok bool) {
	status, body := get(f.t, "http://"+f.net.at(node, 8081)+"/v1/cluster")
	return c, status == http.StatusOK && json.Unmarshal([]byte(body), &c) == nil
}

// agree reports whether the nodes see so many active members, the same, and
// nothing moves any more.
func (f *fleet) agree(active int, nodes ...int) bool {
	epochs := map[string]bool{}
	for _, node := range nodes {
		c, ok := f.cluster(node)
		n := 0
		for _, m := range c.Members {
			if m.State == "active" {
				n++
			}
		}
		if !ok || n != active || c.Transfers.Moving > 0 {
			return false
		}
		epochs[c.Epoch] = true
	}
	return len(epochs) == 1
}

// copied reports whether every backup knows everything.
func (f *fleet) copied(nodes ...int) bool {
	for _, node := range nodes {
		if c, ok := f.cluster(node); !ok || c.Lag > 0 || c.Transfers.Moving > 0 {
			return false
		}
	}
	return true
}
