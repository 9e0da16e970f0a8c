package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
	"weir/rpc"
)

// Ensure that a request that makes no sense is answered with an error if its id
// can be read, and ends the connection if not.
func TestBadRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		stats := new(rpc.Stats)
		MustServe(t, n.listen("b"), rpc.Config{Stats: stats}, echo)
		peer := dialRaw(t, n)
		peer.greet()
		for _, frame := range []string{
			"00000007 95 03 07 00 c2 91 90",                            // empty sequence
			"0000000a 95 03 07 00 c2 ddffffffff",                       // 4 GiB of sequences
			"00000007 96 03 07 00 c2 90 00",                            // six elements
			"0000000b 95 03 07 00 c2 91 dbffffffff",                    // a string instead of checks
			"00000010 95 03 07 00 c2 91 91 96 05 00 00 3c 01 01 00 00", // fingerprint 0
		} {
			peer.send(wire(t, frame)...)
			id, code, text, err := rpc.DecodeFailure(peer.frame())
			if id != 7 || code != rpc.CodeInvalid || text == "" || err != nil {
				t.Errorf("%s: got %d %v %q %v", frame, id, code, text, err)
			}
		}
		// Still in step.
		peer.send(rpc.EncodeRequest(8, request(t, 5))...)
		if id, _, reply, err := rpc.DecodeReply(peer.frame()); id != 8 || err != nil || reply.Outcomes[0].Results[0].Remaining != 5 {
			t.Errorf("got %d %+v %v", id, reply, err)
		}
		if got := stats.BadFrames.Load(); got != 5 {
			t.Errorf("%d bad frames", got)
		}
		for _, frame := range []string{
			"00000000",            // length 0
			"00100001 95",         // longer than MaxFrame
			"00000002 95 03",      // no id
			"00000003 95 03 07",   // nothing behind the id
			"00000003 95 03 c0",   // nil as id
			"00000005 ddffffffff", // 4 GiB of elements
			"00000004 94 04 07 00 90",
			"00000001 c1",
		} {
			peer := dialRaw(t, n)
			peer.greet()
			began := time.Now()
			peer.send(wire(t, frame)...)
			if _, err := peer.Read(make([]byte, 1)); err == nil || !time.Now().Equal(began) {
				t.Errorf("%s: got %v after %v", frame, err, time.Since(began))
			}
		}
		if got := stats.BadFrames.Load(); got != 5+8 {
			t.Errorf("%d bad frames", got)
		}
	})
}

// Ensure that errors of the handler reach the caller as far as they should.
func TestHandlerError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		var log logBuffer
		var result atomic.Value
		MustServe(t, n.listen("b"), rpc.Config{Log: log.logger()}, handlerFunc(func(context.Context, rpc.Identity, *rpc.DecideRequest, *rpc.DecideReply) error {
			return result.Load().(error)
		}))
		client := NewClient(t, n, rpc.Config{})
		tests := []struct {
			err  error
			want string
		}{
			{&rpc.Error{Code: rpc.CodeOverloaded, Text: "full"}, "rpc: b: overloaded: full"},
			{&rpc.Error{Code: rpc.CodeUnavailable, Text: strings.Repeat("x", 2000)}, "rpc: b: unavailable: " + strings.Repeat("x", 1024)},
			{&rpc.Error{Code: 200, Text: "no such code"}, "rpc: b: internal"},
			{&rpc.Error{Code: rpc.CodeInternal, Err: errors.New("private")}, "rpc: b: internal"},
		}
		for _, tt := range tests {
			result.Store(tt.err)
			_, err := client.Decide(after(t, time.Second), request(t, 1))
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if e, ok := err.(*rpc.Error); ok && (!e.Sent || !e.Remote) {
				t.Errorf("got %+v", e)
			}
		}
		result = atomic.Value{}
		result.Store(fmt.Errorf("private"))
		_, err := client.Decide(after(t, time.Second), request(t, 1))
		if err == nil || err.Error() != "rpc: b: internal" {
			t.Errorf("got %v", err)
		}
		if lines := log.lines(); len(lines) != 1 {
			t.Errorf("log: %q", lines)
		}
	})
}

// Ensure that a frame once begun must be completed, however its bytes trickle,
// while a connection without one may idle.
func TestHalfAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		MustServe(t, n.listen("b"), rpc.Config{}, echo)
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
	})
}

// Ensure that a length alone takes no memory: it is taken as bytes arrive.
func TestAnnouncedLengthTakesNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		MustServe(t, n.listen("b"), rpc.Config{}, echo)
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
		n := newMemnet()
		stats := new(rpc.Stats)
		var log logBuffer
		MustServe(t, n.listen("b"), rpc.Config{Stats: stats, Log: log.logger()}, echo)
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
		if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "peer does not read") {
			t.Errorf("log: %q", lines)
		}
	})
}

// Ensure that a server that reads no requests costs its client bounded memory:
// calls are refused, and the connection is dropped.
func TestServerThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		listener := n.listen("b")
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

// Ensure that Close sends the replies of what was decided, and takes no more.
func TestServerCloseSendsReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		n.back = 10 * time.Millisecond
		gate := make(chan struct{})
		var decided atomic.Int32
		server := MustServe(t, n.listen("b"), rpc.Config{}, handlerFunc(func(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
			decided.Add(1)
			<-gate
			return echo(ctx, peer, req, reply)
		}))
		client := NewClient(t, n, rpc.Config{})
		var answered, lost atomic.Int32
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() {
				_, err := client.Decide(after(t, 10*time.Second), request(t, 1))
				switch rpc.CodeOf(err) {
				case 0:
					answered.Add(1)
				case rpc.CodeUnavailable:
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		time.Sleep(time.Second) // virtual: all five have arrived
		for range 3 {
			callers.Go(func() { server.Close() })
		}
		synctest.Wait()
		close(gate)
		callers.Wait()
		if d, a, l := decided.Load(), answered.Load(), lost.Load(); d != 1 || a != 1 || l != 4 {
			t.Errorf("%d decided, %d answered, %d lost; want 1, 1, 4", d, a, l)
		}
		if _, err := n.dial(context.Background(), "b"); err == nil {
			t.Error("still listening")
		}
	})
}

// Ensure that Close takes no longer than a second for a peer that reads little.
func TestServerCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		n.capacity = 100
		server := MustServe(t, n.listen("b"), rpc.Config{}, echo)
		peer := dialRaw(t, n)
		peer.greet()
		for id := range uint64(1000) {
			peer.send(rpc.EncodeRequest(id, request(t, 1))...)
			if id == 10 {
				synctest.Wait() // a write is stuck; what follows is for the next
			}
		}
		silent := dialRaw(t, n) // has not even said hello
		half := dialRaw(t, n)
		half.greet()
		half.send(0, 0)
		synctest.Wait()
		began := time.Now()
		go func() {
			time.Sleep(500 * time.Millisecond) // virtual
			peer.full(make([]byte, 500))       // so that another write begins
		}()
		server.Close()
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
		for _, c := range []*raw{silent, half} {
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("still connected")
			}
		}
		// After Close, Serve only closes its listener.
		listener := n.listen("b")
		if err := server.Serve(listener); err != nil {
			t.Error(err)
		}
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// Ensure that the number of connections is bounded, and that those within the
// bound work on.
func TestTooManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		MustServe(t, n.listen("b"), rpc.Config{}, echo)
		client := NewClient(t, n, rpc.Config{})
		wantEcho(t, client, 1)
		for range 1023 {
			dialRaw(t, n).greet()
		}
		beyond := dialRaw(t, n)
		if _, err := beyond.Read(make([]byte, 1)); err == nil {
			t.Error("was answered")
		}
		wantEcho(t, client, 2)
		n.cut()
		synctest.Wait()
		dialRaw(t, n).greet()
	})
}

// failingListener fails to accept for a while.
type failingListener struct {
	net.Listener
	failures atomic.Int32
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, errors.New("too many open files")
	}
	return l.Listener.Accept()
}

// Ensure that a listener that fails for a while does not end the server.
func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		listener := &failingListener{Listener: n.listen("b")}
		listener.failures.Store(20)
		MustServe(t, listener, rpc.Config{}, echo)
		client := NewClient(t, n, rpc.Config{})
		time.Sleep(time.Minute) // virtual
		wantEcho(t, client, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		listener := n.listen("b")
		server := rpc.NewServer(rpc.Config{Self: nodeB}, echo)
		listener.Close()
		if err := server.Serve(listener); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
		server.Close()
	})
}

// Ensure that what one request leaves behind never shows in the reply of
// another on the same connection.
func TestMemoryIsNotMixedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet()
		MustServe(t, n.listen("b"), rpc.Config{}, handlerFunc(func(_ context.Context, _ rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
			for _, seq := range req.Sequences {
				o := reply.Add()
				if seq[0].Partition%3 == 0 {
					o.NotOwner, o.Owner = true, fmt.Sprint(seq[0].Partition)
					continue
				}
				for _, c := range seq {
					o.Results = append(o.Results, leaky.Result{Allowed: true, Remaining: int64(c.Partition), ResetAfter: time.Duration(c.Cost)})
				}
			}
			return nil
		}))
		client := NewClient(t, n, rpc.Config{})
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for j := range 50 {
					req := &rpc.DecideRequest{}
					for k := range 1 + (i*7+j)%5 {
						seq := request(t, uint32(i*j+k)).Sequences[0]
						for c := range int64((j + k) % 40) {
							seq = append(seq, seq[0])
							seq[len(seq)-1].Cost = c
						}
						req.Sequences = append(req.Sequences, seq)
					}
					reply, err := client.Decide(after(t, time.Second), req)
					if err != nil {
						t.Error(err)
						return
					}
					for k, seq := range req.Sequences {
						o := reply.Outcomes[k]
						if p := seq[0].Partition; p%3 == 0 {
							if !o.NotOwner || o.Owner != fmt.Sprint(p) || len(o.Results) > 0 {
								t.Errorf("partition %d: %+v", p, o)
							}
							continue
						}
						for m, c := range seq {
							if r := o.Results[m]; r.Remaining != int64(c.Partition) || r.ResetAfter != time.Duration(c.Cost) {
								t.Errorf("partition %d: %+v", c.Partition, r)
							}
						}
					}
				}
			})
		}
		callers.Wait()
	})
}
