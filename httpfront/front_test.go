package httpfront

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/cluster"
	"weir/policy"
	"weir/ring"
	"weir/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const english = "You are doing that too often. Please wait a moment and try again."

// beginning is where every stopped clock stands at first: 2026-01-01T00:00:00Z.
const beginning = 1_767_225_600

// stoppedClock moves only when it is told to.
type stoppedClock struct{ ns atomic.Int64 }

func newStoppedClock() *stoppedClock {
	c := new(stoppedClock)
	c.ns.Store(beginning * int64(time.Second))
	return c
}

func (c *stoppedClock) now() time.Time { return time.Unix(0, c.ns.Load()) }

// told is a membership that never changes.
type told struct{ view *ring.View }

func (m told) View() *ring.View         { return m.view }
func (m told) Changed() <-chan struct{} { return nil }
func (m told) Doubt(string)             {}

// member is a node as views hold it. Nobody listens at its addresses.
func member(name string, state ring.State) ring.Member {
	return ring.Member{
		Name: name, Boot: 7, State: state, Version: "v-" + name, Policy: "policy-" + name,
		Gossip: name + ":7946", RPC: name + ":7947", HTTP: name + ":8080", Admin: name + ":8081",
	}
}

// wires lead from node to node, until they are cut: then nobody is there.
type wires struct {
	mu    sync.Mutex
	at    map[string]string // member's address to where it listens
	conns []net.Conn
	shut  bool
}

func (w *wires) dial(ctx context.Context, address string) (net.Conn, error) {
	w.mu.Lock()
	at, ok := w.at[address]
	ok = ok && !w.shut
	w.mu.Unlock()
	if !ok {
		return nil, errors.New("nobody is there")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut {
		conn.Close()
		return nil, errors.New("nobody is there")
	}
	w.conns = append(w.conns, conn)
	return conn, nil
}

func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = true
	for _, conn := range w.conns {
		conn.Close()
	}
}

// listen opens a member's node-to-node listener.
func (w *wires) listen(t testing.TB, member string) net.Listener {
	t.Helper()
	l := listen(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[member+":7947"] = l.Addr().String()
	return l
}

// setup says what a node under test is made of. The zero value is a node alone.
type setup struct {
	name        string        // default: n1
	rules       string        // YAML
	members     []ring.Member // default: n1, active
	connections int           // MaxConnections
	notReady    bool
	peers       []string // members that run too, without HTTP, and have what is theirs
	cut         bool     // then they are lost
	change      func(*cluster.Config)
}

// node is a front over a real cluster, both serving.
type node struct {
	t       testing.TB
	front   *Front
	cluster *cluster.Cluster
	clock   *stoppedClock
	log     *journal
	wires   *wires
	peers   []*cluster.Cluster
	api     string // addresses
	admin   string
	client  *http.Client
}

// newFront returns a front that does not serve yet, over a cluster that does
// not listen yet.
func newFront(t testing.TB, s setup) *node {
	t.Helper()
	rules, _, err := policy.Parse("test.yaml", []byte(s.rules))
	if err != nil {
		t.Fatal(err)
	}
	if s.name == "" {
		s.name = "n1"
	}
	if s.members == nil {
		s.members = []ring.Member{member("n1", ring.Active)}
	}
	n := &node{t: t, clock: newStoppedClock(), log: new(journal), wires: &wires{at: map[string]string{}}, client: &http.Client{Transport: new(http.Transport)}}
	log := slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	config := cluster.Config{
		RPC: rpc.Config{
			Self:  rpc.Identity{Name: s.name, Boot: 7, Label: "test", Format: ring.Format},
			Clock: n.clock.ns.Load,
			Dial:  n.wires.dial,
			Log:   log,
		},
		Members:        told{ring.NewView(s.members)},
		ForwardTimeout: time.Second, // what is tested is the answer, not a noisy machine's speed
		Log:            log,
	}
	if s.change != nil {
		s.change(&config)
	}
	n.cluster = cluster.New(config)
	n.front, err = New(Config{
		Policy:         rules,
		Keys:           policy.NewKeys([16]byte{}, ring.Partitions),
		Cluster:        n.cluster,
		Label:          "test",
		Self:           func() ring.Member { return member(s.name, ring.Active) },
		Now:            n.clock.now,
		Log:            log,
		MaxConnections: s.connections,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !s.notReady {
		n.front.SetReady()
	}
	return n
}

// start returns a node that serves until the test ends.
func start(t testing.TB, s setup) *node {
	t.Helper()
	n := newFront(t, s)
	n.cluster.Open(n.wires.listen(t, "n1"))
	for _, name := range s.peers {
		n.peers = append(n.peers, n.peer(name, s.members))
	}
	n.settle()
	if s.cut {
		n.wires.cut()
	}
	api, admin := listen(t), listen(t)
	n.api, n.admin = api.Addr().String(), admin.Addr().String()
	n.front.Serve(api, admin)
	t.Cleanup(n.close)
	return n
}

// peer starts a node without HTTP that sees these members.
func (n *node) peer(name string, sees []ring.Member) *cluster.Cluster {
	n.t.Helper()
	c := cluster.New(cluster.Config{
		RPC: rpc.Config{
			Self:  rpc.Identity{Name: name, Boot: 7, Label: "test", Format: ring.Format},
			Clock: n.clock.ns.Load,
			Dial:  n.wires.dial,
		},
		Members: told{ring.NewView(sees)},
		Log:     slog.New(slog.DiscardHandler),
	})
	c.Open(n.wires.listen(n.t, name))
	n.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			n.t.Error(err)
		}
	})
	return c
}

// settle waits until those who run have their partitions. One that waits for
// members that do not run will never have them.
func (n *node) settle() {
	n.t.Helper()
	for _, m := range n.cluster.View().Members() {
		runs := m.Name == "n1" || slices.ContainsFunc(n.peers, func(c *cluster.Cluster) bool { return c.Self() == m.Name })
		if (m.State == ring.Active || m.State == ring.Leaving) && !runs {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, c := range append(n.peers, n.cluster) {
		if err := c.AwaitOwn(ctx); err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *node) close() {
	n.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := errors.Join(n.front.Close(ctx), n.cluster.Close()); err != nil {
		n.t.Errorf("closing: %v", err)
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// reply is an HTTP answer read to its end.
type reply struct {
	line   string // "200 OK"
	status int
	header http.Header
	body   string
	closes bool // it says that the connection ends with it
}

func (n *node) send(method, url, body string) reply {
	n.t.Helper()
	req, err := http.NewRequest(method, "http://"+url, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	resp, err := n.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	return readReply(n.t, resp)
}

func readReply(t testing.TB, resp *http.Response) reply {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.Status, resp.StatusCode, resp.Header, string(body), resp.Close}
}

// decide posts a body, wants HTTP 200 and returns the answer as it was sent.
func (n *node) decide(body string) string {
	n.t.Helper()
	r := n.send("POST", n.api+"/v1/decide", body)
	if r.status != http.StatusOK {
		n.t.Fatalf("%.200s: HTTP %d: %s", body, r.status, r.body)
	}
	return r.body
}

// connection is one to a listener, spoken to byte by byte.
type connection struct {
	net.Conn
	t      testing.TB
	reader *bufio.Reader
}

func dial(t testing.TB, address string) *connection {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	// A bound, so that a fault ends the test.
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &connection{conn, t, bufio.NewReader(conn)}
}

// write sends the bytes. A server that has seen enough may close before it has
// read all of them, so an error alone is no fault.
func (c *connection) write(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Logf("writing: %v", err)
	}
}

// read returns the next answer.
func (c *connection) read() reply {
	c.t.Helper()
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return readReply(c.t, resp)
}

// ended reports whether the server has closed the connection behind its answer.
func (c *connection) ended() bool {
	_, err := c.reader.ReadByte()
	var network net.Error
	return err != nil && !(errors.As(err, &network) && network.Timeout())
}

// journal is a log that tests read.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// parse reads JSON strictly, as a client might.
func parse[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %.500s", err, text)
	}
	return v
}
