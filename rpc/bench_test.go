package rpc_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/leaky"
	"weir/rpc"
)

// overTCP serves echo on a port of its own and returns a client of it.
func overTCP(tb testing.TB) *rpc.Client {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	MustServe(tb, listener, rpc.Config{}, echo)
	client := rpc.NewClient(rpc.Config{Self: nodeA}, nodeB, listener.Addr().String())
	tb.Cleanup(func() { client.Close() })
	return client
}

// Ensure that real connections behave as those in memory.
func TestOverTCP(t *testing.T) {
	client := overTCP(t)
	var callers sync.WaitGroup
	for i := range uint32(16) {
		callers.Go(func() {
			for j := range uint32(50) {
				wantEcho(t, client, i<<8|j)
			}
		})
	}
	// The largest request, beside them.
	rule := mustRule(t, leaky.Bucket, leaky.MaxLimit, leaky.MaxWindow)
	req := &rpc.DecideRequest{Sequences: [][]leaky.Check{make([]leaky.Check, rpc.MaxChecks)}}
	for i := range req.Sequences[0] {
		req.Sequences[0][i] = leaky.Check{Partition: 1 << 31, Fingerprint: 1 << 63, Rule: rule, Cost: 1 << 62}
	}
	reply, err := client.Decide(after(t, time.Minute), req)
	if err != nil || len(reply.Outcomes[0].Results) != rpc.MaxChecks {
		t.Errorf("largest request: %v", err)
	}
	callers.Wait()
	if _, rtt, ok := client.Offset(); !ok || rtt < 0 {
		t.Errorf("offset: %v, %v", rtt, ok)
	}
}

// BenchmarkDecide is one check per call, by 64 callers over one loopback
// connection.
func BenchmarkDecide(b *testing.B) {
	client := overTCP(b)
	req := request(b, 5)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if _, err := client.Decide(ctx, req); err != nil {
		b.Fatal(err)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := client.Decide(ctx, req); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
}

// BenchmarkDecideAlone is a single caller: the latency of one exchange.
func BenchmarkDecideAlone(b *testing.B) {
	client := overTCP(b)
	req := request(b, 5)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Decide(ctx, req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMessages is a full message, written and read.
func BenchmarkMessages(b *testing.B) {
	messages := []rpc.Message{{Kind: 1, Words: slices.Repeat([]rpc.Word{{Fingerprint: 1 << 63, Word: 1 << 60}}, rpc.MaxWords)}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rpc.DecodeMessages(rpc.EncodeMessages(1000, messages)[4:]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCodec is a request of three checks, written and read.
func BenchmarkCodec(b *testing.B) {
	req := request(b, 5)
	req.Sequences[0] = append(req.Sequences[0], req.Sequences[0][0], req.Sequences[0][0])
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := rpc.DecodeRequest(rpc.EncodeRequest(1, req)[4:]); err != nil {
			b.Fatal(err)
		}
	}
}
