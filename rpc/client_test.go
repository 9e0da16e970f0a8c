package rpc_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
	"weir/ring/fabric"
	"weir/rpc"
)

// Ensure that a request arrives as it was made, from whom it was made, and its
// reply comes back.
func TestDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		lockout := mustRule(t, leaky.Lockout, 5, time.Hour)
		bucket := mustRule(t, leaky.Bucket, 60, 10*time.Second)
		MustServe(t, n.Listen("b"), rpc.Config{}, handlerFunc(func(_ context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
			if peer != nodeA {
				t.Errorf("peer is %+v", peer)
			}
			want := fmt.Sprint(rpc.DecideRequest{Hop: 2, Mode: leaky.Lowering, Failed: rpc.Node{Name: "c", Boot: 33}, Sequences: [][]leaky.Check{
				{{Partition: 3, Fingerprint: 4, Rule: bucket, Cost: 5}, {Partition: 6, Fingerprint: 7, Rule: lockout}},
				{{Partition: 8, Fingerprint: 9, Rule: bucket, Cost: 1}},
			}})
			if got := fmt.Sprint(*req); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			o := reply.Add()
			o.Degraded = true
			o.Results = append(o.Results, leaky.Result{RetryAfter: time.Second, ResetAfter: time.Minute}, leaky.Result{Allowed: true})
			o = reply.Add()
			o.NotOwner, o.Owner = true, "c"
			return nil
		}))
		client := NewClient(t, n, rpc.Config{})
		reply, err := client.Decide(after(t, time.Second), &rpc.DecideRequest{Hop: 2, Mode: leaky.Lowering, Failed: rpc.Node{Name: "c", Boot: 33}, Sequences: [][]leaky.Check{
			{{Partition: 3, Fingerprint: 4, Rule: bucket, Cost: 5}, {Partition: 6, Fingerprint: 7, Rule: lockout}},
			{{Partition: 8, Fingerprint: 9, Rule: bucket, Cost: 1}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint([]rpc.Outcome{
			{Degraded: true, Results: []leaky.Result{{RetryAfter: time.Second, ResetAfter: time.Minute}, {Allowed: true}}},
			{NotOwner: true, Owner: "c"},
		})
		if got := fmt.Sprint(reply.Outcomes); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// Ensure that a node's status and its decisions come over one connection, in
// any order.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		MustServe(t, n.Listen("b"), rpc.Config{}, echo)
		stats := new(rpc.Stats)
		client := NewClient(t, n, rpc.Config{Stats: stats})
		for range 3 {
			if s, err := client.Status(after(t, time.Second)); err != nil || s.LiveBuckets != 123_456 {
				t.Errorf("got %+v, %v", s, err)
			}
			if _, err := client.Decide(after(t, time.Second), request(t, 1)); err != nil {
				t.Error(err)
			}
		}
		client.Close()
		_, err := client.Status(after(t, time.Second))
		wantCode(t, err, rpc.CodeUnavailable)
		if answered, failed := stats.Answered.Load(), stats.Errors(rpc.CodeUnavailable); answered != 6 || failed != 1 {
			t.Errorf("%d answered, %d failed", answered, failed)
		}
		if connected, broken := stats.Connected.Load(), stats.Broken.Load(); connected != 1 || broken != 0 {
			t.Errorf("%d connections, %d broken", connected, broken)
		}
	})
}

// Ensure that many callers share one connection, and each gets its own reply.
func TestPipelining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		n.Delay = delays(time.Millisecond, 3*time.Millisecond)
		stats := new(rpc.Stats)
		MustServe(t, n.Listen("b"), rpc.Config{Stats: stats}, echo)
		client := NewClient(t, n, rpc.Config{Stats: stats})
		var callers sync.WaitGroup
		for i := range uint32(64) {
			callers.Go(func() {
				for j := range uint32(20) {
					wantEcho(t, client, i<<16|j)
				}
			})
		}
		callers.Wait()
		if got := stats.Accepted.Load(); got != 1 {
			t.Errorf("%d connections", got)
		}
		if got := stats.Served.Load(); got != 64*20 {
			t.Errorf("%d requests served", got)
		}
		if got := stats.Answered.Load(); got != 64*20 {
			t.Errorf("%d calls answered", got)
		}
	})
}

// Ensure that replies find their calls in whatever order they come, that one
// whose call gave up is dropped, and one that nobody asked for ends the
// connection.
func TestRepliesInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		listener := n.Listen("b")
		defer listener.Close()
		stats := new(rpc.Stats)
		client := NewClient(t, n, rpc.Config{Stats: stats})

		type answer struct {
			reply *rpc.DecideReply
			err   error
		}
		answers := make([]chan answer, 3)
		timeouts := []time.Duration{time.Second, 10 * time.Millisecond, time.Second}
		for i := range answers {
			answers[i] = make(chan answer, 1)
			ctx := after(t, timeouts[i])
			go func() {
				reply, err := client.Decide(ctx, request(t, uint32(i)))
				answers[i] <- answer{reply, err}
			}()
		}
		nc, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		peer := &raw{t, nc}
		peer.frame()
		peer.send(rpc.EncodeHello(nodeB, rpc.Identity{}, 0)...)
		ids := make(map[uint32]uint64)
		for range answers {
			id, req, err := rpc.DecodeRequest(peer.frame())
			if err != nil {
				t.Fatal(err)
			}
			ids[req.Sequences[0][0].Partition] = id
		}
		time.Sleep(20 * time.Millisecond) // virtual: call 1 gives up
		synctest.Wait()
		wantCode(t, (<-answers[1]).err, rpc.CodeTimeout)
		for _, i := range []uint32{2, 1, 0} {
			peer.send(rpc.EncodeReply(ids[i], 0, &rpc.DecideReply{Outcomes: []rpc.Outcome{
				{Results: []leaky.Result{{Allowed: true, Remaining: int64(i)}}},
			}})...)
			if i == 1 {
				synctest.Wait()
				if got := stats.Late.Load(); got != 1 {
					t.Errorf("%d late replies", got)
				}
				continue
			}
			got := <-answers[i]
			if got.err != nil || got.reply.Outcomes[0].Results[0].Remaining != int64(i) {
				t.Errorf("call %d: %+v", i, got)
			}
		}

		go func() {
			reply, err := client.Decide(after(t, time.Second), request(t, 9))
			answers[0] <- answer{reply, err}
		}()
		peer.frame()
		peer.send(rpc.EncodeReply(1000, 0, &rpc.DecideReply{})...)
		if e := wantCode(t, (<-answers[0]).err, rpc.CodeInvalid); !e.Sent {
			t.Error("not said that the request was sent")
		}
	})
}

// Ensure that a frame that cannot be the answer is an error for its call and the
// end of the connection.
func TestBadAnswer(t *testing.T) {
	decide := func(ctx context.Context, c *rpc.Client) error { _, err := c.Decide(ctx, request(t, 1)); return err }
	status := func(ctx context.Context, c *rpc.Client) error { _, err := c.Status(ctx); return err }
	for _, tt := range []struct {
		name   string
		ask    func(context.Context, *rpc.Client) error
		answer []byte
		want   string
	}{
		{"unknown code", decide, wire(t, "00000006 95 05 01 00 09 a0"), "code: 9 is above 8"},
		{"code 0", decide, wire(t, "00000006 95 05 01 00 00 a0"), "code: is 0"},
		{"status for a request", decide, rpc.EncodeStatus(1, 0, rpc.Status{}), "unexpected kind of frame"},
		{"reply for a status", status, rpc.EncodeReply(1, 0, &rpc.DecideReply{}), "unexpected kind of frame"},
		{"request", decide, rpc.EncodeRequest(1, &rpc.DecideRequest{}), "unexpected kind of frame"},
		{"element too many", status, wire(t, "00000006 95 07 01 00 00 00"), "unexpected kind of frame"},
		{"no array", decide, wire(t, "00000001 01"), "frame: msgpack: invalid code=1 decoding array length"},
		{"id 0", status, rpc.EncodeStatus(0, 0, rpc.Status{}), "reply to a request that was never made"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				listener := n.Listen("b")
				defer listener.Close()
				client := NewClient(t, n, rpc.Config{})
				failed := make(chan error, 1)
				go func() { failed <- tt.ask(after(t, time.Second), client) }()
				nc, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				peer := &raw{t, nc}
				peer.frame()
				peer.send(rpc.EncodeHello(nodeB, rpc.Identity{}, 0)...)
				peer.frame()
				peer.send(tt.answer...)
				e := wantCode(t, <-failed, rpc.CodeInvalid)
				if want := "rpc: b: invalid: bad frame: " + tt.want; e.Error() != want || !e.Sent || e.Remote {
					t.Errorf("got %+v, want %s", e, want)
				}
				if _, err := peer.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("connection: %v", err)
				}
			})
		})
	}
}

// Ensure that a reply that does not fit its request is an error.
func TestReplyMustAnswer(t *testing.T) {
	refused, allowed := leaky.Result{}, leaky.Result{Allowed: true}
	two := func(t *testing.T, mode leaky.Mode) *rpc.DecideRequest {
		req := request(t, 1)
		req.Sequences[0] = append(req.Sequences[0], req.Sequences[0][0])
		req.Mode = mode
		return req
	}
	tests := []struct {
		name     string
		mode     leaky.Mode
		outcomes []rpc.Outcome
		good     bool
	}{
		{"all", leaky.Taking, []rpc.Outcome{{Results: []leaky.Result{allowed, refused}}}, true},
		{"until refusal", leaky.Taking, []rpc.Outcome{{Results: []leaky.Result{refused}}}, true},
		{"not owner", leaky.Taking, []rpc.Outcome{{NotOwner: true}}, true},
		{"peek needs all", leaky.Looking, []rpc.Outcome{{Results: []leaky.Result{refused}}}, false},
		{"lower needs all", leaky.Lowering, []rpc.Outcome{{Results: []leaky.Result{refused}}}, false},
		{"all lowered", leaky.Lowering, []rpc.Outcome{{Results: []leaky.Result{refused, allowed}}}, true},
		{"cut short", leaky.Taking, []rpc.Outcome{{Results: []leaky.Result{allowed}}}, false},
		{"nothing decided", leaky.Taking, []rpc.Outcome{{}}, false},
		{"degraded", leaky.Taking, []rpc.Outcome{{Degraded: true, Results: []leaky.Result{allowed, allowed}}}, true},
		{"not owner decides", leaky.Taking, []rpc.Outcome{{NotOwner: true, Results: []leaky.Result{refused}}}, false},
		{"no outcome", leaky.Taking, nil, false},
		{"two outcomes", leaky.Taking, make([]rpc.Outcome, 2), false},
		{"three results", leaky.Taking, []rpc.Outcome{{Results: []leaky.Result{allowed, allowed, allowed}}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				listener := n.Listen("b")
				defer listener.Close()
				client := NewClient(t, n, rpc.Config{})
				go func() {
					nc, err := listener.Accept()
					if err != nil {
						return
					}
					peer := &raw{t, nc}
					peer.frame()
					peer.send(rpc.EncodeHello(nodeB, rpc.Identity{}, 0)...)
					peer.frame()
					peer.send(rpc.EncodeReply(1, 0, &rpc.DecideReply{Outcomes: tt.outcomes})...)
				}()
				_, err := client.Decide(after(t, time.Second), two(t, tt.mode))
				if !tt.good {
					wantCode(t, err, rpc.CodeInvalid)
				} else if err != nil {
					t.Error(err)
				}
				synctest.Wait()

				// The server holds its handler to the same.
				MustServe(t, n.Listen("b2"), rpc.Config{}, handlerFunc(func(_ context.Context, _ rpc.Identity, _ *rpc.DecideRequest, reply *rpc.DecideReply) error {
					reply.Outcomes = tt.outcomes
					return nil
				}))
				other := rpc.NewClient(rpc.Config{Self: nodeA, Dial: n.Dialer("a")}, nodeB, "b2")
				defer other.Close()
				_, err = other.Decide(after(t, time.Second), two(t, tt.mode))
				if !tt.good {
					wantCode(t, err, rpc.CodeInternal)
				} else if err != nil {
					t.Error(err)
				}
			})
		})
	}
}
