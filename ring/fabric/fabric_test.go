package fabric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const there, back = 10 * time.Millisecond, 30 * time.Millisecond

// virtually runs a test in a bubble, on a network on which what a host sends to
// a later one in the alphabet is under way for there, and else for back.
func virtually(t *testing.T, test func(*testing.T, *Network)) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		n.Capacity = 4
		n.Delay = func(from, to string) time.Duration {
			if from < to {
				return there
			}
			return back
		}
		test(t, n)
	})
}

// same compares by what is printed.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func dial(t *testing.T, n *Network, host, address string) net.Conn {
	t.Helper()
	c, err := n.Dialer(host)(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// connected returns both ends of a connection from a to b.
func connected(t *testing.T, n *Network) (a, b net.Conn) {
	l := n.Listen("b:1")
	return dial(t, n, "a", "b:1"), accept(t, l)
}

// tries says what an operation came to, and how long it took.
type tries func() (int, error)

func (f tries) wants(t *testing.T, what string, n int, err error, took time.Duration) {
	t.Helper()
	began := time.Now()
	gotN, gotErr := f()
	if got := time.Since(began); gotN != n || !errors.Is(gotErr, err) || got != took {
		t.Errorf("%s: got %d, %v after %v; want %d, %v after %v", what, gotN, gotErr, got, n, err, took)
	}
}

func reading(c net.Conn) tries { return func() (int, error) { return c.Read(make([]byte, 64)) } }
func writing(c net.Conn, text string) tries {
	return func() (int, error) { return c.Write([]byte(text)) }
}
func dialling(ctx context.Context, n *Network, host, address string) tries {
	dial := n.Dialer(host)
	return func() (int, error) { _, err := dial(ctx, address); return 0, err }
}

func TestBytesArriveInOrderAfterTheDelay(t *testing.T) {
	virtually(t, func(t *testing.T, n *Network) {
		a, b := connected(t, n)
		began := time.Now()
		var got string
		var reader sync.WaitGroup
		reader.Go(func() {
			p := make([]byte, 2)
			for {
				k, err := b.Read(p)
				got += fmt.Sprintf("%q %v %v ", p[:k], err, time.Since(began))
				if err != nil {
					return
				}
			}
		})
		writing(a, "one").wants(t, "write", 3, nil, 0)
		time.Sleep(4 * time.Millisecond)
		writing(a, "2").wants(t, "write", 1, nil, 0)
		a.Close()
		reader.Wait()
		same(t, "read", got, `"on" <nil> 10ms "e" <nil> 10ms "2" <nil> 14ms "" EOF 14ms `)
	})
	virtually(t, func(t *testing.T, n *Network) {
		a, b := connected(t, n)
		same(t, "addresses", []any{a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr()}, "[a b:1 b:1 a]")
		writing(b, "x").wants(t, "the other way", 1, nil, 0)
		reading(a).wants(t, "the other way", 1, nil, back)
		n.Delay = nil
		p := []byte("x")
		b.Write(p)
		p[0] = 'y' // what was written is a copy
		k, err := a.Read(nil)
		same(t, "into nothing", []any{k, err}, "[0 <nil>]")
		k, err = a.Read(p)
		same(t, "no delay", []any{k, err, string(p)}, "[1 <nil> x]")
	})
}

func TestWriteWaitsAtCapacity(t *testing.T) {
	virtually(t, func(t *testing.T, n *Network) {
		a, b := connected(t, n)
		var writer sync.WaitGroup
		writer.Go(func() { writing(a, "abcdef").wants(t, "write", 6, nil, there) })
		reading(b).wants(t, "up to the capacity", 4, nil, there)
		reading(b).wants(t, "the rest", 2, nil, there)
		writer.Wait()
	})
}

func TestDeadlines(t *testing.T) {
	virtually(t, func(t *testing.T, n *Network) {
		a, b := connected(t, n)
		later := func(d time.Duration) time.Time { return time.Now().Add(d) }
		writing(a, "ab").wants(t, "write", 2, nil, 0)
		b.SetReadDeadline(later(6 * time.Millisecond))
		reading(b).wants(t, "too late", 0, os.ErrDeadlineExceeded, 6*time.Millisecond)
		reading(b).wants(t, "still", 0, os.ErrDeadlineExceeded, 0)
		b.SetReadDeadline(time.Time{})
		reading(b).wants(t, "nothing is lost", 2, nil, 4*time.Millisecond)
		time.AfterFunc(time.Second, func() { b.SetReadDeadline(time.Unix(1, 0)) })
		reading(b).wants(t, "set while waiting", 0, os.ErrDeadlineExceeded, time.Second)

		a.SetWriteDeadline(later(time.Minute))
		writing(a, "abcdef").wants(t, "full", 4, os.ErrDeadlineExceeded, time.Minute)
		time.AfterFunc(time.Second, func() { b.SetReadDeadline(time.Time{}); b.Read(make([]byte, 1)) })
		a.SetDeadline(later(time.Hour))
		writing(a, "ef").wants(t, "as far as there is room", 1, os.ErrDeadlineExceeded, time.Hour)
		reading(a).wants(t, "both are over", 0, os.ErrDeadlineExceeded, 0)
	})
}

// A write under way ends when the other end is closed, a read after the bytes
// that were written before; and the own end is closed for both.
func TestClose(t *testing.T) {
	virtually(t, func(t *testing.T, n *Network) {
		a, b := connected(t, n)
		writing(b, "wxyz").wants(t, "fill", 4, nil, 0)
		time.AfterFunc(time.Second, func() {
			writing(a, "last").wants(t, "write", 4, nil, 0)
			a.Close()
			a.Close()
		})
		writing(b, "more").wants(t, "under way", 0, ErrReset, time.Second)
		reading(b).wants(t, "what was written", 4, nil, there)
		reading(b).wants(t, "the end", 0, io.EOF, 0)
		reading(a).wants(t, "own end", 0, net.ErrClosed, 0)
		writing(a, "x").wants(t, "own end", 0, net.ErrClosed, 0)

		c, d := connected(t, n)
		time.AfterFunc(time.Second, func() { c.Close() })
		reading(c).wants(t, "closed while reading", 0, net.ErrClosed, time.Second)
		reading(d).wants(t, "then", 0, io.EOF, 0)
	})
	virtually(t, func(t *testing.T, n *Network) {
		a, b := connected(t, n)
		n.Reset()
		reading(a).wants(t, "reset", 0, net.ErrClosed, 0)
		reading(b).wants(t, "reset", 0, net.ErrClosed, 0)
	})
}

func TestCutAndHeal(t *testing.T) {
	virtually(t, func(t *testing.T, n *Network) {
		a, b := connected(t, n)
		writing(a, "1").wants(t, "before", 1, nil, 0)
		n.Cut("b", "a")
		writing(a, "2").wants(t, "meanwhile", 1, nil, 0)
		b.SetReadDeadline(time.Now().Add(time.Minute))
		reading(b).wants(t, "nothing comes", 0, os.ErrDeadlineExceeded, time.Minute)
		b.SetReadDeadline(time.Time{})
		b.Close()
		writing(a, "3").wants(t, "the end is not known", 1, nil, 0)
		time.AfterFunc(time.Second, func() { n.Heal("a", "b") })
		writing(a, "45").wants(t, "until it heals", 1, ErrReset, time.Second)
	})
	virtually(t, func(t *testing.T, n *Network) {
		a, b := connected(t, n)
		n.Cut("a", "b")
		n.Cut("a", "c")
		writing(a, "1").wants(t, "write", 1, nil, 0)
		time.AfterFunc(time.Second, func() { n.Heal("a", "c") })
		time.AfterFunc(time.Minute, func() { n.Heal("a", "b") })
		reading(b).wants(t, "goes on", 1, nil, time.Minute)
		writing(a, "2").wants(t, "write", 1, nil, 0)
		reading(b).wants(t, "as before", 1, nil, there)
	})
}

func TestIsolate(t *testing.T) {
	virtually(t, func(t *testing.T, n *Network) {
		for _, host := range []string{"a", "b", "c"} {
			n.Listen(host + ":1")
		}
		n.Isolate("b")
		dialling(t.Context(), n, "b", "b:1").wants(t, "itself", 0, nil, 0)
		dialling(t.Context(), n, "c", "a:1").wants(t, "others", 0, nil, 0)
		for _, pair := range [][2]string{{"a", "b:1"}, {"b", "c:1"}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			dialling(ctx, n, pair[0], pair[1]).wants(t, "cut off", 0, context.DeadlineExceeded, time.Second)
		}
		time.AfterFunc(time.Minute, func() { n.Reconnect("b") })
		dialling(t.Context(), n, "a", "b:1").wants(t, "until it is back", 0, nil, time.Minute)
		dialling(t.Context(), n, "b", "c:1").wants(t, "then", 0, nil, 0)
	})
}
