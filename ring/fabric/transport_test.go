package fabric

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// got says what has come to a transport, from whom and when after the start.
func got(tr *Transport, began time.Time) string {
	var all string
	for {
		select {
		case p := <-tr.PacketCh():
			all += fmt.Sprintf("%s from %s at %v; ", p.Buf, p.From, p.Timestamp.Sub(began))
		default:
			return all
		}
	}
}

func send(t *testing.T, tr *Transport, text, to string) {
	t.Helper()
	if at, err := tr.WriteTo([]byte(text), to); err != nil || !at.Equal(time.Now()) {
		t.Errorf("%s: sent at %v, %v", text, at, err)
	}
}

func TestPackets(t *testing.T) {
	virtually(t, func(t *testing.T, n *Network) {
		a, b := n.Transport("a:7"), n.Transport("b:7")
		began := time.Now()
		buf := []byte("1")
		a.WriteTo(buf, "b:7")
		buf[0] = 'x' // the packet is a copy
		send(t, b, "2", "a:7")
		send(t, b, "3", "b:7")
		send(t, b, "lost", "b:8")
		time.Sleep(time.Second)
		same(t, "b", got(b, began), "1 from a:7 at 10ms; 3 from b:7 at 30ms; ")
		same(t, "a", got(a, began), "2 from b:7 at 30ms; ")

		began = time.Now()
		send(t, a, "lost on arrival", "b:7")
		n.Cut("a", "b")
		send(t, a, "lost at once", "b:7")
		time.Sleep(there + 1)
		send(t, a, "lost though healed", "b:7")
		n.Heal("a", "b")
		send(t, a, "4", "b:7")
		time.Sleep(time.Second)
		same(t, "b", got(b, began), "4 from a:7 at 20.000001ms; ")

		n.Delay = nil
		for range packetQueue + 9 {
			send(t, a, "5", "b:7")
		}
		same(t, "queued", len(b.PacketCh()), packetQueue)
	})
}

func TestStreams(t *testing.T) {
	virtually(t, func(t *testing.T, n *Network) {
		a, b := n.Transport("a:7"), n.Transport("b:7")
		c, err := a.DialTimeout("b:7", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		writing(c, "x").wants(t, "write", 1, nil, 0)
		reading(<-b.StreamCh()).wants(t, "read", 1, nil, there)
		dial := tries(func() (int, error) { _, err := a.DialTimeout("b:7", time.Second); return 0, err })
		n.Cut("a", "b")
		dial.wants(t, "cut off", 0, context.DeadlineExceeded, time.Second)
		time.AfterFunc(time.Millisecond, func() { n.Crash("a") })
		dial.wants(t, "crash", 0, net.ErrClosed, time.Millisecond)
	})
}

// A transport that is shut down, that another one has replaced, or whose host
// has crashed, takes and sends nothing more.
func TestTransportEnds(t *testing.T) {
	for what, end := range map[string]func(*Network, *Transport){
		"shutdown": func(_ *Network, b *Transport) { b.Shutdown(); b.Shutdown() },
		"replaced": func(n *Network, _ *Transport) { n.Transport("b:7") },
		"crash":    func(n *Network, _ *Transport) { n.Crash("b") },
	} {
		t.Run(what, func(t *testing.T) {
			virtually(t, func(t *testing.T, n *Network) {
				a, b := n.Transport("a:7"), n.Transport("b:7")
				began := time.Now()
				send(t, b, "on its way", "a:7")
				send(t, a, "too late", "b:7")
				waiting := dial(t, n, "a", "b:7")
				end(n, b)
				reading(waiting).wants(t, "not accepted", 0, io.EOF, 0)
				_, err := b.WriteTo([]byte("lost"), "a:7")
				same(t, "send", err, net.ErrClosed)
				_, err = b.DialTimeout("a:7", time.Second)
				same(t, "dial", err, net.ErrClosed)
				if what != "replaced" {
					dialling(t.Context(), n, "a", "b:7").wants(t, "dial it", 0, ErrRefused, 0)
				}
				time.Sleep(time.Second)
				same(t, "came", got(b, began), "")
				same(t, "was sent", got(a, began), "on its way from b:7 at 30ms; ")

				// The next one of the address is not harmed by the old one.
				next := n.Transport("b:7")
				b.Shutdown()
				dialling(t.Context(), n, "a", "b:7").wants(t, "dial the next", 0, nil, 0)
				send(t, a, "1", "b:7")
				time.Sleep(time.Second)
				same(t, "the next", len(next.PacketCh()), 1)
			})
		})
	}
}

func TestAdvertisedAddress(t *testing.T) {
	ip, port, err := New().Transport("10.0.0.1:7946").FinalAdvertiseAddr("", 0)
	same(t, "address", []any{ip, port, err}, "[10.0.0.1 7946 <nil>]")
	if _, _, err := New().Transport("no port").FinalAdvertiseAddr("", 0); err == nil {
		t.Error("an address without a port is taken")
	}
}
