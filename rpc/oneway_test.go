package rpc_test

import (
	"context"
	"math"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
	"weir/ring/fabric"
	"weir/rpc"
)

// mailbox keeps what it receives.
type mailbox struct {
	handlerFunc
	mu       sync.Mutex
	frames   int
	messages []rpc.Message
}

func (m *mailbox) Receive(peer rpc.Identity, messages []rpc.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if peer != nodeA {
		panic("of a stranger: " + peer.Name)
	}
	m.frames++
	for _, got := range messages {
		got.Words = slices.Clone(got.Words) // the server uses them again
		m.messages = append(m.messages, got)
	}
}

// take returns what came since it was called last, and in how many frames.
func (m *mailbox) take() (messages []rpc.Message, frames int) {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	messages, frames = m.messages, m.frames
	m.messages, m.frames = nil, 0
	return messages, frames
}

func wantMessages(tb testing.TB, got, want []rpc.Message) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Errorf("%d messages, want %d", len(got), len(want))
		return
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			tb.Errorf("message %d:\n got %+v\nwant %+v", i, got[i], want[i])
			return
		}
	}
}

// Ensure that messages arrive as they were sent, in their order, together with
// calls, between clocks that agree.
func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		n.Delay = delays(time.Millisecond, 2*time.Millisecond)
		box, stats := &mailbox{handlerFunc: echo}, new(rpc.Stats)
		MustServe(t, n.Listen("b"), rpc.Config{Stats: stats}, box)
		client := NewClient(t, n, rpc.Config{Stats: stats})
		var sent []rpc.Message
		for i := range uint64(100) {
			var messages []rpc.Message
			for j := range i {
				messages = append(messages, messageOf(i<<8|j))
			}
			if err := client.Send(t.Context(), messages); err != nil {
				t.Fatal(err)
			}
			sent = append(sent, messages...)
			if i%10 == 0 {
				wantEcho(t, client, uint32(i))
			}
		}
		time.Sleep(time.Second) // virtual
		got, _ := box.take()
		wantMessages(t, got, sent)
		if s, r, d := stats.MessagesSent.Load(), stats.MessagesReceived.Load(), stats.MessagesDropped.Load(); s != 4950 || r != 4950 || d != 0 {
			t.Errorf("%d sent, %d received, %d dropped", s, r, d)
		}

		n.Reset()
		synctest.Wait()
		if err := client.Send(t.Context(), sent[:10]); err != nil {
			t.Errorf("after the connection was lost: %v", err)
		}
		time.Sleep(time.Second) // virtual
		got, _ = box.take()
		wantMessages(t, got, sent[:10])
	})
}

// Ensure that the most and the longest messages are cut into frames within the
// bounds.
func TestSendCuts(t *testing.T) {
	long := rpc.Message{Kind: math.MaxUint8, Flags: math.MaxUint8, Partition: math.MaxUint32, Epoch: math.MaxUint64, Number: math.MaxUint64,
		Node: rpc.Node{Name: strings.Repeat("x", rpc.MaxName), Boot: math.MaxUint64}}
	full := long
	full.Words = slices.Repeat([]rpc.Word{{Fingerprint: math.MaxUint64, Word: math.MaxInt64}}, rpc.MaxWords)
	tests := []struct {
		name     string
		messages []rpc.Message
		frames   int
	}{
		{"short", slices.Repeat([]rpc.Message{{Kind: 1}}, 2*rpc.MaxMessages+1), 3},
		{"long", slices.Repeat([]rpc.Message{long}, 3507), 3}, // 1753 of 299 bytes
		{"full", slices.Repeat([]rpc.Message{full}, 15), 3},   // 7 of 74,027 bytes
		{"none", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				box := &mailbox{handlerFunc: echo}
				MustServe(t, n.Listen("b"), rpc.Config{}, box)
				client := NewClient(t, n, rpc.Config{})
				if err := client.Send(t.Context(), tt.messages); err != nil {
					t.Fatal(err)
				}
				got, frames := box.take()
				wantMessages(t, got, tt.messages)
				if frames != tt.frames {
					t.Errorf("%d frames, want %d", frames, tt.frames)
				}
			})
		})
	}
}

// Ensure that words are later on the peer's clock by as much as its clock may be
// ahead of the own one, in whole microseconds, and the same if the two may agree.
func TestSendMovesWords(t *testing.T) {
	const now = 1_700_000_000_000_000_123 // a count of 123
	tests := []struct {
		name        string
		ahead       time.Duration // the peer's clock
		there, back time.Duration
		moved       time.Duration
	}{
		{"equal", 0, time.Millisecond, time.Millisecond, 0},
		{"equal, no delay", 0, 0, 0, 0},
		{"equal, slow way there", 0, 9 * time.Millisecond, 0, 0},
		{"equal, slow way back", 0, 0, 9 * time.Millisecond, 0},
		{"ahead", 7 * time.Minute, time.Millisecond, time.Millisecond, 7*time.Minute + time.Millisecond},
		{"ahead, slow way there", 7 * time.Minute, 9 * time.Millisecond, 0, 7*time.Minute + 9*time.Millisecond},
		{"ahead, slow way back", 7 * time.Minute, 0, 9 * time.Millisecond, 7 * time.Minute},
		{"ahead, odd", 7*time.Minute + 1, 0, 0, 7*time.Minute + time.Microsecond},
		{"behind", -7 * time.Minute, time.Millisecond, time.Millisecond, -7*time.Minute + time.Millisecond},
		{"behind, odd", -7*time.Minute - 1, 0, 0, -7 * time.Minute},
		{"behind, odd the other way", -7*time.Minute + 1, 0, 0, -7*time.Minute + time.Microsecond},
		{"maybe equal, if behind", -time.Millisecond, time.Millisecond, 2 * time.Millisecond, 0},
		{"surely behind", -2*time.Millisecond - 1, time.Millisecond, 2 * time.Millisecond, -time.Millisecond},
		{"maybe equal, if ahead", 2 * time.Millisecond, time.Millisecond, 2 * time.Millisecond, 0},
		{"surely ahead", 2*time.Millisecond + 1, time.Millisecond, 2 * time.Millisecond, 3*time.Millisecond + time.Microsecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				n.Delay = delays(tt.there, tt.back)
				box := &mailbox{handlerFunc: echo}
				MustServe(t, n.Listen("b"), rpc.Config{Clock: ahead(tt.ahead)}, box)
				client := NewClient(t, n, rpc.Config{Clock: ahead(0)})
				words := []rpc.Word{{1, now}, {2, 0}, {3, math.MaxInt64}, {4, 1}, {5, -1}}
				before := slices.Clone(words)
				if err := client.Send(t.Context(), []rpc.Message{{Words: words}}); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(words, before) {
					t.Errorf("the sender's words became %v", words)
				}
				time.Sleep(time.Second) // virtual
				got, _ := box.take()
				want := slices.Clone(before)
				want[4].Word = 0
				want[0].Word += leaky.Word(tt.moved)
				if tt.moved < 0 {
					want[2].Word += leaky.Word(tt.moved)
					want[3].Word = 0
				} else {
					want[3].Word += leaky.Word(tt.moved)
				}
				wantMessages(t, got, []rpc.Message{{Words: want}})
			})
		})
	}
}

// Ensure that no word is sent while nothing tells how it reads on the peer's
// clock, and that messages without words are.
func TestSendToUnknownClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		n.Delay = delays(time.Millisecond, 0)
		box := &mailbox{handlerFunc: echo}
		MustServe(t, n.Listen("b"), rpc.Config{}, box)
		set := time.Now()
		client := NewClient(t, n, rpc.Config{Clock: func() int64 {
			if time.Now().Equal(set) {
				return time.Now().Add(time.Hour).UnixNano() // and set back during the hello
			}
			return time.Now().UnixNano()
		}})
		words := []rpc.Message{{Words: []rpc.Word{{1, 1}}}}
		err := client.Send(t.Context(), words)
		if e := wantCode(t, err, rpc.CodeUnavailable); e.Sent {
			t.Errorf("got %+v", e)
		}
		if err := client.Send(t.Context(), []rpc.Message{{Kind: 7}}); err != nil {
			t.Error(err)
		}
		if _, err := client.Decide(t.Context(), &rpc.DecideRequest{}); err != nil {
			t.Error(err)
		}
		if err := client.Send(t.Context(), words); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) // virtual
		got, _ := box.take()
		wantMessages(t, got, []rpc.Message{{Kind: 7}, words[0]})
	})
}

// Ensure that a message out of bounds is refused before anything is sent.
func TestMessageBounds(t *testing.T) {
	stats := new(rpc.Stats)
	client := rpc.NewClient(rpc.Config{Self: nodeA, Stats: stats, Dial: func(context.Context, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, fabric.ErrRefused
	}}, nodeB, "b")
	defer client.Close()
	for _, tt := range []struct {
		want    string
		message rpc.Message
	}{
		{"4097 words, at most 4096", rpc.Message{Words: slices.Repeat([]rpc.Word{{1, 1}}, 4097)}},
		{"fingerprint is 0", rpc.Message{Words: []rpc.Word{{1, 1}, {0, 1}}}},
		{"node: name of 257 bytes, at most 256", rpc.Message{Node: rpc.Node{Name: strings.Repeat("x", 257)}}},
		{"node: run of a node without a name", rpc.Message{Node: rpc.Node{Boot: 1}}},
	} {
		err := client.Send(t.Context(), []rpc.Message{{}, tt.message})
		if e := wantCode(t, err, rpc.CodeInvalid); e.Sent || e.Error() != "rpc: b: invalid: message: "+tt.want {
			t.Errorf("got %+v, want %s", e, tt.want)
		}
	}
	if err := client.Send(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if s, d := stats.MessagesSent.Load(), stats.MessagesDropped.Load(); s != 0 || d != 8 {
		t.Errorf("%d sent, %d dropped", s, d)
	}
}

// Ensure that Send waits for a connection no longer than it may.
func TestSendConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		box := &mailbox{handlerFunc: echo}
		MustServe(t, n.Listen("b"), rpc.Config{}, box)
		client := rpc.NewClient(rpc.Config{Self: nodeA, Dial: func(ctx context.Context, address string) (net.Conn, error) {
			time.Sleep(1500 * time.Millisecond) // virtual
			return n.Dialer("a")(ctx, address)
		}}, nodeB, "b")
		defer client.Close()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, tt := range []struct {
			ctx  context.Context
			code rpc.Code
			took time.Duration
		}{
			{ended, rpc.CodeCanceled, 0},
			{after(t, 100*time.Millisecond), rpc.CodeTimeout, 100 * time.Millisecond},
			{t.Context(), rpc.CodeTimeout, rpc.DefaultTimeout},
			{t.Context(), 0, 400 * time.Millisecond},
		} {
			began := time.Now()
			err := client.Send(tt.ctx, []rpc.Message{{Kind: 5}})
			if took := time.Since(began); rpc.CodeOf(err) != tt.code || took != tt.took {
				t.Errorf("got %v after %v, want %v after %v", err, took, tt.code, tt.took)
			}
		}
		got, _ := box.take()
		wantMessages(t, got, []rpc.Message{{Kind: 5}})
		client.Close()
		wantCode(t, client.Send(t.Context(), []rpc.Message{{Kind: 5}}), rpc.CodeUnavailable)
	})
}

// Ensure that messages that a full queue has no room for are dropped and
// counted, the others arrive in their order, and calls still have room.
func TestSendToFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		listener := n.Listen("b")
		defer listener.Close()
		stats := new(rpc.Stats)
		client := NewClient(t, n, rpc.Config{Stats: stats})
		greeted := make(chan *raw)
		go func() {
			nc, err := listener.Accept()
			if err != nil {
				return
			}
			peer := &raw{t, nc}
			peer.frame()
			peer.send(rpc.EncodeHello(nodeB, rpc.Identity{}, time.Now().UnixNano())...)
			greeted <- peer
		}()
		words := slices.Repeat([]rpc.Word{{1, 1}}, rpc.MaxWords)
		var messages []rpc.Message
		for i := range uint64(7) {
			messages = append(messages, rpc.Message{Number: i, Words: words})
		}
		if err := client.Send(t.Context(), messages); err != nil {
			t.Fatal(err)
		}
		peer := <-greeted
		synctest.Wait()
		sent := uint64(7)
		var err error
		for err == nil {
			for i := range messages {
				messages[i].Number = sent + uint64(i)
			}
			if err = client.Send(t.Context(), messages); err == nil {
				sent += 7
			}
		}
		if e := wantCode(t, err, rpc.CodeOverloaded); e.Sent ||
			e.Error() != "rpc: b: overloaded: too many bytes are waiting to be written: dropped 7 of 7 messages" {
			t.Errorf("got %+v", e)
		}
		// A frame has 7 such messages and 518 kB: one is being written, and
		// with the fifth after it there are more than 2 MiB.
		if s, d := stats.MessagesSent.Load(), stats.MessagesDropped.Load(); sent != 42 || s != sent || d != 7 {
			t.Errorf("%d sent, %d dropped, want %d and 7", s, d, sent)
		}
		_, err = client.Decide(after(t, time.Millisecond), request(t, 1))
		wantCode(t, err, rpc.CodeTimeout)

		var got uint64
		for range sent / 7 {
			frame := peer.frame()
			read, err := rpc.DecodeMessages(frame)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range read {
				if m.Number != got {
					t.Fatalf("got message %d, want %d", m.Number, got)
				}
				got++
			}
		}
		if got != sent {
			t.Errorf("%d messages came, want %d", got, sent)
		}
		if _, _, err := rpc.DecodeRequest(peer.frame()); err != nil {
			t.Errorf("the call: %v", err)
		}
		if err := client.Send(t.Context(), messages); err != nil {
			t.Errorf("there is room again: %v", err)
		}

		// Of many messages those that fit are sent: five frames, while one is
		// being written.
		synctest.Wait()
		before := stats.MessagesSent.Load()
		err = client.Send(t.Context(), slices.Repeat(messages, 10))
		const want = "rpc: b: overloaded: too many bytes are waiting to be written: dropped 35 of 70 messages"
		if e := wantCode(t, err, rpc.CodeOverloaded); !e.Sent || e.Error() != want {
			t.Errorf("got %+v", e)
		}
		if got := stats.MessagesSent.Load() - before; got != 35 {
			t.Errorf("%d messages sent, want 35", got)
		}
	})
}
