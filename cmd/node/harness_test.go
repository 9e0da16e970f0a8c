package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/policy"
	"weir/ring"
)

// TestMain runs the daemon itself when a test starts this binary as one, and
// otherwise the tests, after which no goroutine may be left.
func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// asDaemon is the environment variable that makes the test binary the daemon.
const asDaemon = "WEIR_TEST_AS_DAEMON"

// epoch is where every stopped clock begins: 2026-01-01T00:00:00Z.
const epoch = 1_767_225_600

// stoppedClock moves only when it is told to.
type stoppedClock struct{ ns atomic.Int64 }

func newStoppedClock() *stoppedClock {
	c := new(stoppedClock)
	c.ns.Store(epoch * int64(time.Second))
	return c
}

func (c *stoppedClock) Now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *stoppedClock) Advance(d time.Duration) { c.ns.Add(int64(d)) }

// testCluster is a number of nodes in this process, asked in turn.
type testCluster struct {
	t     testing.TB
	nodes []*Node
	clock *stoppedClock // nil: the real one
	next  atomic.Int64
	http  *http.Client
}

// startCluster starts n nodes that have seen each other. The clock is stopped
// unless it is nil.
func startCluster(t testing.TB, n int, rules *policy.Policy, clock *stoppedClock) *testCluster {
	t.Helper()
	c := &testCluster{t: t, clock: clock, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
	t.Cleanup(c.close)
	for range n {
		var seeds []string
		for _, node := range c.nodes {
			seeds = append(seeds, node.Self().Gossip)
		}
		c.nodes = append(c.nodes, startNode(t, rules, clock, seeds))
	}
	c.settle()
	return c
}

func startNode(t testing.TB, rules *policy.Policy, clock *stoppedClock, seeds []string) *Node {
	t.Helper()
	config := Config{
		HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0", Gossip: "127.0.0.1:0", RPC: "127.0.0.1:0",
		Join: seeds, JoinTimeout: 10 * time.Second, Cluster: "test",
		Policy: rules, Replicas: 1, ForwardTimeout: 5 * time.Second, // what is tested is the answer, not a noisy machine's speed
		Version: "test", Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if clock != nil {
		config.Now = clock.Now
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	node, err := Open(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// settle waits until every node's View has all of them active.
func (c *testCluster) settle() {
	c.t.Helper()
	eventually(c.t, "every node sees all as active", func() bool {
		for _, node := range c.nodes {
			active := 0
			for _, m := range node.cluster.View().Members() {
				if m.State == ring.Active {
					active++
				}
			}
			if active != len(c.nodes) || node.cluster.View().Epoch() != c.nodes[0].cluster.View().Epoch() {
				return false
			}
		}
		return true
	})
}

func (c *testCluster) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c.http.CloseIdleConnections()
	for _, node := range c.nodes {
		if err := node.stop(ctx); err != nil {
			c.t.Errorf("stopping: %v", err)
		}
	}
}

// eventually waits for a condition, within a bound.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("in 30 s it has not come true that %s", what)
		}
	}
}

// decide posts a body to the next node in turn, wants HTTP 200, and returns the
// answer as it was sent.
func (c *testCluster) decide(body string) string {
	c.t.Helper()
	status, answer := c.post("application/json", body)
	if status != http.StatusOK {
		c.t.Fatalf("%s: HTTP %d: %s", body, status, answer)
	}
	return answer
}

func (c *testCluster) post(contentType, body string) (status int, answer string) {
	c.t.Helper()
	return c.postTo("/v1/decide", contentType, body)
}

// allowance posts a call about an operation to the next node in turn, wants HTTP
// 200, and returns the answer as it was sent.
func (c *testCluster) allowance(operation, body string) string {
	c.t.Helper()
	status, answer := c.postTo("/v1/allowances/"+operation, "application/json", body)
	if status != http.StatusOK {
		c.t.Fatalf("%s %s: HTTP %d: %s", operation, body, status, answer)
	}
	return answer
}

func (c *testCluster) postTo(path, contentType, body string) (status int, answer string) {
	c.t.Helper()
	node := c.nodes[c.next.Add(1)%int64(len(c.nodes))]
	resp, err := c.http.Post("http://"+node.Self().HTTP+path, contentType, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// answered is a decision as a client reads it.
type answered struct {
	Allowed  bool              `json:"allowed"`
	Status   int               `json:"status"`
	Headers  map[string]string `json:"headers"`
	Body     map[string]any    `json:"body"`
	Effects  []string          `json:"effects"`
	Degraded bool              `json:"degraded"`
	Buckets  []struct {
		Bucket     string  `json:"bucket"`
		Allowed    bool    `json:"allowed"`
		Limit      int64   `json:"limit"`
		Remaining  int64   `json:"remaining"`
		RetryAfter float64 `json:"retry_after"`
		ResetAfter float64 `json:"reset_after"`
	} `json:"buckets"`
	Error map[string]any `json:"error"`

	// Of a peek at slow mode.
	RetryAfter    *float64 `json:"retry_after"`
	NextAllowedAt *string  `json:"next_allowed_at"`
	CanBypass     *bool    `json:"can_bypass"`
}

func parse[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// left returns "bucket=remaining" of every bucket that a peek of the request
// finds, in order.
func (c *testCluster) left(request string) string {
	c.t.Helper()
	peek := strings.TrimSuffix(request, "}") + `,"peek":true}`
	var out []string
	for _, b := range parse[answered](c.t, c.decide(peek)).Buckets {
		out = append(out, fmt.Sprintf("%s=%d", b.Bucket, b.Remaining))
	}
	return strings.Join(out, " ")
}

// array repeats a request n times.
func array(n int, request string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(request+",", n), ",") + "]"
}

func (c *testCluster) decideMany(n int, request string) []answered {
	c.t.Helper()
	return parse[[]answered](c.t, c.decide(array(n, request)))
}

func defaultPolicy(t testing.TB) *policy.Policy {
	t.Helper()
	p, err := policy.Default()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func customPolicy(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, _, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// onOneAndThree runs a test against one node and against three, each request to
// another.
func onOneAndThree(t *testing.T, rules func(testing.TB) *policy.Policy, test func(*testing.T, *testCluster)) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("nodes=%d", n), func(t *testing.T) {
			t.Parallel()
			test(t, startCluster(t, n, rules(t), newStoppedClock()))
		})
	}
}
