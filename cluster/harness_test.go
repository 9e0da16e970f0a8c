package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"weir/cluster/holder"
	"weir/leaky"
	"weir/ring"
	"weir/ring/fabric"
	"weir/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hop is how long anything is under way between two nodes.
const hop = time.Millisecond

// world is a few nodes on one network in memory, in virtual time. Every node
// decides by the one virtual clock.
type world struct {
	t   *testing.T
	net *fabric.Network
}

// virtually runs a test in a bubble.
func virtually(t *testing.T, test func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		n.Delay = func(string, string) time.Duration { return hop }
		test(t, &world{t: t, net: n})
	})
}

func hostOf(name string) string { return "10.0.0." + name[1:] }
func rpcOf(name string) string  { return hostOf(name) + ":7947" }

// member is a node as views hold it.
func member(name string, state ring.State) ring.Member {
	return ring.Member{Name: name, Boot: 1, State: state, Gossip: hostOf(name) + ":7946", RPC: rpcOf(name)}
}

// view reads "n1:active n2:leaving".
func view(text string) *ring.View {
	states := map[string]ring.State{}
	for _, s := range []ring.State{ring.Joining, ring.Active, ring.Leaving, ring.Failed} {
		states[s.String()] = s
	}
	var members []ring.Member
	for field := range strings.FieldsSeq(text) {
		name, state, _ := strings.Cut(field, ":")
		members = append(members, member(name, states[state]))
	}
	return ring.NewView(members)
}

// dictated is a membership that says what the test wants, so that nodes can be
// made to disagree.
type dictated struct {
	view    atomic.Pointer[ring.View]
	changed chan struct{}
	doubted atomic.Pointer[string]
}

func (d *dictated) View() *ring.View         { return d.view.Load() }
func (d *dictated) Changed() <-chan struct{} { return d.changed }

func (d *dictated) Doubt(name string) { d.doubted.Store(&name) }

func (d *dictated) set(v *ring.View) {
	d.view.Store(v)
	d.changed <- struct{}{}
}

// config is that of a node of the world.
func (w *world) config(name string, members Membership) Config {
	return Config{
		RPC: rpc.Config{
			Self:  rpc.Identity{Name: name, Boot: 1, Label: "test", Format: ring.Format},
			Clock: func() int64 { return time.Now().UnixNano() },
			Dial:  w.net.Dialer(hostOf(name)),
		},
		Members:  members,
		Replicas: 1,
	}
}

// node starts a node that sees what the text says.
func (w *world) node(name, sees string, change ...func(*Config)) (*Cluster, *dictated) {
	w.t.Helper()
	d := &dictated{changed: make(chan struct{}, 1)}
	config := w.config(name, d)
	for _, f := range change {
		f(&config)
	}
	d.view.Store(view(""))
	c := New(config)
	c.Open(w.net.Listen(rpcOf(name)))
	w.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			w.t.Error(err)
		}
	})
	d.set(view(sees))
	synctest.Wait()
	return c, d
}

// together starts nodes that all see the same, and lets them settle.
func (w *world) together(sees string, names ...string) []*Cluster {
	w.t.Helper()
	nodes := make([]*Cluster, len(names))
	for i, name := range names {
		nodes[i], _ = w.node(name, sees)
	}
	w.settle(nodes...)
	return nodes
}

// settle waits until nodes whose views agree hold what these give them, every
// partition has its one complete copy if there are two to share it, and nobody
// has anything else. It returns 15 ms after a beat of dictated nodes that were
// started together, so that what comes next meets no timer of theirs.
func (w *world) settle(nodes ...*Cluster) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	for _, n := range nodes {
		if err := n.AwaitOwn(ctx); err != nil {
			w.t.Fatalf("%s does not get its own: %v", n.self.Name, err)
		}
	}
	for _, n := range nodes {
		n.LiveBucketsOfAll(ctx) // so that they are connected
	}
	time.Sleep(time.Until(afterBeat(nodes[0])))
	for why := unsettled(nodes); why != ""; why = unsettled(nodes) {
		if ctx.Err() != nil {
			w.t.Fatalf("not settled: %s", why)
		}
		time.Sleep(holder.Beat)
	}
}

// afterBeat is 15 ms after the next beat: the first one comes with the first
// tick.
func afterBeat(n *Cluster) time.Time {
	since := time.Since(n.started.Add(time.Hour)) // New takes an hour off
	return time.Now().Add(holder.Beat - (since-short-15*time.Millisecond)%holder.Beat)
}

// unsettled says what is not as it is when nothing has happened for long.
func unsettled(nodes []*Cluster) string {
	now := make([]int64, len(nodes))
	for i, n := range nodes {
		now[i] = n.now()
	}
	for p := range uint32(ring.Partitions) {
		holders, copies := 0, 0
		for i, n := range nodes {
			s := n.partitions[p].status(now[i])
			switch {
			case s.Building || s.Lag > 0:
				return fmt.Sprintf("partition %d is being copied by %s", p, n.self.Name)
			case s.Holds:
				holders++
			case !s.Empty:
				copies++
			}
		}
		want := 0
		if _, ok := nodes[0].View().Backup(p); ok {
			want = nodes[0].config.Replicas
		}
		if holders != 1 || copies != want {
			return fmt.Sprintf("partition %d has %d holders and %d copies", p, holders, copies)
		}
	}
	return ""
}

// awaitHolder waits until the node decides the partition, whatever views say.
func (w *world) awaitHolder(n *Cluster, p uint32) {
	w.t.Helper()
	for range 200 {
		if n.partitions[p].status(n.now()).Holds {
			return
		}
		time.Sleep(short + hop)
	}
	w.t.Fatalf("%s does not get partition %d", n.self.Name, p)
}

// owned returns a partition that has this owner in this view, or "owner backup",
// for all pairs given.
func owned(t *testing.T, pairs ...string) uint32 {
	t.Helper()
	views := make([]*ring.View, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		views = append(views, view(pairs[i]))
	}
	for p := range uint32(ring.Partitions) {
		fits := true
		for i, v := range views {
			owner, backup, named := strings.Cut(pairs[2*i+1], " ")
			o, ok := v.Owner(p)
			fits = fits && ok && v.Members()[o].Name == owner
			if named {
				b, ok := v.Backup(p)
				fits = fits && ok && v.Members()[b].Name == backup
			}
		}
		if fits {
			return p
		}
	}
	t.Fatalf("no partition is owned as in %q", pairs)
	return 0
}

func rule(t *testing.T, limit int64, window time.Duration) leaky.Rule {
	t.Helper()
	r, err := leaky.NewRule(leaky.Bucket, limit, window)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// check is one unit of a bucket that is the fingerprint's.
func check(partition uint32, fingerprint uint64, r leaky.Rule) leaky.Check {
	return leaky.Check{Partition: partition, Fingerprint: fingerprint, Rule: r, Cost: 1}
}

// one is a sequence of a single stage.
func one(checks ...leaky.Check) []Sequence { return []Sequence{{checks}} }

// says shows outcomes as in "+9 +4 -0; degraded": a sign for allowed or not and
// what remains, for each result.
func says(outcomes []Outcome) string {
	var all []string
	for _, out := range outcomes {
		var b strings.Builder
		for _, r := range out.Results {
			sign := "-"
			if r.Allowed {
				sign = "+"
			}
			fmt.Fprintf(&b, "%s%d ", sign, r.Remaining)
		}
		if out.Degraded {
			b.WriteString("degraded")
		}
		all = append(all, strings.TrimSpace(b.String()))
	}
	return strings.Join(all, "; ")
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// answered counts the calls that others answer to the node meanwhile.
func answered(c *Cluster, f func()) uint64 {
	before := c.RPC().Answered.Load()
	f()
	return c.RPC().Answered.Load() - before
}

// degraded returns "timeout=2" of all reasons that have been counted.
func degraded(c *Cluster) string {
	var out []string
	for _, r := range Reasons() {
		if n := c.Stats().Degraded[r].Load(); n > 0 {
			out = append(out, fmt.Sprintf("%s=%d", r, n))
		}
	}
	return strings.Join(out, " ")
}

// full is a node with everything that a real one has beneath HTTP.
type full struct {
	*Cluster
	ring *ring.Ring
	once sync.Once
}

// full starts a node whose membership comes by gossip, and waits until it is
// active.
func (w *world) full(name string, boot uint64, seeds ...string) *full {
	w.t.Helper()
	for i, s := range seeds {
		seeds[i] = hostOf(s) + ":7946"
	}
	gossip := hostOf(name) + ":7946"
	r, err := ring.New(ring.Config{
		Self:        ring.Member{Name: name, Boot: boot, RPC: rpcOf(name)},
		Label:       "test",
		Seeds:       seeds,
		Bind:        gossip,
		JoinTimeout: time.Second,
		Transport:   w.net.Transport(gossip),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	config := w.config(name, r)
	config.RPC.Self.Boot = boot
	n := &full{Cluster: New(config), ring: r}
	w.t.Cleanup(n.stop)
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if err := r.Join(ctx); err != nil {
		w.t.Fatal(err)
	}
	n.Open(w.net.Listen(rpcOf(name)))
	r.SetState(ring.Active)
	w.await(fmt.Sprintf("%s is active", name), n, func(v *ring.View) bool {
		m, _ := v.Member(name)
		return m.State == ring.Active
	})
	if err := n.AwaitOwn(ctx); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (n *full) stop() {
	n.once.Do(func() {
		n.Close()
		n.ring.Close()
		time.Sleep(10 * time.Second) // virtual: the gossip's last probe ends
	})
}

// crash ends a node without a word.
func (w *world) crash(n *full) {
	w.net.Crash(hostOf(n.config.RPC.Self.Name))
	n.once.Do(func() {
		n.Close()
		n.ring.Close()
	})
}

func (w *world) await(what string, n *full, condition func(*ring.View) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	if err := n.Await(ctx, condition); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// awaitAll waits until all nodes see that many active members, alike.
func (w *world) awaitAll(active int, nodes ...*full) {
	w.t.Helper()
	for _, n := range nodes {
		w.await(fmt.Sprintf("%d are active", active), n, func(v *ring.View) bool {
			count := 0
			for _, m := range v.Members() {
				if m.State == ring.Active {
					count++
				}
			}
			return count == active
		})
	}
	for _, n := range nodes {
		if n.View().Epoch() != nodes[0].View().Epoch() {
			w.t.Fatalf("%s and %s differ in their views", n.config.RPC.Self.Name, nodes[0].config.RPC.Self.Name)
		}
	}
}
