package rpc_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
	"weir/ring/fabric"
	"weir/rpc"
)

// parking answers requests of hop 1 later: their first sequence at once, and the
// others when the gate opens or the context ends. What ended they say as Owner.
type parking struct {
	handlerFunc
	gate   chan struct{}
	parked atomic.Int32 // later was returned
	ended  atomic.Int32 // later was told to give up
}

func newParking() *parking { return &parking{handlerFunc: echo, gate: make(chan struct{})} }

func (p *parking) Decide(ctx context.Context, peer rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) (later, error) {
	if req.Hop != 1 {
		return nil, echo(ctx, peer, req, reply)
	}
	p.parked.Add(1)
	echoOne := func(reply *rpc.DecideReply, seq []leaky.Check) {
		o := reply.Add()
		for _, c := range seq {
			o.Results = append(o.Results, leaky.Result{Allowed: true, Remaining: int64(c.Partition)})
		}
	}
	echoOne(reply, req.Sequences[0])
	return func(ctx context.Context, reply *rpc.DecideReply) error {
		select {
		case <-p.gate:
		case <-ctx.Done():
			p.ended.Add(1)
		}
		for _, seq := range req.Sequences[1:] {
			echoOne(reply, seq)
		}
		return nil
	}, nil
}

// slow asks partitions from the given one on, to be answered later.
func slow(tb testing.TB, partition uint32) *rpc.DecideRequest {
	req := request(tb, partition)
	req.Hop = 1
	for i := range uint32(3) {
		req.Sequences = append(req.Sequences, request(tb, partition+1+i).Sequences[0])
	}
	return req
}

// wantSlow wants all partitions of a slow request echoed.
func wantSlow(tb testing.TB, partition uint32, reply *rpc.DecideReply, err error) {
	tb.Helper()
	if err != nil {
		tb.Error(err)
		return
	}
	var got, want []int64
	for i, o := range reply.Outcomes {
		got = append(got, o.Results[0].Remaining)
		want = append(want, int64(partition)+int64(i))
	}
	if len(got) != 4 || !slices.Equal(got, want) {
		tb.Errorf("got %v, want %v", got, want)
	}
}

// Ensure that requests that wait hold up neither each other nor those that do
// not, on one connection, and that no memory is mixed up between them.
func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		handler, stats := newParking(), new(rpc.Stats)
		MustServe(t, n.Listen("b"), rpc.Config{Stats: stats}, handler)
		client := NewClient(t, n, rpc.Config{})
		var callers sync.WaitGroup
		for i := range uint32(20) {
			callers.Go(func() {
				reply, err := client.Decide(after(t, time.Hour), slow(t, 100*i))
				wantSlow(t, 100*i, reply, err)
			})
			synctest.Wait()
			began := time.Now()
			for j := range uint32(5) {
				wantEcho(t, client, 5000+j)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("the next one took %v", took)
			}
		}
		if got := handler.parked.Load(); got != 20 {
			t.Errorf("%d wait", got)
		}
		if got := stats.Served.Load(); got != 100 {
			t.Errorf("%d served meanwhile", got)
		}
		close(handler.gate)
		callers.Wait()
		if got := stats.Served.Load(); got != 120 || stats.Accepted.Load() != 1 {
			t.Errorf("%d served by %d connections", got, stats.Accepted.Load())
		}
	})
}

// failing waits for a moment and then does as told.
type failing struct {
	handlerFunc
	then later
}

func (f *failing) Decide(context.Context, rpc.Identity, *rpc.DecideRequest, *rpc.DecideReply) (later, error) {
	return func(ctx context.Context, reply *rpc.DecideReply) error {
		time.Sleep(time.Millisecond) // virtual
		return f.then(ctx, reply)
	}, nil
}

// Ensure that what is answered later is held to the same as what is not.
func TestLaterFails(t *testing.T) {
	tests := []struct {
		name string
		then later
		want string
		logs []string
	}{
		{"overloaded", func(context.Context, *rpc.DecideReply) error {
			return &rpc.Error{Code: rpc.CodeOverloaded, Text: "full"}
		}, "rpc: b: overloaded: full", nil},
		{"private", func(context.Context, *rpc.DecideReply) error { return errors.New("private") },
			"rpc: b: internal", []string{`msg="rpc: handler failed" peer=a error=private`}},
		{"no reply", func(context.Context, *rpc.DecideReply) error { return nil },
			"rpc: b: internal", []string{`msg="rpc: handler failed" peer=a error="0 outcomes for 1 sequences"`}},
		{"degraded by one who is not the owner", func(_ context.Context, reply *rpc.DecideReply) error {
			o := reply.Add()
			o.NotOwner, o.Degraded = true, true
			return nil
		}, "rpc: b: internal", []string{`msg="rpc: handler failed" peer=a error="degraded by one who is not the owner"`}},
		{"not the end of its context", func(context.Context, *rpc.DecideReply) error { return context.Canceled },
			"rpc: b: internal", []string{`msg="rpc: handler failed" peer=a error="context canceled"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				var log journal
				stats := new(rpc.Stats)
				MustServe(t, n.Listen("b"), rpc.Config{Log: log.logger(), Stats: stats}, &failing{echo, tt.then})
				client := NewClient(t, n, rpc.Config{})
				_, err := client.Decide(after(t, time.Second), request(t, 1))
				if err == nil || err.Error() != tt.want {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				log.want(t, tt.logs...)
				if failed, served := stats.Failed.Load(), stats.Served.Load(); failed != 1 || served != 0 {
					t.Errorf("%d failed, %d served", failed, served)
				}
			})
		})
	}
}

// Ensure that Close ends what waits, waits for it, and sends what comes of it.
func TestCloseWaitsForLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		n.Delay = delays(0, 10*time.Millisecond)
		handler := newParking()
		server := MustServe(t, n.Listen("b"), rpc.Config{}, handler)
		client := NewClient(t, n, rpc.Config{})
		var callers sync.WaitGroup
		for i := range uint32(5) {
			callers.Go(func() {
				reply, err := client.Decide(after(t, time.Hour), slow(t, 10*i))
				wantSlow(t, 10*i, reply, err)
			})
		}
		time.Sleep(time.Second) // virtual: all five have arrived
		server.Close()
		if parked, ended := handler.parked.Load(), handler.ended.Load(); parked != 5 || ended != 5 {
			t.Errorf("%d of %d ended", ended, parked)
		}
		callers.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		var log journal
		var done atomic.Bool
		server := MustServe(t, n.Listen("b"), rpc.Config{Log: log.logger()}, &failing{echo, func(ctx context.Context, _ *rpc.DecideReply) error {
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond) // virtual
			done.Store(true)
			return ctx.Err()
		}})
		client := NewClient(t, n, rpc.Config{})
		var callers sync.WaitGroup
		callers.Go(func() {
			_, err := client.Decide(after(t, time.Hour), request(t, 1))
			if e := wantCode(t, err, rpc.CodeUnavailable); e.Error() != "rpc: b: unavailable: connection ends" || !e.Remote {
				t.Errorf("got %+v", e)
			}
		})
		time.Sleep(time.Second) // virtual
		began := time.Now()
		server.Close()
		if took := time.Since(began); took != 100*time.Millisecond || !done.Load() {
			t.Errorf("closed after %v", took)
		}
		callers.Wait()
		log.want(t)
	})
}

// Ensure that what waits is told when the connection is lost, which ends it.
func TestLostConnectionEndsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		handler := newParking()
		MustServe(t, n.Listen("b"), rpc.Config{}, handler)
		client := NewClient(t, n, rpc.Config{})
		wantEcho(t, client, 1)
		var callers sync.WaitGroup
		for i := range uint32(5) {
			callers.Go(func() {
				_, err := client.Decide(after(t, time.Hour), slow(t, i))
				wantCode(t, err, rpc.CodeUnavailable)
			})
		}
		synctest.Wait()
		n.Reset()
		synctest.Wait()
		if parked, ended := handler.parked.Load(), handler.ended.Load(); parked != 5 || ended != 5 {
			t.Errorf("%d of %d ended", ended, parked)
		}
		callers.Wait()
		wantEcho(t, client, 1)
	})
}

// Ensure that no more requests wait than may, that those beyond fail at once,
// and that there is room again afterwards.
func TestTooManyLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		handler := newParking()
		MustServe(t, n.Listen("b"), rpc.Config{}, handler)
		client := NewClient(t, n, rpc.Config{MaxInFlight: 10_000})
		other := NewClient(t, n, rpc.Config{MaxInFlight: 10_000})
		var callers sync.WaitGroup
		for i := range uint32(4096) {
			c := client
			if i%2 == 1 {
				c = other
			}
			callers.Go(func() {
				reply, err := c.Decide(after(t, time.Hour), slow(t, 10*i))
				wantSlow(t, 10*i, reply, err)
			})
		}
		synctest.Wait()
		began := time.Now()
		for range 10 {
			_, err := client.Decide(after(t, time.Hour), slow(t, 1))
			if e := wantCode(t, err, rpc.CodeOverloaded); e.Error() != "rpc: b: overloaded: too many requests are waiting" || !e.Remote {
				t.Errorf("got %+v", e)
			}
			wantEcho(t, client, 2)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		close(handler.gate)
		callers.Wait()
		reply, err := client.Decide(after(t, time.Hour), slow(t, 1))
		wantSlow(t, 1, reply, err)
	})
}
