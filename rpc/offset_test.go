package rpc_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/ring/fabric"
	"weir/rpc"
)

// ahead is a clock that is ahead of the bubble's by d.
func ahead(d time.Duration) func() int64 {
	return func() int64 { return time.Now().Add(d).UnixNano() }
}

// Ensure that the offset of clocks minutes apart is known from the first
// exchange on, wrong by no more than half the round trip.
func TestOffset(t *testing.T) {
	tests := []struct {
		name                string
		server, there, back time.Duration
		offset, rtt         time.Duration
	}{
		{"equal delays", 7 * time.Minute, time.Millisecond, time.Millisecond, 7 * time.Minute, 2 * time.Millisecond},
		{"behind", -7 * time.Minute, time.Millisecond, time.Millisecond, -7 * time.Minute, 2 * time.Millisecond},
		{"slow way there", 3 * time.Minute, 9 * time.Millisecond, time.Millisecond, 3*time.Minute + 4*time.Millisecond, 10 * time.Millisecond},
		{"slow way back", 3 * time.Minute, 0, 10 * time.Millisecond, 3*time.Minute - 5*time.Millisecond, 10 * time.Millisecond},
		{"no delay", time.Minute, 0, 0, time.Minute, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				n.Delay = delays(tt.there, tt.back)
				MustServe(t, n.Listen("b"), rpc.Config{Clock: ahead(tt.server)}, echo)
				client := NewClient(t, n, rpc.Config{Clock: ahead(0)})
				if _, _, ok := client.Offset(); ok {
					t.Error("known before any exchange")
				}
				wantEcho(t, client, 1)
				offset, rtt, ok := client.Offset()
				if !ok || time.Duration(offset) != tt.offset || time.Duration(rtt) != tt.rtt {
					t.Errorf("got %v, %v, %v; want %v, %v", time.Duration(offset), time.Duration(rtt), ok, tt.offset, tt.rtt)
				}
			})
		})
	}
}

// Ensure that the exchange with the smallest round trip counts, that it is
// forgotten after a while, and that a clock's drift shows.
func TestOffsetFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		var drift atomic.Int64
		MustServe(t, n.Listen("b"), rpc.Config{Clock: func() int64 { return time.Now().UnixNano() + drift.Load() }}, echo)
		// The client's own clock moves while it waits: a round trip of that.
		var delay atomic.Int64
		client := NewClient(t, n, rpc.Config{Clock: func() int64 {
			time.Sleep(time.Duration(delay.Load())) // virtual
			return time.Now().UnixNano()
		}})
		want := func(offset, rtt time.Duration) {
			t.Helper()
			wantEcho(t, client, 1)
			o, r, ok := client.Offset()
			if !ok || time.Duration(o) != offset || time.Duration(r) != rtt {
				t.Errorf("got %v, %v, %v; want %v, %v", time.Duration(o), time.Duration(r), ok, offset, rtt)
			}
		}
		want(0, 0)
		drift.Store(int64(time.Second))
		delay.Store(int64(10 * time.Millisecond))
		want(0, 0) // a worse exchange tells nothing
		time.Sleep(31 * time.Second)
		want(0, 0) // now in the past window
		time.Sleep(31 * time.Second)
		want(time.Second-5*time.Millisecond, 10*time.Millisecond) // forgotten
		delay.Store(0)
		want(time.Second, 0)
		delay.Store(int64(10 * time.Millisecond))
		time.Sleep(29 * time.Second)
		want(time.Second, 0)
		time.Sleep(2 * time.Second)
		want(time.Second, 0) // not forgotten with what was before it
		drift.Store(int64(2 * time.Second))
		delay.Store(0)
		want(2*time.Second, 0)
		delay.Store(int64(10 * time.Millisecond))
		time.Sleep(31 * time.Second)
		want(2*time.Second, 0)
		delay.Store(0)
		drift.Store(int64(-time.Hour))
		time.Sleep(10 * time.Minute)
		want(-time.Hour, 0)
	})
}

// Ensure that a request for nothing measures the offset as well as any other.
func TestOffsetOfEmptyRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		n.Delay = delays(time.Millisecond, time.Millisecond)
		var drift atomic.Int64
		MustServe(t, n.Listen("b"), rpc.Config{Clock: func() int64 { return time.Now().UnixNano() + drift.Load() }}, echo)
		client := NewClient(t, n, rpc.Config{Clock: ahead(0)})
		for i := range 5 {
			drift.Store(int64(i) * int64(time.Second))
			reply, err := client.Decide(after(t, time.Second), &rpc.DecideRequest{})
			if err != nil || len(reply.Outcomes) != 0 {
				t.Fatalf("got %+v, %v", reply, err)
			}
			offset, rtt, ok := client.Offset()
			if !ok || offset != int64(i)*int64(time.Second) || rtt != int64(2*time.Millisecond) {
				t.Errorf("after %d s: got %v, %v, %v", i, time.Duration(offset), time.Duration(rtt), ok)
			}
			time.Sleep(time.Minute) // virtual
		}
	})
}

// Ensure that an exchange during which the own clock was set back tells nothing.
func TestOwnClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		MustServe(t, n.Listen("b"), rpc.Config{Clock: ahead(0)}, echo)
		var readings atomic.Int64
		client := NewClient(t, n, rpc.Config{Clock: func() int64 {
			return time.Now().UnixNano() - int64(time.Second)*readings.Add(1)
		}})
		wantEcho(t, client, 1)
		if offset, rtt, ok := client.Offset(); ok {
			t.Errorf("got %v, %v", time.Duration(offset), time.Duration(rtt))
		}
	})
}
