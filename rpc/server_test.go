package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
	"weir/ring/fabric"
	"weir/rpc"
)

// Ensure that a request that makes no sense is answered with an error if its id
// can be read, and ends the connection if not; and that both are logged.
func TestBadRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		stats := new(rpc.Stats)
		var log journal
		MustServe(t, n.Listen("b"), rpc.Config{Stats: stats, Log: log.logger()}, echo)
		peer := dialRaw(t, n)
		peer.greet()
		answered := []struct{ frame, want string }{
			{"00000014 97 03 07 00 00 a0 00 91 90 0000000000000000000000", "checks: 0 elements, not 1 to 8192"},
			{"0000000c 97 03 07 00 00 a0 00 ddffffffff", "sequences: 4294967295 elements, not 0 to 2048"},
			{"00000009 98 03 07 00 00 a0 00 90 00", "request: unexpected kind of frame"}, // an element too many
			{"00000014 97 03 07 00 00 a0 00 91 dbffffffff 00000000000000", "checks: msgpack: invalid code=db decoding array length"},
			{"00000014 97 03 07 00 00 a0 00 91 91 96 05 00 00 3c ce3b9aca00 01", "fingerprint: is 0"},
		}
		for _, tt := range answered {
			peer.send(wire(t, tt.frame)...)
			id, code, text, err := rpc.DecodeFailure(peer.frame())
			if id != 7 || code != rpc.CodeInvalid || text != tt.want || err != nil {
				t.Errorf("%s: got %d %v %q %v, want %q", tt.frame, id, code, text, err, tt.want)
			}
			log.want(t, fmt.Sprintf(`msg="rpc: bad frame" peer=a error=%q`, tt.want))
		}
		// Still in step.
		peer.send(rpc.EncodeRequest(8, request(t, 5))...)
		if id, _, reply, err := rpc.DecodeReply(peer.frame()); id != 8 || err != nil || reply.Outcomes[0].Results[0].Remaining != 5 {
			t.Errorf("got %d %+v %v", id, reply, err)
		}
		if failed, served := stats.Failed.Load(), stats.Served.Load(); failed != 5 || served != 1 {
			t.Errorf("%d failed, %d served", failed, served)
		}
		fatal := []struct{ frame, want string }{
			{"00000000", "bad frame length: 0 is not between 1 and 1048576"},
			{"00100001 95", "bad frame length: 1048577 is not between 1 and 1048576"},
			{"00000002 91 03", "id: unexpected EOF"},
			{"00000003 97 03 07", "frame: unexpected EOF"},
			{"00000003 92 03 c0", "id: is nil"},
			{"00000005 ddffffffff", "frame: 4294967295 elements, not 1 to 64"},
			{"00000005 94 04 07 00 90", "unexpected kind of frame"},                  // a reply
			{"00000004 93 08 90 00", "id: msgpack: invalid code=90 decoding uint64"}, // messages, an element too many
			{"00000003 92 08 91", "messages: unexpected EOF"},
			{"00000004 92 08 90 00", "bytes after the last element"},
			{"00000001 c1", "frame: msgpack: invalid code=c1 decoding array length"},
		}
		for _, tt := range fatal {
			peer := dialRaw(t, n)
			peer.greet()
			began := time.Now()
			peer.send(wire(t, tt.frame)...)
			if _, err := peer.Read(make([]byte, 1)); err != io.EOF || !time.Now().Equal(began) {
				t.Errorf("%s: got %v after %v", tt.frame, err, time.Since(began))
			}
			log.want(t, fmt.Sprintf(`msg="rpc: bad frame" peer=a error=%q`, tt.want))
		}
		if got := stats.BadFrames.Load(); got != 5+11 {
			t.Errorf("%d bad frames", got)
		}
	})
}

// Ensure that frames are found in the bytes however these come, also when far
// more of them than one buffer holds never end where a frame does.
func TestFramesInAnyPieces(t *testing.T) {
	for size, count := range map[int]int{1: 50, 1000: 100, 1 << 20: 2500} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				MustServe(t, n.Listen("b"), rpc.Config{}, echo)
				peer := dialRaw(t, n)
				peer.greet()
				var frames []byte
				for i := range count {
					req := request(t, uint32(i))
					for range i % 100 { // up to 2 kB
						req.Sequences[0] = append(req.Sequences[0], req.Sequences[0][0])
					}
					frames = append(frames, rpc.EncodeRequest(uint64(i), req)...)
				}
				for piece := range slices.Chunk(frames, size) {
					peer.send(piece...)
				}
				for i := range count {
					id, _, reply, err := rpc.DecodeReply(peer.frame())
					if err != nil || id != uint64(i) {
						t.Fatalf("request %d: got %d, %v", i, id, err)
					}
					results := reply.Outcomes[0].Results
					if len(results) != 1+i%100 || results[i%100].Remaining != int64(i) {
						t.Fatalf("request %d: got %+v", i, results)
					}
				}
			})
		})
	}
}

// Ensure that errors of the handler reach the caller as far as they should.
func TestHandlerError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		var log journal
		var result atomic.Value
		MustServe(t, n.Listen("b"), rpc.Config{Log: log.logger()}, handlerFunc(func(context.Context, rpc.Identity, *rpc.DecideRequest, *rpc.DecideReply) error {
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
		log.want(t,
			`msg="rpc: handler failed" peer=a error="rpc: Code(200): no such code"`,
			`msg="rpc: handler failed" peer=a error=private`)
	})
}

// Ensure that Close sends the replies of what was decided, and takes no more.
func TestServerCloseSendsReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		n.Delay = delays(0, 10*time.Millisecond)
		gate := make(chan struct{})
		var decided atomic.Int32
		server := MustServe(t, n.Listen("b"), rpc.Config{}, handlerFunc(func(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
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
		if _, err := n.Dialer("a")(context.Background(), "b"); err == nil {
			t.Error("still listening")
		}
	})
}

// Ensure that Close takes no longer than a second for a peer that reads little.
func TestServerCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		n.Capacity = 100
		server := MustServe(t, n.Listen("b"), rpc.Config{}, echo)
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
		listener := n.Listen("b")
		if err := server.Serve(listener); err != nil {
			t.Error(err)
		}
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
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
		n := fabric.New()
		listener := &failingListener{Listener: n.Listen("b")}
		listener.failures.Store(20)
		var log journal
		MustServe(t, listener, rpc.Config{Log: log.logger()}, echo)
		client := NewClient(t, n, rpc.Config{})
		time.Sleep(time.Minute) // virtual
		wantEcho(t, client, 1)
		log.want(t, slices.Repeat([]string{`msg="rpc: accept failed" address=b error="too many open files"`}, 20)...)
	})
	synctest.Test(t, func(t *testing.T) {
		listener := &failingListener{Listener: fabric.New().Listen("b")}
		listener.failures.Store(math.MaxInt32)
		server := MustServe(t, listener, rpc.Config{}, echo)
		time.Sleep(time.Minute) // virtual
		began := time.Now()
		server.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		listener := n.Listen("b")
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
		n := fabric.New()
		MustServe(t, n.Listen("b"), rpc.Config{}, handlerFunc(func(_ context.Context, _ rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) error {
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
