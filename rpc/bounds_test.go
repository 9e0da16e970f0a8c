package rpc_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
	"weir/ring/fabric"
	"weir/rpc"
)

// Ensure that a request out of bounds is refused before anything is sent.
func TestRequestBounds(t *testing.T) {
	client := rpc.NewClient(rpc.Config{Self: nodeA, Dial: func(context.Context, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, fabric.ErrRefused
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
		"unknown mode":   edit(func(r *rpc.DecideRequest) { r.Mode = leaky.TakingAll + 1 }),
		"group":          edit(func(r *rpc.DecideRequest) { r.Sequences[0][0].Groups[1] = 1 }),
		"failed name":    edit(func(r *rpc.DecideRequest) { r.Failed.Name = strings.Repeat("x", 257) }),
		"failed nobody":  edit(func(r *rpc.DecideRequest) { r.Failed.Boot = 1 }),
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
		n := fabric.New()
		gate := make(chan struct{})
		MustServe(t, n.Listen("b"), rpc.Config{}, handlerFunc(func(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
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
		n := fabric.New()
		gate := make(chan struct{})
		defer close(gate)
		MustServe(t, n.Listen("b"), rpc.Config{}, handlerFunc(func(context.Context, rpc.Identity, *rpc.DecideRequest, *rpc.DecideReply) error {
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

		for _, tt := range []struct{ bound, want time.Duration }{{time.Millisecond, time.Millisecond}, {time.Hour, rpc.DefaultTimeout}} {
			began := time.Now()
			_, err := client.Status(after(t, tt.bound))
			wantCode(t, err, rpc.CodeTimeout)
			if took := time.Since(began); took != tt.want {
				t.Errorf("status took %v, want %v", took, tt.want)
			}
		}

		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		cancel()
		err = call(ctx, 0)
		if e := wantCode(t, err, rpc.CodeCanceled); e.Sent || !errors.Is(err, context.Canceled) {
			t.Errorf("got %+v", e)
		}
	})
}

// Ensure that a frame once begun must be completed, however its bytes trickle,
// while a connection without one may idle.
func TestHalfAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		var log journal
		MustServe(t, n.Listen("b"), rpc.Config{Log: log.logger()}, echo)
		peer := dialRaw(t, n)
		peer.greet()
		time.Sleep(24 * time.Hour) // virtual
		frame := rpc.EncodeRequest(1, request(t, 5))
		peer.send(frame[:10]...)
		time.Sleep(4 * time.Second) // virtual
		peer.send(frame[10:]...)
		if _, _, reply, err := rpc.DecodeReply(peer.frame()); err != nil || reply.Outcomes[0].Results[0].Remaining != 5 {
			t.Fatalf("got %+v, %v", reply, err)
		}
		time.Sleep(24 * time.Hour) // virtual: the deadline of the half frame is gone

		began := time.Now()
		go func() {
			for _, b := range frame[:20] {
				if _, err := peer.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second) // virtual
			}
		}()
		if _, err := peer.Read(make([]byte, 1)); err == nil {
			t.Error("was answered")
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("ended after %v, want 5s", took)
		}
		synctest.Wait()
		time.Sleep(time.Minute) // virtual: the trickle ends
		log.want(t, `msg="rpc: frame not completed" peer=a error="i/o timeout"`)
	})
}

// Ensure that a length alone takes no memory: it is taken as bytes arrive.
func TestAnnouncedLengthTakesNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		MustServe(t, n.Listen("b"), rpc.Config{}, echo)
		peers := make([]*raw, 100)
		for i := range peers {
			peers[i] = dialRaw(t, n)
			peers[i].greet()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, peer := range peers {
			peer.send(wire(t, "00100000 95")...)
			peer.send(make([]byte, 20<<10)...)
		}
		synctest.Wait()
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 100*200<<10 {
			t.Errorf("100 lengths of 1 MiB, and 20 kB for each, took %d bytes", took)
		}
	})
}

// Ensure that a peer that reads no replies is soon no longer read from, and then
// dropped.
func TestPeerThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		stats := new(rpc.Stats)
		var log journal
		MustServe(t, n.Listen("b"), rpc.Config{Stats: stats, Log: log.logger()}, echo)
		peer := dialRaw(t, n)
		peer.greet()
		req := request(t, 1)
		for range 1000 {
			req.Sequences = append(req.Sequences, req.Sequences[0])
		}
		frame := rpc.EncodeRequest(1, req)
		began := time.Now()
		sent := 0
		for ; sent < 100_000; sent++ {
			if _, err := peer.Write(frame); err != nil {
				break
			}
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("dropped after %v, want 5s", took)
		}
		synctest.Wait()
		// 4 MiB of replies of 8 kB, and what two directions hold.
		if got := stats.Served.Load(); got < 400 || got > 700 {
			t.Errorf("%d requests were decided of %d", got, sent)
		}
		log.want(t, `msg="rpc: peer does not read" peer=a error="i/o timeout"`)
	})
}

// Ensure that a server that reads no requests costs its client bounded memory:
// calls are refused, and the connection is dropped.
func TestServerThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		listener := n.Listen("b")
		defer listener.Close()
		stats := new(rpc.Stats)
		client := NewClient(t, n, rpc.Config{Stats: stats})
		go func() {
			nc, err := listener.Accept()
			if err != nil {
				return
			}
			peer := &raw{t, nc}
			peer.frame()
			peer.send(rpc.EncodeHello(nodeB, rpc.Identity{}, 0)...)
		}()
		req := request(t, 1)
		for len(req.Sequences[0]) < rpc.MaxChecks {
			req.Sequences[0] = append(req.Sequences[0], req.Sequences[0]...)
		}
		var callers sync.WaitGroup
		for range 200 {
			callers.Go(func() {
				_, err := client.Decide(after(t, time.Hour), req)
				if code := rpc.CodeOf(err); code != rpc.CodeOverloaded && code != rpc.CodeUnavailable {
					t.Errorf("got %v", err)
				}
			})
		}
		began := time.Now()
		callers.Wait()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("dropped after %v, want 5s", took)
		}
		// A request of 8192 checks has 123 kB, so 35 of them fill the queue, and
		// as many are being written.
		if got := stats.Errors(rpc.CodeOverloaded); got < 200-2*35 {
			t.Errorf("%d calls were refused", got)
		}
	})
}

// Ensure that the number of connections is bounded, and that those within the
// bound work on.
func TestTooManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		var log journal
		MustServe(t, n.Listen("b"), rpc.Config{Log: log.logger()}, echo)
		client := NewClient(t, n, rpc.Config{})
		wantEcho(t, client, 1)
		for range 1023 {
			dialRaw(t, n).greet()
		}
		beyond := dialRaw(t, n)
		if _, err := beyond.Read(make([]byte, 1)); err == nil {
			t.Error("was answered")
		}
		synctest.Wait()
		log.want(t, `msg="rpc: too many connections" peer=a`)
		wantEcho(t, client, 2)
		n.Reset()
		synctest.Wait()
		dialRaw(t, n).greet()
	})
}
