package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
	"weir/rpc"
)

// Ensure that a request arrives as it was made, from whom it was made, and its
// reply comes back.
func TestDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		lockout := mustRule(t, leaky.Lockout, 5, time.Hour)
		bucket := mustRule(t, leaky.Bucket, 60, 10*time.Second)
		MustServe(t, n.listen("b"), rpc.Config{}, handlerFunc(func(_ context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
			if peer != nodeA {
				t.Errorf("peer is %+v", peer)
			}
			want := fmt.Sprint(rpc.DecideRequest{Hop: 2, Peek: false, Sequences: [][]leaky.Check{
				{{Partition: 3, Fingerprint: 4, Rule: bucket, Cost: 5}, {Partition: 6, Fingerprint: 7, Rule: lockout}},
				{{Partition: 8, Fingerprint: 9, Rule: bucket, Cost: 1}},
			}})
			if got := fmt.Sprint(*req); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			o := reply.Add()
			o.Results = append(o.Results, leaky.Result{RetryAfter: time.Second, ResetAfter: time.Minute})
			o = reply.Add()
			o.NotOwner, o.Owner = true, "c"
			return nil
		}))
		client := NewClient(t, n, rpc.Config{})
		reply, err := client.Decide(after(t, time.Second), &rpc.DecideRequest{Hop: 2, Sequences: [][]leaky.Check{
			{{Partition: 3, Fingerprint: 4, Rule: bucket, Cost: 5}, {Partition: 6, Fingerprint: 7, Rule: lockout}},
			{{Partition: 8, Fingerprint: 9, Rule: bucket, Cost: 1}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint([]rpc.Outcome{
			{Results: []leaky.Result{{RetryAfter: time.Second, ResetAfter: time.Minute}}},
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
		n := newMemnet()
		MustServe(t, n.listen("b"), rpc.Config{}, echo)
		client := NewClient(t, n, rpc.Config{})
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
	})
}

// Ensure that many callers share one connection, and each gets its own reply.
func TestPipelining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		n.there, n.back = time.Millisecond, 3*time.Millisecond
		stats := new(rpc.Stats)
		MustServe(t, n.listen("b"), rpc.Config{Stats: stats}, echo)
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
		n := newMemnet()
		listener := n.listen("b")
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

// Ensure that a reply that does not fit its request is an error.
func TestReplyMustAnswer(t *testing.T) {
	refused, allowed := leaky.Result{}, leaky.Result{Allowed: true}
	two := func(t *testing.T, peek bool) *rpc.DecideRequest {
		req := request(t, 1)
		req.Sequences[0] = append(req.Sequences[0], req.Sequences[0][0])
		req.Peek = peek
		return req
	}
	tests := []struct {
		name     string
		peek     bool
		outcomes []rpc.Outcome
		good     bool
	}{
		{"all", false, []rpc.Outcome{{Results: []leaky.Result{allowed, refused}}}, true},
		{"until refusal", false, []rpc.Outcome{{Results: []leaky.Result{refused}}}, true},
		{"not owner", false, []rpc.Outcome{{NotOwner: true}}, true},
		{"peek needs all", true, []rpc.Outcome{{Results: []leaky.Result{refused}}}, false},
		{"cut short", false, []rpc.Outcome{{Results: []leaky.Result{allowed}}}, false},
		{"nothing decided", false, []rpc.Outcome{{}}, false},
		{"not owner decides", false, []rpc.Outcome{{NotOwner: true, Results: []leaky.Result{refused}}}, false},
		{"no outcome", false, nil, false},
		{"two outcomes", false, make([]rpc.Outcome, 2), false},
		{"three results", false, []rpc.Outcome{{Results: []leaky.Result{allowed, allowed, allowed}}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newMemnet()
				listener := n.listen("b")
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
				_, err := client.Decide(after(t, time.Second), two(t, tt.peek))
				if !tt.good {
					wantCode(t, err, rpc.CodeInvalid)
				} else if err != nil {
					t.Error(err)
				}
				synctest.Wait()

				// The server holds its handler to the same.
				MustServe(t, n.listen("b2"), rpc.Config{}, handlerFunc(func(_ context.Context, _ rpc.Identity, _ *rpc.DecideRequest, reply *rpc.DecideReply) error {
					reply.Outcomes = tt.outcomes
					return nil
				}))
				other := rpc.NewClient(rpc.Config{Self: nodeA, Dial: n.dial}, nodeB, "b2")
				defer other.Close()
				_, err = other.Decide(after(t, time.Second), two(t, tt.peek))
				if !tt.good {
					wantCode(t, err, rpc.CodeInternal)
				} else if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Ensure that a request out of bounds is refused before anything is sent.
func TestRequestBounds(t *testing.T) {
	client := rpc.NewClient(rpc.Config{Self: nodeA, Dial: func(context.Context, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, errRefused
	}}, nodeB, "b")
	defer client.Close()
	edit := func(f func(*rpc.DecideRequest)) *rpc.DecideRequest {
		req := request(t, 1)
		f(req)
		return req
	}
	for name, req := range map[string]*rpc.DecideRequest{
		"fingerprint 0":  edit(func(r *rpc.DecideRequest) { r.Sequences[0][0].Fingerprint = 0 }),
		"negative cost":  edit(func(r *rpc.DecideRequest) { r.Sequences[0][0].Cost = -1 }),
		"zero rule":      edit(func(r *rpc.DecideRequest) { r.Sequences[0][0].Rule = leaky.Rule{} }),
		"empty sequence": edit(func(r *rpc.DecideRequest) { r.Sequences = append(r.Sequences, nil) }),
		"8193 checks": edit(func(r *rpc.DecideRequest) {
			for len(r.Sequences[0]) <= 8192 {
				r.Sequences[0] = append(r.Sequences[0], r.Sequences[0][0])
			}
		}),
		"2049 sequences": edit(func(r *rpc.DecideRequest) {
			for len(r.Sequences) <= 2048 {
				r.Sequences = append(r.Sequences, r.Sequences[0])
			}
		}),
	} {
		_, err := client.Decide(t.Context(), req)
		if e := wantCode(t, err, rpc.CodeInvalid); e.Sent {
			t.Errorf("%s: said to be sent", name)
		}
	}
}

// Ensure that calls beyond the cap fail at once, and those within are
// unharmed.
func TestInFlightCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		gate := make(chan struct{})
		MustServe(t, n.listen("b"), rpc.Config{}, handlerFunc(func(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
			<-gate
			return echo(ctx, peer, req, reply)
		}))
		client := NewClient(t, n, rpc.Config{MaxInFlight: 3})
		var callers sync.WaitGroup
		for i := range uint32(3) {
			callers.Go(func() { wantEcho(t, client, i) })
		}
		synctest.Wait()
		began := time.Now()
		_, err := client.Decide(after(t, time.Second), request(t, 9))
		if e := wantCode(t, err, rpc.CodeOverloaded); e.Sent || !errors.Is(err, rpc.CodeOverloaded) {
			t.Errorf("got %+v", e)
		}
		if !time.Now().Equal(began) {
			t.Error("the refusal took time")
		}
		close(gate)
		callers.Wait()
		wantEcho(t, client, 9)
	})
}

// Ensure that calls end with their context, whatever they wait for.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		gate := make(chan struct{})
		defer close(gate)
		MustServe(t, n.listen("b"), rpc.Config{}, handlerFunc(func(context.Context, rpc.Identity, *rpc.DecideRequest, *rpc.DecideReply) error {
			<-gate
			return nil
		}))
		client := NewClient(t, n, rpc.Config{})
		call := func(ctx context.Context, want time.Duration) error {
			began := time.Now()
			_, err := client.Decide(ctx, request(t, 1))
			if took := time.Since(began); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
			return err
		}
		err := call(after(t, 100*time.Millisecond), 100*time.Millisecond)
		if e := wantCode(t, err, rpc.CodeTimeout); !e.Sent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %+v", e)
		}
		err = call(context.Background(), rpc.DefaultTimeout)
		wantCode(t, err, rpc.CodeTimeout)

		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		cancel()
		err = call(ctx, 0)
		if e := wantCode(t, err, rpc.CodeCanceled); e.Sent || !errors.Is(err, context.Canceled) {
			t.Errorf("got %+v", e)
		}
	})
}

// Ensure that a caller does not wait longer than it may for a dial, and that
// the dial goes on for the others.
func TestSlowDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		MustServe(t, n.listen("b"), rpc.Config{}, echo)
		var dials atomic.Int32
		client := rpc.NewClient(rpc.Config{Self: nodeA, Dial: func(ctx context.Context, address string) (net.Conn, error) {
			dials.Add(1)
			time.Sleep(300 * time.Millisecond) // virtual
			return n.dial(ctx, address)
		}}, nodeB, "b")
		defer client.Close()
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() { wantEcho(t, client, 5) })
		}
		_, err := client.Decide(after(t, 100*time.Millisecond), request(t, 1))
		if e := wantCode(t, err, rpc.CodeTimeout); e.Sent {
			t.Error("said to be sent")
		}
		callers.Wait()
		if got := dials.Load(); got != 1 {
			t.Errorf("%d dials", got)
		}
	})
}

// Ensure that calls in flight fail at once when the connection is lost, and
// that the next one finds the server that was started again.
func TestServerKilledAndRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		gate := make(chan struct{})
		server := MustServe(t, n.listen("b"), rpc.Config{}, handlerFunc(func(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
			if req.Hop == 1 {
				<-gate
			}
			return echo(ctx, peer, req, reply)
		}))
		client := NewClient(t, n, rpc.Config{})
		wantEcho(t, client, 1)
		began := time.Now()
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() {
				req := request(t, 1)
				req.Hop = 1
				_, err := client.Decide(after(t, time.Hour), req)
				if e := wantCode(t, err, rpc.CodeUnavailable); !e.Sent || e.Remote {
					t.Errorf("got %+v", e)
				}
			})
		}
		synctest.Wait()
		n.cut()
		callers.Wait()
		if !time.Now().Equal(began) {
			t.Errorf("failed only after %v", time.Since(began))
		}
		if _, _, ok := client.Offset(); ok {
			t.Error("an offset without a connection")
		}
		close(gate)
		server.Close()

		_, err := client.Decide(after(t, time.Second), request(t, 1))
		if e := wantCode(t, err, rpc.CodeUnavailable); e.Sent || !errors.Is(err, errRefused) {
			t.Errorf("got %+v", e)
		}
		MustServe(t, n.listen("b"), rpc.Config{}, echo)
		_, err = client.Decide(after(t, time.Second), request(t, 1))
		wantCode(t, err, rpc.CodeUnavailable) // backing off
		time.Sleep(50 * time.Millisecond)     // virtual
		wantEcho(t, client, 2)
	})
}

// Ensure that a dead address is dialled at most once per back-off, and that
// calls meanwhile take no time; and that a connection that worked makes it
// short again.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		n := newMemnet()
		client := rpc.NewClient(rpc.Config{Self: nodeA, Dial: func(ctx context.Context, address string) (net.Conn, error) {
			at = append(at, time.Since(began))
			return n.dial(ctx, address)
		}}, nodeB, "b")
		defer client.Close()
		for time.Since(began) < 4*time.Second {
			_, err := client.Decide(after(t, time.Second), request(t, 1))
			wantCode(t, err, rpc.CodeUnavailable)
			time.Sleep(time.Millisecond) // virtual
		}
		want := "[0s 50ms 150ms 350ms 750ms 1.55s 2.55s 3.55s]"
		if got := fmt.Sprint(at); got != want {
			t.Errorf("dialled at %s, want %s", got, want)
		}

		server := MustServe(t, n.listen("b"), rpc.Config{}, echo)
		time.Sleep(time.Second) // virtual
		wantEcho(t, client, 1)
		server.Close()
		synctest.Wait()
		at, began = nil, time.Now()
		for time.Since(began) < 200*time.Millisecond {
			_, err := client.Decide(after(t, time.Second), request(t, 1))
			wantCode(t, err, rpc.CodeUnavailable)
			time.Sleep(time.Millisecond) // virtual
		}
		if got, want := fmt.Sprint(at), "[0s 50ms 150ms]"; got != want {
			t.Errorf("then dialled at %s, want %s", got, want)
		}
	})
}

// Ensure that a connection that no longer carries anything is given up, though
// TCP does not say so.
func TestStalledConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		hang := make(chan struct{})
		stats := new(rpc.Stats)
		MustServe(t, n.listen("b"), rpc.Config{}, handlerFunc(func(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
			if req.Hop == 1 {
				<-hang
			}
			return echo(ctx, peer, req, reply)
		}))
		defer close(hang)
		client := NewClient(t, n, rpc.Config{Stats: stats})
		wantEcho(t, client, 1)
		time.Sleep(time.Hour) // virtual: idleness is not silence
		first := request(t, 1)
		first.Hop = 1
		began := time.Now()
		_, err := client.Decide(after(t, 100*time.Millisecond), first)
		wantCode(t, err, rpc.CodeTimeout)
		for rpc.CodeOf(err) == rpc.CodeTimeout {
			if time.Since(began) > 3*time.Second {
				t.Fatal("the connection is still in use")
			}
			_, err = client.Decide(after(t, 100*time.Millisecond), request(t, 2))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began); got != 2*time.Second {
			t.Errorf("given up after %v, want 2s", got)
		}
		if got := stats.Connected.Load(); got != 2 {
			t.Errorf("%d connections", got)
		}
	})
}

// Ensure that Close may come at any time and from anywhere, and fails what
// waits.
func TestClientClose(t *testing.T) {
	for _, state := range []string{"idle", "dialling", "greeting", "calling"} {
		t.Run(state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newMemnet()
				hang := make(chan struct{})
				cfg := rpc.Config{Self: nodeA, Dial: n.dial}
				switch state {
				case "dialling":
					cfg.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					}
				case "greeting":
					defer n.listen("b").Close()
				case "calling":
					MustServe(t, n.listen("b"), rpc.Config{}, handlerFunc(func(context.Context, rpc.Identity, *rpc.DecideRequest, *rpc.DecideReply) error {
						<-hang
						return nil
					}))
					defer close(hang)
				}
				client := rpc.NewClient(cfg, nodeB, "b")
				began := time.Now()
				var others sync.WaitGroup
				if state != "idle" {
					for range 4 {
						others.Go(func() {
							_, err := client.Decide(after(t, time.Hour), request(t, 1))
							wantCode(t, err, rpc.CodeUnavailable)
						})
					}
				}
				synctest.Wait()
				for range 3 {
					others.Go(func() {
						if err := client.Close(); err != nil {
							t.Error(err)
						}
					})
				}
				others.Wait()
				_, err := client.Decide(after(t, time.Second), request(t, 1))
				wantCode(t, err, rpc.CodeUnavailable)
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("got %v", err)
				}
				if !time.Now().Equal(began) {
					t.Errorf("took %v", time.Since(began))
				}
			})
		})
	}
}
