package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
	"weir/ring/fabric"
	"weir/rpc"
)

// world is what the operations of FuzzLive work on.
type world struct {
	t       *testing.T
	net     *fabric.Network
	server  *rpc.Server // nil while there is none
	served  chan error
	client  *rpc.Client
	callers sync.WaitGroup

	mu   sync.Mutex
	gate chan struct{} // handlers asked with hop 1 or 4 wait for it
}

func (w *world) closed() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gate
}

// open lets pass who waits at the gate, and closes it again.
func (w *world) open() {
	close(w.closed())
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = make(chan struct{})
}

func (w *world) serve() {
	w.server, w.served = rpc.NewServer(rpc.Config{Self: nodeB}, w), make(chan error, 1)
	listener, server, served := w.net.Listen("b"), w.server, w.served
	go func() { served <- server.Serve(listener) }()
}

func (w *world) close() {
	w.server.Close()
	if err := <-w.served; err != nil {
		w.t.Errorf("Serve: %v", err)
	}
	w.server = nil
}

func (w *world) Decide(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) (later, error) {
	gate := w.closed()
	pass := func(ctx context.Context, reply *rpc.DecideReply) error {
		select {
		case <-gate:
			return echo(ctx, peer, req, reply)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch req.Hop {
	case 1:
		return nil, pass(ctx, reply)
	case 2:
		return nil, &rpc.Error{Code: rpc.CodeOverloaded, Text: "told to"}
	case 3:
		return nil, errors.New("failed")
	case 4:
		return pass, nil
	}
	return nil, echo(ctx, peer, req, reply)
}

// Receive wants of each message what tell made of its number.
func (w *world) Receive(_ rpc.Identity, messages []rpc.Message) {
	for _, m := range messages {
		if m.Kind == stranger {
			continue
		}
		want := messageOf(m.Number)
		if got := fmt.Sprint(m); got != fmt.Sprint(want) {
			w.t.Errorf("got  %s\nwant %v", got, want)
		}
	}
}

// stranger is the kind of message that anyone may have made.
const stranger = 0

// messageOf makes a message of up to six words out of its number.
func messageOf(n uint64) rpc.Message {
	m := rpc.Message{Kind: 1, Partition: uint32(n), Number: n, Node: rpc.Node{Name: fmt.Sprint(n), Boot: n}}
	for i := range n % 7 {
		m.Words = append(m.Words, rpc.Word{Fingerprint: 1 + n + i, Word: leaky.Word(n << i)})
	}
	return m
}

// tell sends messages, which may be lost.
func (w *world) tell(n byte) {
	var messages []rpc.Message
	for i := range uint64(n) {
		messages = append(messages, messageOf(uint64(n)<<8|i))
	}
	client := w.client
	w.callers.Go(func() {
		const timeout = 50 * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		began := time.Now()
		err := client.Send(ctx, messages)
		if took := time.Since(began); took > timeout {
			w.t.Errorf("took %v of %v", took, timeout)
		}
		if code := rpc.CodeOf(err); err != nil && code != rpc.CodeUnavailable && code != rpc.CodeTimeout {
			w.t.Error(err)
		}
	})
}

func (w *world) Status() rpc.Status { return echo.Status() }

// call asks in the background, and wants its own echo or an error that says
// what happened, in time.
func (w *world) call(hop, n byte) {
	req := &rpc.DecideRequest{Hop: hop % 5}
	for i := range n % 5 {
		seq := request(w.t, uint32(n)<<8|uint32(i)).Sequences[0]
		for range n % 7 {
			seq = append(seq, seq[0])
		}
		req.Sequences = append(req.Sequences, seq)
	}
	timeout := time.Duration(1+int(n)%4*40) * time.Millisecond
	client := w.client
	w.callers.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		began := time.Now()
		reply, err := client.Decide(ctx, req)
		if took := time.Since(began); took > timeout {
			w.t.Errorf("took %v of %v", took, timeout)
		}
		if err != nil {
			if code := rpc.CodeOf(err); code == rpc.CodeInvalid || code == rpc.CodeRefused || code == rpc.CodeWrongPeer {
				w.t.Error(err)
			}
			return
		}
		if req.Hop == 2 || req.Hop == 3 {
			w.t.Errorf("hop %d was answered", req.Hop)
		}
		for i, seq := range req.Sequences {
			results := reply.Outcomes[i].Results
			for j, c := range seq {
				if results[j] != (leaky.Result{Allowed: true, Remaining: int64(c.Partition)}) {
					w.t.Errorf("partition %d: got %+v", c.Partition, results[j])
				}
			}
		}
	})
}

// inject connects as a stranger and sends bytes, after a hello if greeted.
func (w *world) inject(greeted bool, p []byte) {
	nc, err := w.net.Dialer("x")(context.Background(), "b")
	if err != nil {
		return
	}
	defer nc.Close()
	if greeted {
		p = append(rpc.EncodeHello(nodeA, nodeB, 0), p...)
	}
	nc.SetWriteDeadline(time.Now().Add(time.Second))
	nc.Write(p)
	synctest.Wait()
}

// step does one operation and returns what is left of the program.
func (w *world) step(op byte, rest []byte) []byte {
	var arg byte
	if len(rest) > 0 {
		arg, rest = rest[0], rest[1:]
	}
	switch op % 10 {
	case 0, 1:
		w.call(op/10, arg)
	case 2:
		w.tell(arg)
	case 3:
		synctest.Wait()
	case 4:
		time.Sleep(time.Duration(arg) * time.Millisecond) // virtual
	case 5:
		w.net.Reset()
	case 6:
		if w.server != nil {
			w.close()
		} else {
			w.serve()
		}
	case 7:
		n := min(int(arg), len(rest))
		w.inject(op/10%2 == 0, rest[:n])
		return rest[n:]
	case 8:
		w.open()
	case 9:
		old := w.client
		w.client = rpc.NewClient(rpc.Config{Self: nodeA, Dial: w.net.Dialer("a"), MaxInFlight: 8}, nodeB, "b")
		w.callers.Go(func() { old.Close() })
		w.callers.Go(func() { old.Close() })
	}
	return rest
}

// FuzzLive takes its input for a program of calls, cuts, restarts, closes and
// strangers' bytes on a client and a server that are connected. Whatever the
// program, every call ends in time, with its own answer or an honest error,
// nothing deadlocks, and afterwards all works.
func FuzzLive(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 3, 0, 5, 0, 0, 3, 4, 60, 0, 4})
	f.Add([]byte{10, 3, 10, 7, 4, 30, 8, 0, 0, 9, 6, 0, 0, 1, 6, 0, 4, 60, 0, 2})
	f.Add([]byte{7, 8, 0, 0, 0, 5, 0xdd, 0xff, 0xff, 0xff, 17, 4, 0xff, 0xff, 0xff, 0xff, 0, 3})
	f.Add([]byte{10, 11, 10, 11, 10, 11, 10, 11, 10, 11, 10, 11, 10, 11, 10, 11, 10, 11, 10, 11, 3, 0, 9, 0, 20, 1, 30, 1})
	f.Add([]byte{6, 0, 0, 1, 0, 1, 4, 10, 6, 0, 0, 1, 4, 200, 0, 1, 10, 3, 5, 0, 10, 3, 9, 0, 10, 3, 6, 0})
	f.Add([]byte{40, 11, 40, 12, 0, 1, 2, 20, 3, 0, 8, 0, 40, 3, 5, 0, 2, 3, 40, 1, 6, 0, 2, 255})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 1000 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, net: fabric.New(), gate: make(chan struct{})}
			w.net.Delay, w.net.Capacity = delays(time.Millisecond, 2*time.Millisecond), 300
			w.client = rpc.NewClient(rpc.Config{Self: nodeA, Dial: w.net.Dialer("a"), MaxInFlight: 8}, nodeB, "b")
			w.serve()
			for len(program) > 0 {
				program = w.step(program[0], program[1:])
			}
			close(w.closed())
			w.callers.Wait()
			if w.server == nil {
				w.serve()
			}
			time.Sleep(5 * time.Second) // virtual: past any back-off
			wantEcho(t, w.client, 77)
			w.client.Close()
			w.close()
		})
	})
}
