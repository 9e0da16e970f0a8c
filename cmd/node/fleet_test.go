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
	"slices"
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

// patient are the flags of nodes that take a stall of the machine for what it is:
// where nothing fails, and no answer may be degraded.
var patient = []string{"--forward-timeout", "1s"}

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

// leave stops nodes as an operator does, all at once.
func (f *fleet) leave(nodes ...int) {
	f.t.Helper()
	stopping := map[int]*daemon{}
	for _, node := range nodes {
		d := f.hide(node)
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			f.t.Fatal(err)
		}
		stopping[node] = d
	}
	for node, d := range stopping {
		if status := d.wait(); status != exitOK {
			f.t.Errorf("node %d exits with %d", node, status)
		}
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

// batch is how many decisions one call of a test asks for: few enough that a busy
// machine answers within the forward timeout.
const batch = 100

// fill takes one unit of every item in [from, to), by several callers. On a busy
// machine some may be degraded, and take another or none: see census.
func (f *fleet) fill(from, to int) {
	f.t.Helper()
	const callers = 4
	var filling sync.WaitGroup
	share := (to - from + callers - 1) / callers
	for i := from; i < to; i += share {
		filling.Go(func() {
			for first := i; first < min(i+share, to); first += batch {
				var items []int
				for k := first; k < min(first+batch, i+share, to); k++ {
					items = append(items, k)
				}
				if _, err := f.ask(f.any(), false, items...); err != nil {
					f.t.Error(err)
					return
				}
			}
		})
	}
	filling.Wait()
}

// census returns what every item in [from, to) has left.
func (f *fleet) census(from, to int) []int64 {
	f.t.Helper()
	left := make([]int64, 0, to-from)
	for first := from; first < to; first += batch {
		var items []int
		for i := first; i < min(first+batch, to); i++ {
			items = append(items, i)
		}
		var out []answered
		eventually(f.t, "a look is not degraded", func() bool {
			var err error
			if out, err = f.ask(f.any(), true, items...); err != nil {
				f.t.Fatal(err)
			}
			return !slices.ContainsFunc(out, func(a answered) bool { return a.Degraded })
		})
		for _, a := range out {
			left = append(left, a.Buckets[0].Remaining)
		}
	}
	return left
}

// refilled returns how many items, of those from that one on, have more left than
// in a census before.
func (f *fleet) refilled(from int, before []int64) (n int) {
	f.t.Helper()
	for i, left := range f.census(from, from+len(before)) {
		if left > before[i] {
			n++
		}
	}
	return n
}

// ready reports whether the nodes say that traffic may be sent to them.
func (f *fleet) ready(nodes ...int) bool {
	for _, node := range nodes {
		if status, _ := get(f.t, "http://"+f.net.at(node, 8080)+"/readyz"); status != http.StatusOK {
			return false
		}
	}
	return true
}
