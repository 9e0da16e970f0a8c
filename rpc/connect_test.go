package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/ring/fabric"
	"weir/rpc"
)

// Ensure that a caller does not wait longer than it may for a dial, and that
// the dial goes on for the others.
func TestSlowDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		MustServe(t, n.Listen("b"), rpc.Config{}, echo)
		var dials atomic.Int32
		client := rpc.NewClient(rpc.Config{Self: nodeA, Dial: func(ctx context.Context, address string) (net.Conn, error) {
			dials.Add(1)
			time.Sleep(300 * time.Millisecond) // virtual
			return n.Dialer("a")(ctx, address)
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
		n := fabric.New()
		gate := make(chan struct{})
		server := MustServe(t, n.Listen("b"), rpc.Config{}, handlerFunc(func(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
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
		n.Reset()
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
		if e := wantCode(t, err, rpc.CodeUnavailable); e.Sent || !errors.Is(err, fabric.ErrRefused) {
			t.Errorf("got %+v", e)
		}
		MustServe(t, n.Listen("b"), rpc.Config{}, echo)
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
		n := fabric.New()
		client := rpc.NewClient(rpc.Config{Self: nodeA, Dial: func(ctx context.Context, address string) (net.Conn, error) {
			at = append(at, time.Since(began))
			return n.Dialer("a")(ctx, address)
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

		server := MustServe(t, n.Listen("b"), rpc.Config{}, echo)
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
		n := fabric.New()
		hang := make(chan struct{})
		stats := new(rpc.Stats)
		MustServe(t, n.Listen("b"), rpc.Config{}, handlerFunc(func(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
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
		if connected, broken := stats.Connected.Load(), stats.Broken.Load(); connected != 2 || broken != 1 {
			t.Errorf("%d connections, %d broken", connected, broken)
		}
	})
}

// Ensure that a peer is given up when it has said nothing for 2 s since a call
// gave up on it, and that an answer to another call makes good what was before.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		listener := n.Listen("b")
		defer listener.Close()
		stats := new(rpc.Stats)
		client := NewClient(t, n, rpc.Config{Stats: stats})
		var callers sync.WaitGroup
		ask := func(timeout time.Duration, want error) {
			if _, err := client.Decide(after(t, timeout), &rpc.DecideRequest{}); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		callers.Go(func() { ask(time.Hour, nil) })
		nc, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		peer := &raw{t, nc}
		peer.frame()
		peer.send(rpc.EncodeHello(nodeB, rpc.Identity{}, 0)...)
		peer.frame()
		callers.Go(func() { ask(time.Second, rpc.CodeTimeout) })
		time.Sleep(500 * time.Millisecond) // virtual
		peer.send(rpc.EncodeReply(1, 0, &rpc.DecideReply{})...)
		callers.Wait()
		time.Sleep(time.Second) // virtual
		ask(time.Second-time.Nanosecond, rpc.CodeTimeout)
		if got := stats.Broken.Load(); got != 0 {
			t.Errorf("given up too early")
		}
		ask(time.Nanosecond, rpc.CodeTimeout)
		if got := stats.Broken.Load(); got != 1 {
			t.Errorf("not given up")
		}
	})
}

// Ensure that Close may come at any time and from anywhere, and fails what
// waits.
func TestClientClose(t *testing.T) {
	for _, state := range []string{"idle", "dialling", "connected too late", "greeting", "calling"} {
		t.Run(state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				hang := make(chan struct{})
				cfg := rpc.Config{Self: nodeA, Dial: n.Dialer("a")}
				switch state {
				case "dialling":
					cfg.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					}
				case "connected too late":
					listener := n.Listen("b")
					cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
						<-ctx.Done()
						return n.Dialer("a")(context.Background(), address)
					}
					defer func() {
						nc, err := listener.Accept()
						if err != nil {
							t.Fatal(err)
						}
						if _, err := nc.Read(make([]byte, 1)); err != io.EOF {
							t.Errorf("the connection is not closed: %v", err)
						}
						listener.Close()
					}()
				case "greeting":
					defer n.Listen("b").Close()
				case "calling":
					MustServe(t, n.Listen("b"), rpc.Config{}, handlerFunc(func(context.Context, rpc.Identity, *rpc.DecideRequest, *rpc.DecideReply) error {
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
