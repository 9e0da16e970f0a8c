package ring

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/ring/fabric"
)

// stranger is a member of the gossip that says what it likes.
type stranger struct{ said []byte }

func (s stranger) metadata() []byte                           { return s.said }
func (stranger) heard(string, string, []byte)                 {}
func (stranger) lost(string, bool)                            {}
func (stranger) vet(string, string, []byte, bool, bool) error { return nil }
func (stranger) conflict(name, address, other string)         {}

// A peer whose name could not be told on is no member.
func TestStrangersWithBadNames(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		var log logged
		a := w.start(1, func(c *Config) { c.Log = log.logger() })
		said, err := encodeMetadata(Member{Boot: 9, State: Active, RPC: "r"}, Format)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{strings.Repeat("x", 256), "a\nb", "a\xff", "\u200b"} {
			node := 2 + i
			g, err := startGossip(name, "test", net.ParseIP(host(node)), 7946, w.net.Transport(address(node)),
				stranger{said}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			_ = g.join(address(1)) // refused, or not: what counts is what the member makes of it
			time.Sleep(3 * time.Second)
			if got := states(a); got != "n1:active" {
				t.Errorf("the name %.20q: %s", name, got)
			}
			if err := g.stop(); err != nil {
				t.Error(err)
			}
		}
		if says := log.String(); !strings.Contains(says, "member refused") || !strings.Contains(says, "no name of a member") {
			t.Errorf("the log says %q", says)
		}
	})
}

// A roster holds so many members and no more; those long dead make room.
func TestRosterIsBounded(t *testing.T) {
	r := newRoster()
	name := func(i int) string { return fmt.Sprint("n", i) }
	for i := range maxMembers + 5 {
		r.alive(Member{Name: name(i), State: Active})
	}
	if n := len(r.all()); n != maxMembers {
		t.Fatalf("%d members, want %d", n, maxMembers)
	}
	start := time.Unix(1_767_225_600, 0)
	r.gone(name(7), false, start)
	r.gone(name(3), false, start.Add(time.Second))
	r.alive(Member{Name: "new", State: Active})
	has := func(name string) bool {
		for _, m := range r.all() {
			if m.Name == name {
				return true
			}
		}
		return false
	}
	if !has("new") || has(name(7)) || !has(name(3)) {
		t.Error("the one that failed first was to make room")
	}
	r.gone(name(5), true, start)
	if has(name(5)) {
		t.Error("one that has left is remembered")
	}
}

// The first node has no seeds. Killed and started again so fast that nobody saw
// it die, it is alone until somebody who has found another run of it says so.
func TestDoubtBringsANewRunBack(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		none := func(c *Config) { c.Seeds = nil }
		a := w.start(1, none)
		b := w.start(2, func(c *Config) { c.Seeds = []string{address(1)} })
		w.within(time.Second, "both see both", agree("n1:active n2:active", a, b))
		w.crash(1)
		a = w.start(1, none)
		b.Doubt("nobody")
		b.Doubt("n1")
		took := w.within(time.Second, "they are one cluster again", func() bool {
			m, _ := b.View().Member("n1")
			return m.Boot == a.Self().Boot && agree("n1:active n2:active", a, b)()
		})
		t.Logf("after %s", took)
	})
}

func TestLeaveAfterClose(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a := w.start(1)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := a.Leave(t.Context()); err != nil {
			t.Errorf("Leave after Close: %v", err)
		}
	})
}

// virtual is a node's transport that leads every other address to the node
// itself.
type virtual struct {
	*fabric.Transport
	own   string
	dials atomic.Int64
}

func (v *virtual) DialTimeout(_ string, timeout time.Duration) (net.Conn, error) {
	v.dials.Add(1)
	return v.Transport.DialTimeout(v.own, timeout)
}

// A seed that is this node under another address answers, and is nobody.
func TestSeedThatIsTheNodeItself(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		var log logged
		v := &virtual{own: address(1)}
		began := time.Now()
		a := w.start(1, func(c *Config) {
			v.Transport = w.net.Transport(address(1))
			c.Seeds, c.Transport, c.Log = []string{"10.0.0.9:7946"}, v, log.logger()
		})
		if took := time.Since(began); took < time.Second {
			t.Errorf("it took itself for another after %s", took)
		}
		if says := log.String(); !strings.Contains(says, "no seed answers") {
			t.Errorf("the log says %q", says)
		}
		w.within(time.Second, "it serves alone", agree("n1:active", a))
		time.Sleep(time.Minute)
		if n := v.dials.Load(); n < 8 || n > 16 {
			t.Errorf("it has asked itself %d times in a minute", n)
		}
	})
}

// What the library logs is for debugging, but for gossip without UDP.
func TestLibraryLog(t *testing.T) {
	var log logged
	l := libraryLog{log.logger()}
	for _, line := range []string{
		"[DEBUG] memberlist: Stream connection from=10.0.0.2:1\n",
		"[WARN] memberlist: Was able to connect to n2 over TCP but UDP probes failed, network may be misconfigured\n",
		"[ERR] memberlist: discarding stream with unacceptable label \"blue\": from=10.0.0.2:1\n",
	} {
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if says := log.String(); strings.Count(says, "\n") != 2 || strings.Count(says, "level=WARN") != 2 ||
		!strings.Contains(says, "gossip passes by TCP only") || !strings.Contains(says, "gossip of another cluster is refused") {
		t.Errorf("the log says %q", says)
	}
}
