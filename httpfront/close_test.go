package httpfront

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A front that is closed before its goroutines have begun to serve ends all the
// same.
func TestCloseRightAfterServe(t *testing.T) {
	for range 30 {
		n := newFront(t, setup{rules: oneBucket, notReady: true})
		api, admin := listen(t), listen(t)
		n.front.Serve(api, admin)
		if err := n.front.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := api.Accept(); err == nil {
			t.Fatal("the API listener is open still")
		}
		if _, err := admin.Accept(); err == nil {
			t.Fatal("the admin listener is open still")
		}
	}
}

func TestCloseOfAFrontThatNeverServed(t *testing.T) {
	n := newFront(t, setup{rules: oneBucket})
	for range 2 {
		if err := n.front.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// begin sends the head of a request and returns once the server waits for its
// body.
func (c *connection) begin(method, path, length string) {
	c.t.Helper()
	c.write(method + " " + path + " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: " + length + "\r\n\r\n")
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
	got := make([]byte, len(goOn))
	if _, err := io.ReadFull(c.reader, got); err != nil || string(got) != goOn {
		c.t.Fatalf("%q %v", got, err)
	}
}

// Whoever is slow is cut off when the context ends, and a while later without
// that: then nothing of the front runs any more.
func TestCloseCutsOffTheSlow(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		want error
	}{{ended, context.Canceled}, {context.Background(), nil}} {
		before := goleak.IgnoreCurrent()
		n := newFront(t, setup{rules: oneBucket})
		api, admin := listen(t), listen(t)
		n.front.Serve(api, admin)
		slow := []*connection{dial(t, api.Addr().String()), dial(t, admin.Addr().String())}
		for _, c := range slow {
			c.begin("GET", "/healthz", "9")
		}
		err := n.front.Close(c.ctx)
		if !errors.Is(err, c.want) || err != nil && !strings.HasPrefix(err.Error(), "httpfront: close: ") {
			t.Errorf("closing says %v, want %v", err, c.want)
		}
		goleak.VerifyNone(t, before)
		for i, c := range slow {
			if answer, _ := io.ReadAll(c.reader); len(answer) > 0 {
				t.Errorf("connection %d: %q", i, answer)
			}
		}
	}
}

// What is under way when the front closes is answered.
func TestCloseLetsRequestsEnd(t *testing.T) {
	n := newFront(t, setup{rules: oneBucket})
	api, admin := listen(t), listen(t)
	n.front.Serve(api, admin)
	const body = `{"route":"GET /plain","caller":{"account":"1"}}`
	c := dial(t, api.Addr().String())
	c.begin("POST", "/v1/decide", "47")

	var closing sync.WaitGroup
	closing.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := n.front.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	// The front takes nobody any more.
	for {
		other, err := net.Dial("tcp", api.Addr().String())
		if err != nil {
			break
		}
		other.Close()
	}
	c.write(body)
	r := c.read()
	same(t, "under way", r.status, 200)
	same(t, "under way", r.closes, true)
	if !strings.HasPrefix(r.body, `{"allowed":true,`) {
		t.Errorf("under way: %s", r.body)
	}
	closing.Wait()
}
