package httpfront

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/cluster"
	"weir/cluster/holder"
	"weir/ring"
	"weir/ring/fabric"
)

// hop is how long anything is under way between two nodes. Callers are near.
const hop = time.Millisecond

const caller = "caller" // the host of whoever asks the nodes

// world is a few nodes on one network in memory, in virtual time, with HTTP and
// backups. The clock that they decide by stands still.
type world struct {
	t     *testing.T
	net   *fabric.Network
	clock *stoppedClock
	began time.Time
}

// virtually runs a test in a bubble.
func virtually(t *testing.T, test func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: fabric.New(), clock: newStoppedClock(), began: time.Now()}
		w.net.Delay = func(from, to string) time.Duration {
			if from == caller || to == caller {
				return 0
			}
			return hop
		}
		test(t, w)
	})
}

// dictated is a membership that says what the test wants.
type dictated struct {
	view    atomic.Pointer[ring.View]
	changed chan struct{}
}

func (d *dictated) View() *ring.View         { return d.view.Load() }
func (d *dictated) Changed() <-chan struct{} { return d.changed }
func (d *dictated) Doubt(string)             {}

func (d *dictated) set(sees ...ring.Member) {
	d.view.Store(ring.NewView(sees))
	d.changed <- struct{}{}
	synctest.Wait()
}

// start starts a node that sees these members.
func (w *world) start(name, rules string, sees ...ring.Member) (*node, *dictated) {
	w.t.Helper()
	d := &dictated{changed: make(chan struct{})}
	d.view.Store(ring.NewView(sees))
	n := newFront(w.t, setup{name: name, rules: rules, change: func(c *cluster.Config) {
		c.Members, c.Replicas, c.ForwardTimeout = d, 1, 100*time.Millisecond
		c.RPC.Dial, c.RPC.Clock = w.net.Dialer(name), w.clock.ns.Load
	}})
	dial := w.net.Dialer(caller)
	n.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return dial(ctx, address)
	}}
	n.cluster.Open(w.net.Listen(name + ":7947"))
	n.api, n.admin = name+":8080", name+":8081"
	n.front.Serve(w.net.Listen(n.api), w.net.Listen(n.admin))
	w.t.Cleanup(func() {
		n.close()
		time.Sleep(2 * idleWorker) // fasthttp's reaper ends
	})
	synctest.Wait()
	return n, d
}

// pair starts n1 and n2, which both see just that, and lets them settle.
func (w *world) pair(rules string) (n1, n2 *node) {
	w.t.Helper()
	both := []ring.Member{member("n1", ring.Active), member("n2", ring.Active)}
	n1, _ = w.start("n1", rules, both...)
	n2, _ = w.start("n2", rules, both...)
	w.settle(n1, n2)
	return n1, n2
}

// settle waits until the nodes hold what is theirs, with copies that are up to
// date, and then until 15 ms after a beat of theirs.
func (w *world) settle(nodes ...*node) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	for _, n := range nodes {
		if err := n.cluster.AwaitOwn(ctx); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, n := range nodes {
		for r := n.cluster.Replication(); r.Building > 0 || r.Lag > 0; r = n.cluster.Replication() {
			if ctx.Err() != nil {
				w.t.Fatalf("not settled: %+v", r)
			}
			time.Sleep(holder.Beat)
		}
	}
	w.afterBeat()
}

// afterBeat returns 15 ms after a beat of nodes that were started at once: the
// first one comes 10 ms after that.
func (w *world) afterBeat() {
	const first = 10 * time.Millisecond
	time.Sleep(holder.Beat - (time.Since(w.began)-first-15*time.Millisecond)%holder.Beat)
	synctest.Wait()
}
