package ring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestNodesConverge(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		var rings []*Ring
		var want []string
		for node := 1; node <= 5; node++ {
			rings = append(rings, w.start(node))
			want = append(want, fmt.Sprintf("n%d:active", node))
			took := w.within(time.Second, "all see the new node", agree(strings.Join(want, " "), rings...))
			t.Logf("node %d is seen by all after %s", node, took)
		}
		m, ok := rings[0].View().Member("n5")
		want5 := Member{Name: "n5", Boot: 5, State: Active, Gossip: address(5), RPC: "r", HTTP: "h", Admin: "a", Version: "v", Policy: "p"}
		if !ok || m != want5 {
			t.Errorf("%+v, want %+v", m, want5)
		}
	})
}

// A crash is seen by all, and the node that comes back, with
// another boot, as soon as it has joined.
func TestCrashAndRestart(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, b, c := w.start(1), w.start(2), w.start(3)
		w.within(time.Second, "all see all", agree("n1:active n2:active n3:active", a, b, c))
		w.crash(3)
		took := w.within(4*time.Second, "the crash is seen", agree("n1:active n2:active n3:failed", a, b))
		t.Logf("seen after %s", took)
		if owned := a.View().Owned("n3"); owned != 0 {
			t.Errorf("the dead node owns %d partitions", owned)
		}
		c = w.start(3)
		w.within(time.Second, "it is back", agree("n1:active n2:active n3:active", a, b, c))
		if m, _ := a.View().Member("n3"); m.Boot != 4 {
			t.Errorf("boot %d, want 4", m.Boot)
		}
		// A restart that is faster than the detection of the crash.
		w.crash(2)
		b = w.start(2)
		w.within(time.Second, "the new boot is known to all", func() bool {
			for _, r := range []*Ring{a, c} {
				if m, _ := r.View().Member("n2"); m.Boot != 5 || m.State != Active {
					return false
				}
			}
			return agree("n1:active n2:active n3:active", a, b, c)()
		})
	})
}

// The first node, restarted, rejoins the others though nobody else starts.
func TestFirstNodeRestarts(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, b := w.start(1), w.start(2)
		w.within(time.Second, "both see both", agree("n1:active n2:active", a, b))
		w.crash(1)
		w.within(4*time.Second, "the crash is seen", agree("n1:failed n2:active", b))
		a = w.start(1)
		w.within(time.Second, "one cluster", agree("n1:active n2:active", a, b))
	})
}

func TestLeaving(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, b, c := w.start(1), w.start(2), w.start(3)
		w.within(time.Second, "all see all", agree("n1:active n2:active n3:active", a, b, c))
		c.SetState(Leaving)
		c.SetState(Active) // leaving is final
		took := w.within(500*time.Millisecond, "all see it leave", agree("n1:active n2:active n3:leaving", a, b, c))
		t.Logf("seen after %s", took)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Leave(ctx); err != nil {
			t.Fatal(err)
		}
		w.within(500*time.Millisecond, "it is gone at once", agree("n1:active n2:active", a, b))
		// Who has left does not come back by itself.
		time.Sleep(30 * time.Second)
		if !agree("n1:active n2:active", a, b)() {
			t.Errorf("%s", states(a))
		}
	})
}

// Cut off for 40 s, long enough that everybody has given the node up; then the
// link heals, and the two sides find each other without help.
func TestSplitHealsByItself(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, b, c := w.start(1), w.start(2), w.start(3)
		w.within(time.Second, "all see all", agree("n1:active n2:active n3:active", a, b, c))
		w.net.Isolate(host(3))
		w.within(5*time.Second, "each side gives the other up", func() bool {
			return agree("n1:active n2:active n3:failed", a, b)() && agree("n1:failed n2:failed n3:active", c)()
		})
		time.Sleep(40 * time.Second)
		w.net.Reconnect(host(3))
		took := w.within(5*time.Second, "it heals", agree("n1:active n2:active n3:active", a, b, c))
		t.Logf("healed after %s", took)
	})
}

// A member that was never a seed is looked for, too.
func TestMissingMembersAreLookedFor(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		onlyFirst := func(c *Config) { c.Seeds = []string{address(1)} }
		a := w.start(1, func(c *Config) { c.Seeds = nil })
		b, c := w.start(2, onlyFirst), w.start(3, onlyFirst)
		w.within(time.Second, "all see all", agree("n1:active n2:active n3:active", a, b, c))
		w.crash(1)
		w.net.Isolate(host(3))
		w.within(5*time.Second, "all are apart", func() bool {
			return agree("n1:failed n2:active n3:failed", b)() && agree("n1:failed n2:failed n3:active", c)()
		})
		w.net.Reconnect(host(3))
		w.within(5*time.Second, "they find each other without their seed", agree("n1:failed n2:active n3:active", b, c))
	})
}

// A node that is started before any of its seeds serves alone once the join
// timeout has passed, and merges with them when they come.
func TestStartedBeforeItsSeeds(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		began := time.Now()
		a := w.start(1)
		if took := time.Since(began); took < time.Second || took > 2*time.Second {
			t.Errorf("joined alone after %s, the join timeout is 1 s", took)
		}
		w.within(time.Second, "it serves alone", agree("n1:active", a))
		b := w.start(2, func(c *Config) { c.Seeds = []string{address(3)} }) // does not know it, either
		c := w.start(3, func(c *Config) { c.Seeds = nil })
		w.within(5*time.Second, "all have merged", agree("n1:active n2:active n3:active", a, b, c))
	})
}

// Those who look for a node may find it before it looks for them. It has joined
// all the same, also if another of its seeds does not live.
func TestFoundBeforeItLooks(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a := w.start(1, func(c *Config) { c.Seeds = nil })
		b := w.start(2, func(c *Config) { c.Seeds = []string{address(1), address(3)} })
		config := w.config(3)
		config.JoinTimeout = time.Hour
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		w.rings["c"] = c
		w.within(5*time.Second, "it is found", agree("n1:active n2:active n3:joining", a, b, c))
		began := time.Now()
		if err := c.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("joined after %s", took)
		}
	})
}

func TestNoSeedsIsAloneAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		for _, seeds := range [][]string{nil, {address(1)}} { // none, or only itself
			began := time.Now()
			r := w.start(1, func(c *Config) { c.Seeds = seeds })
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("seeds %v: took %s", seeds, took)
			}
			w.within(time.Second, "it is active", agree("n1:active", r))
			w.crash(1)
		}
	})
}

func TestJoinEndsWithItsContext(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		r, err := New(w.config(1))
		if err != nil {
			t.Fatal(err)
		}
		w.rings["x"] = r
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := r.Join(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// Nodes of different ring formats refuse each other, and both sides say so.
func TestAnotherFormatIsRefused(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		var log1, log2 logged
		a := w.start(1, func(c *Config) { c.Log = log1.logger() })
		began := time.Now()
		_, err := w.tryStart(2, func(c *Config) { c.Log, c.format = log2.logger(), 7 })
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `"n1" at 10.0.0.1:7946 has 1, this node has 7`) {
			t.Errorf("Join: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s to be refused", took)
		}
		if says := log1.String(); !strings.Contains(says, "member refused") || !strings.Contains(says, "10.0.0.2:7946 has 7, this node has 1") {
			t.Errorf("the member that was there says %q", says)
		}
		if says := log2.String(); !strings.Contains(says, "member refused") {
			t.Errorf("the joiner says %q", says)
		}
		time.Sleep(10 * time.Second)
		if got := states(a); got != "n1:active" {
			t.Errorf("%s", got)
		}
	})
}

// A stranger of another format does not end a node that is itself joining.
func TestStrangerDoesNotStopAJoin(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		stranger, err := New(func() Config {
			c := w.config(9)
			c.format, c.Seeds, c.JoinTimeout = 7, []string{address(1)}, time.Minute
			return c
		}())
		if err != nil {
			t.Fatal(err)
		}
		w.rings["stranger"] = stranger
		joined := make(chan error, 1)
		go func() { joined <- stranger.Join(t.Context()) }()
		a := w.start(1, func(c *Config) { c.Seeds = []string{address(2)} })
		w.within(time.Second, "it serves alone", agree("n1:active", a))
		if err := <-joined; !errors.Is(err, ErrFormat) {
			t.Errorf("the stranger: %v", err)
		}
	})
}

func TestLabelsKeepClustersApart(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a := w.start(1)
		b := w.start(2, func(c *Config) { c.Label = "other" })
		time.Sleep(30 * time.Second)
		if states(a) != "n1:active" || states(b) != "n2:active" {
			t.Errorf("%s and %s", states(a), states(b))
		}
	})
}

func TestNameTaken(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		named := func(c *Config) { c.Self.Name = "same" }
		a, b := w.start(1, named), w.start(2)
		w.within(time.Second, "both see both", agree("n2:active same:active", a, b))
		began := time.Now()
		_, err := w.tryStart(3, named)
		if !errors.Is(err, ErrNameTaken) || !strings.Contains(err.Error(), address(1)) {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 15*time.Second {
			t.Errorf("gave up after %s, want 10 s", took)
		}
		w.crash(3)
		// The first owner dies while another one waits for its name.
		joined := make(chan error, 1)
		var c *Ring
		go func() {
			var err error
			c, err = w.tryStart(4, named)
			joined <- err
		}()
		time.Sleep(2 * time.Second)
		w.net.Crash(host(1))
		a.Close()
		if err := <-joined; err != nil {
			t.Fatalf("the name is not freed by a crash: %v", err)
		}
		w.within(time.Second, "the name has moved", func() bool {
			m, ok := b.View().Member("same")
			return ok && m.Gossip == address(4) && m.State == Active && agree("n2:active same:active", b, c)()
		})
	})
}

// After a clean leave the name is free at once.
func TestNameIsFreeAfterLeaving(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		named := func(c *Config) { c.Self.Name = "same" }
		a, b := w.start(1, named), w.start(2)
		w.within(time.Second, "both see both", agree("n2:active same:active", a, b))
		a.SetState(Leaving)
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.crash(1)
		began := time.Now()
		c := w.start(3, named)
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %s", took)
		}
		w.within(time.Second, "the name has moved", func() bool {
			m, ok := b.View().Member("same")
			return ok && m.Gossip == address(3) && agree("n2:active same:active", b, c)()
		})
	})
}

// A name that resolves to nothing yet is looked up again and again.
func TestSeedsFromNames(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		names := map[string][]string{}
		look := func(_ context.Context, name string) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			if ips := names[name]; len(ips) > 0 {
				return ips, nil
			}
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
		byName := func(c *Config) { c.Seeds, c.LookupHost = []string{"dns+weir.test:7946"}, look }
		a, b := w.start(1, byName), w.start(2, byName)
		time.Sleep(3 * time.Second)
		if states(a) != "n1:active" || states(b) != "n2:active" {
			t.Fatalf("%s and %s", states(a), states(b))
		}
		mu.Lock()
		names["weir.test"] = []string{host(1), host(2), host(3)}
		mu.Unlock()
		w.within(5*time.Second, "they find each other", agree("n1:active n2:active", a, b))
	})
}

func TestBadConfigs(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.Seeds = []string{"nowhere"} }, `"nowhere"`},
		{func(c *Config) { c.Seeds = []string{"dns+:7946"} }, `"dns+:7946"`},
		{func(c *Config) { c.Bind = "127.0.0.1" }, "127.0.0.1"},
		{func(c *Config) { c.Bind = "127.0.0.1:99999" }, "99999"},
		{func(c *Config) { c.Self.Name = strings.Repeat("x", 256) }, "1 to 255 printable bytes"},
		{func(c *Config) { c.Self.HTTP = strings.Repeat("x", 300) }, "http"},
		{func(c *Config) { c.Self.HTTP, c.Self.RPC = strings.Repeat("x", 250), strings.Repeat("x", 251) }, "rpc"},
		{func(c *Config) { c.Label = strings.Repeat("x", 256) }, "label"},
	} {
		config := Config{Self: Member{Name: "a"}, Bind: "127.0.0.1:0"}
		c.change(&config)
		r, err := New(config)
		if err == nil {
			r.Close()
			t.Errorf("no error, want one that says %s", c.says)
		} else if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v does not say %s", err, c.says)
		}
	}
}

// Real sockets, free ports, names from the addresses.
func TestRealSockets(t *testing.T) {
	var rings []*Ring
	for range 3 {
		var seeds []string
		for _, r := range rings {
			seeds = append(seeds, r.Self().Gossip)
		}
		r, err := New(Config{Self: Member{Boot: 1}, Label: "test", Bind: "localhost:0", Seeds: seeds, JoinTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if self := r.Self(); self.Name != self.Gossip || !strings.HasPrefix(self.Name, "127.0.0.1:") || strings.HasSuffix(self.Name, ":0") {
			t.Errorf("%+v", self)
		}
		if err := r.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.SetState(Active)
		rings = append(rings, r)
	}
	deadline := time.After(20 * time.Second)
	for {
		active := 0
		for _, m := range rings[0].View().Members() {
			if m.State == Active {
				active++
			}
		}
		if active == 3 {
			break
		}
		select {
		case <-rings[0].Changed():
		case <-deadline:
			t.Fatalf("%s", states(rings[0]))
		}
	}
	if err := rings[2].Close(); err != nil {
		t.Error(err)
	}
	if err := rings[2].Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}
