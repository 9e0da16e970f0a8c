package httpfront

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/cluster"
	"weir/ring"
)

// The owner is asked and answers: nothing is degraded, and the counters tell
// where each stage went.
func TestOwnerElsewhereAnswers(t *testing.T) {
	n := start(t, together("deny"))
	near, far, farMail := n.account("n1"), n.account("n2"), n.email("n2")
	const allowed = `{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[` + callerStage + `]}`
	same(t, "elsewhere", n.decide(plainOf(far, "")), allowed)
	same(t, "here", n.decide(plainOf(near, "")), allowed)
	same(t, "both", n.decide(mailOf(near, farMail)),
		`{"allowed":true,"headers":{`+plainHeaders+`},"effects":[],"degraded":false,"buckets":[`+callerStage+`,`+emailStage+`]}`)
	same(t, "degraded", n.degraded(), "")
	metrics := n.send("GET", n.admin+"/metrics", "").body
	for _, want := range []string{`weir_calls_total{path="local"} 2`, `weir_calls_total{path="forwarded"} 2`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestReasonTimeout(t *testing.T) {
	s := together("deny")
	var lost atomic.Bool
	s.change = func(c *cluster.Config) {
		c.ForwardTimeout = time.Millisecond
		dial := c.RPC.Dial
		c.RPC.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			if lost.Load() {
				<-ctx.Done() // it never gets through
				return nil, ctx.Err()
			}
			return dial(ctx, address)
		}
	}
	n := start(t, s)
	lost.Store(true)
	n.wires.cut()
	same(t, "answer", n.decide(plainOf(n.account("n2"), "")), denied)
	same(t, "counted", n.degraded(), "timeout=1")
}

// The owner runs, but sees another member in its place, whom n1 does not know.
func TestReasonNotOwner(t *testing.T) {
	s := together("deny")
	s.peers = nil
	n := start(t, s)
	n.peer("n2", []ring.Member{member("n3", ring.Active)})
	same(t, "answer", n.decide(plainOf(n.account("n2"), "")), denied)
	same(t, "counted", n.degraded(), "not_owner=1")
}

// heldConn holds back what it reads, from the time it is armed until goOn.
type heldConn struct {
	net.Conn
	armed *atomic.Bool
	sent  func() // called once something was written while armed
	goOn  <-chan struct{}
}

func (c *heldConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	const request = 3 // the kind of a frame, behind its length and an array's
	if c.armed.Load() && len(p) > 30 && p[5] == request {
		c.sent()
	}
	return n, err
}

func (c *heldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.armed.Load() {
		<-c.goOn
	}
	return n, err
}

func TestReasonOverloaded(t *testing.T) {
	s := together("deny")
	var armed atomic.Bool
	sent, goOn := make(chan struct{}), make(chan struct{})
	release, once := sync.OnceFunc(func() { close(goOn) }), sync.OnceFunc(func() { close(sent) })
	s.change = func(c *cluster.Config) {
		c.RPC.MaxInFlight = 1
		dial := c.RPC.Dial
		c.RPC.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dial(ctx, address)
			if err != nil {
				return nil, err
			}
			return &heldConn{conn, &armed, once, goOn}, nil
		}
	}
	n := start(t, s)
	t.Cleanup(release)
	far := n.account("n2")
	n.decide(plainOf(far, "")) // connects
	armed.Store(true)
	waiting := make(chan string, 1)
	go func() {
		a := n.front.decide(&request{context: context.Background(), body: []byte(plainOf(far, ""))})
		waiting <- string(a.body)
	}()
	<-sent
	same(t, "while one waits", n.decide(plainOf(far, "")), denied)
	release()
	same(t, "who waited", <-waiting,
		`{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[`+
			`{"bucket":"global","allowed":true,"limit":50,"remaining":48,"retry_after":0,"reset_after":0.04},`+
			`{"bucket":"plain","allowed":true,"limit":2,"remaining":0,"retry_after":0,"reset_after":10}]}`)
	same(t, "counted", n.degraded(), "overloaded=1")
}

// Each element of an array says for itself whether it was degraded.
func TestUnreachableInArrays(t *testing.T) {
	for onUnreachable, far := range map[string]string{
		"deny":  denied,
		"allow": waved,
		"local": `{"allowed":true,"headers":{},"effects":[],"degraded":true,"buckets":[` + callerStage + `]}`,
	} {
		n := start(t, ofTwo(onUnreachable))
		same(t, onUnreachable, n.decide("["+plainOf(n.account("n2"), "")+",{},"+plainOf(n.account("n1"), "")+"]"),
			"["+far+`,{"error":{"type":"about:blank","title":"Bad Request","status":400,"detail":"give a route, or buckets","field":"route"}},`+
				`{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[`+callerStage+`]}]`)
		same(t, onUnreachable, n.degraded(), "unavailable=1")
	}
}
