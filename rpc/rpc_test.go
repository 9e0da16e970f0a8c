package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/leaky"
	"weir/ring/fabric"
	"weir/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// a and b are two nodes of one cluster.
var (
	nodeA = rpc.Identity{Name: "a", Boot: 11, Label: "test", Format: 1}
	nodeB = rpc.Identity{Name: "b", Boot: 22, Label: "test", Format: 1}
)

type later = func(ctx context.Context, reply *rpc.DecideReply) error

type handlerFunc func(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error

func (f handlerFunc) Decide(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) (later, error) {
	return nil, f(ctx, peer, req, reply)
}

func (f handlerFunc) Receive(rpc.Identity, []rpc.Message) {}

func (f handlerFunc) Status() rpc.Status { return rpc.Status{LiveBuckets: 123_456} }

// echo allows every check and says its partition as remaining.
var echo = handlerFunc(func(_ context.Context, _ rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
	for _, seq := range req.Sequences {
		o := reply.Add()
		for _, c := range seq {
			o.Results = append(o.Results, leaky.Result{Allowed: true, Remaining: int64(c.Partition)})
		}
	}
	return nil
})

func mustRule(tb testing.TB, kind leaky.Kind, limit int64, window time.Duration) leaky.Rule {
	tb.Helper()
	rule, err := leaky.NewRule(kind, limit, window)
	if err != nil {
		tb.Fatal(err)
	}
	return rule
}

// request asks one check of the partition.
func request(tb testing.TB, partition uint32) *rpc.DecideRequest {
	tb.Helper()
	rule := mustRule(tb, leaky.Bucket, 60, 10*time.Second)
	return &rpc.DecideRequest{Sequences: [][]leaky.Check{{{Partition: partition, Fingerprint: 1, Rule: rule, Cost: 1}}}}
}

// MustServe serves as b at the address until the test ends or the server is
// closed.
func MustServe(tb testing.TB, listener net.Listener, cfg rpc.Config, handler rpc.Handler) *rpc.Server {
	tb.Helper()
	if cfg.Self == (rpc.Identity{}) {
		cfg.Self = nodeB
	}
	server := rpc.NewServer(cfg, handler)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	tb.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			tb.Errorf("Serve: %v", err)
		}
	})
	return server
}

// NewClient returns a's client of b at address "b".
func NewClient(tb testing.TB, n *fabric.Network, cfg rpc.Config) *rpc.Client {
	tb.Helper()
	if cfg.Self == (rpc.Identity{}) {
		cfg.Self = nodeA
	}
	cfg.Dial = n.Dialer("a")
	client := rpc.NewClient(cfg, nodeB, "b")
	tb.Cleanup(func() { client.Close() })
	return client
}

// after is a context with a deadline, released with the test.
func after(tb testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	tb.Cleanup(cancel)
	return ctx
}

// wantCode wants an *rpc.Error of the code and returns it.
func wantCode(tb testing.TB, err error, want rpc.Code) *rpc.Error {
	tb.Helper()
	e, ok := err.(*rpc.Error)
	if !ok || e.Code != want {
		tb.Errorf("got error %v, want code %v", err, want)
		return new(rpc.Error)
	}
	return e
}

// wantEcho asks the partition and wants it echoed.
func wantEcho(tb testing.TB, client *rpc.Client, partition uint32) {
	tb.Helper()
	reply, err := client.Decide(after(tb, 10*time.Second), request(tb, partition))
	if err != nil {
		tb.Error(err)
		return
	}
	if got := reply.Outcomes[0].Results[0].Remaining; got != int64(partition) {
		tb.Errorf("partition %d was answered as %d", partition, got)
	}
}

// journal is a log that can be read.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

// logger logs lines without the time.
func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// want wants these lines to have been logged since it was called last, each with
// the level WARN, which is left out.
func (j *journal) want(tb testing.TB, lines ...string) {
	tb.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	var got []string
	for line := range strings.Lines(j.buf.String()) {
		got = append(got, strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "level=WARN "))
	}
	if !slices.Equal(got, lines) {
		tb.Errorf("log:\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(lines, "\n     "))
	}
	j.buf.Reset()
}

// delays is that of a network on which what a sends is under way for there, and
// what it is sent for back.
func delays(there, back time.Duration) func(from, to string) time.Duration {
	return func(from, _ string) time.Duration {
		if from == "a" {
			return there
		}
		return back
	}
}

// raw is a peer that speaks bytes.
type raw struct {
	tb testing.TB
	net.Conn
}

func dialRaw(tb testing.TB, n *fabric.Network) *raw {
	tb.Helper()
	nc, err := n.Dialer("a")(context.Background(), "b")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { nc.Close() })
	return &raw{tb, nc}
}

func (r *raw) send(p ...byte) {
	r.tb.Helper()
	if _, err := r.Write(p); err != nil {
		r.tb.Fatal(err)
	}
}

// frame reads one frame and returns its contents.
func (r *raw) frame() []byte {
	r.tb.Helper()
	var length [4]byte
	r.full(length[:])
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	r.full(frame)
	return frame
}

func (r *raw) full(p []byte) {
	r.tb.Helper()
	for len(p) > 0 {
		n, err := r.Read(p)
		if err != nil {
			r.tb.Fatal(err)
		}
		p = p[n:]
	}
}

// greet does the client's handshake as a.
func (r *raw) greet() {
	r.tb.Helper()
	r.send(rpc.EncodeHello(nodeA, nodeB, 0)...)
	if _, _, _, err := rpc.DecodeHello(r.frame()); err != nil {
		r.tb.Fatal(err)
	}
}
