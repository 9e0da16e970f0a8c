package ring

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"weir/ring/fabric"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a few nodes on one network, in virtual time.
type world struct {
	t     *testing.T
	net   *fabric.Network
	rings map[string]*Ring
	boots uint64
}

func newWorld(t *testing.T) *world {
	n := fabric.New()
	n.Delay = func(string, string) time.Duration { return 500 * time.Microsecond }
	return &world{t: t, net: n, rings: make(map[string]*Ring)}
}

// virtually runs a test in a bubble, and closes its nodes at the end.
func virtually(t *testing.T, test func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { // also when the test has failed, or the bubble never ends
			for _, r := range w.rings {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(10 * time.Second) // virtual: see gossip.stop
		}()
		test(t, w)
	})
}

func address(node int) string { return fmt.Sprintf("10.0.0.%d:7946", node) }
func host(node int) string    { return fmt.Sprintf("10.0.0.%d", node) }

// config is that of a node which knows all of five as seeds.
func (w *world) config(node int) Config {
	w.boots++
	var seeds []string
	for i := 1; i <= 5; i++ {
		seeds = append(seeds, address(i))
	}
	return Config{
		Self:        Member{Name: fmt.Sprintf("n%d", node), Boot: w.boots, RPC: "r", HTTP: "h", Admin: "a", Version: "v", Policy: "p"},
		Label:       "test",
		Seeds:       seeds,
		Bind:        address(node),
		JoinTimeout: time.Second,
		Transport:   w.net.Transport(address(node)),
	}
}

// start makes a node, joins it and makes it active.
func (w *world) start(node int, change ...func(*Config)) *Ring {
	w.t.Helper()
	r, err := w.tryStart(node, change...)
	if err != nil {
		w.t.Fatalf("node %d: %v", node, err)
	}
	return r
}

func (w *world) tryStart(node int, change ...func(*Config)) (*Ring, error) {
	w.t.Helper()
	c := w.config(node)
	for _, f := range change {
		f(&c)
	}
	r, err := New(c)
	if err != nil {
		w.t.Fatalf("node %d: %v", node, err)
	}
	w.rings[r.Self().Name+"@"+address(node)+fmt.Sprint(c.Self.Boot)] = r
	if err := r.Join(w.t.Context()); err != nil {
		return r, err
	}
	r.SetState(Active)
	return r, nil
}

// crash ends a node without a word.
func (w *world) crash(node int) {
	w.net.Crash(host(node))
	for key, r := range w.rings {
		if strings.Contains(key, "@"+address(node)) {
			if err := r.Close(); err != nil {
				w.t.Error(err)
			}
			delete(w.rings, key)
		}
	}
}

// within lets time pass until a condition holds, and returns how much did.
func (w *world) within(bound time.Duration, what string, condition func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !condition() {
		if time.Since(began) > bound {
			for key, r := range w.rings {
				w.t.Logf("%s: %s", key, states(r))
			}
			w.t.Fatalf("in %s it has not come true that %s", bound, what)
		}
		time.Sleep(10 * time.Millisecond) // virtual: the bubble's clock jumps
	}
	return time.Since(began)
}

// states shows a View, as in "n1:active n2:failed".
func states(r *Ring) string {
	var out []string
	for _, m := range r.View().Members() {
		out = append(out, m.Name+":"+m.State.String())
	}
	return strings.Join(out, " ")
}

// agree reports whether all the nodes see this, and the same owners.
func agree(want string, rings ...*Ring) func() bool {
	return func() bool {
		for _, r := range rings {
			if states(r) != want || r.View().Epoch() != rings[0].View().Epoch() {
				return false
			}
		}
		return true
	}
}

// logged is a log that can be read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
