package cluster

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
	"weir/ring"
)

var (
	churnRounds = flag.Int("churn.rounds", 10, "changes of the membership in TestChurn")
	churnSeed   = flag.Uint64("churn.seed", 0, "seed of TestChurn; 0 picks one")
)

const (
	churnLimit = 30
	churnParts = 40
	churnMost  = 5 // members
)

// churn is a cluster in which something happens all the time, and what its
// callers have seen.
type churn struct {
	*world
	rand  *rand.Rand
	rule  leaky.Rule
	boots map[string]uint64

	mu       sync.Mutex
	nodes    []*full // that may be asked
	gone     []*full // since the last round
	round    uint64
	log      map[leaky.Check][]time.Time // when a unit was admitted
	cut      cut
	differed time.Time     // when views were last seen to differ
	slowest  time.Duration // for views to agree once a cut had healed
	calls    int
	failed   []string
	degraded int
}

// Random changes of the membership, one after another, while callers ask: every
// bucket admits its limit and what the change may cost, and nothing is lost
// later. The seed gives the changes and the calls.
func TestChurn(t *testing.T) {
	seed := *churnSeed
	if seed == 0 {
		seed = rand.Uint64() >> 20
	}
	t.Logf("%d changes from seed %d", *churnRounds, seed)
	counts := map[string]int{}
	var calls, degraded, extra int
	var slowest time.Duration
	var before, after runtime.MemStats
	var goroutines [2]int
	virtually(t, func(t *testing.T, w *world) {
		c := &churn{
			world: w, rand: rand.New(rand.NewPCG(seed, 3)), rule: rule(t, churnLimit, leaky.MaxWindow),
			boots: map[string]uint64{}, log: map[leaky.Check][]time.Time{},
		}
		for range 3 {
			c.join()
		}
		c.rest()
		for i := range *churnRounds {
			if i == min(5, *churnRounds-1) {
				runtime.GC()
				runtime.ReadMemStats(&before)
				goroutines[0] = runtime.NumGoroutine() / len(c.nodes)
			}
			what := c.next()
			counts[what]++
			extra += c.play(what)
			if t.Failed() {
				t.Logf("in round %d: %s, of seed %d", i, what, seed)
				return
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		goroutines[1] = runtime.NumGoroutine() / len(c.nodes)
		calls, degraded, slowest = c.calls, c.degraded, c.slowest
	})
	t.Logf("%v: %d calls, %d degraded, %d admitted beyond a limit", counts, calls, degraded, extra)
	t.Logf("views agree %s after a cut has healed, at the latest", slowest)
	t.Logf("heap %d kB, then %d kB; goroutines for each node %d, then %d", before.HeapAlloc>>10, after.HeapAlloc>>10, goroutines[0], goroutines[1])
	if after.HeapAlloc > 2*before.HeapAlloc+(16<<20) {
		t.Errorf("the heap grows from %d to %d bytes", before.HeapAlloc, after.HeapAlloc)
	}
	if goroutines[1] > 2*goroutines[0]+20 {
		t.Errorf("goroutines grow from %d to %d for each node", goroutines[0], goroutines[1])
	}
}

// next draws a change that is possible now.
func (c *churn) next() string {
	for {
		what := []string{"join", "join of two", "leave", "restart", "join and leave", "crash", "crash and return", "hang", "split"}[c.rand.IntN(9)]
		switch n := len(c.nodes); {
		case what == "join of two" && n+2 > churnMost:
		case strings.HasPrefix(what, "join") && n >= churnMost, what != "join" && n < 3:
		default:
			return what
		}
	}
}

// play makes the change while callers ask, waits until all is as it should be,
// and returns what was admitted beyond the limits.
func (c *churn) play(what string) int {
	c.mu.Lock()
	c.round++
	c.mu.Unlock()
	stop := c.callers()
	time.Sleep(200 * time.Millisecond)
	costly := c.change(what)
	c.rest()
	time.Sleep(200 * time.Millisecond)
	stop()
	for _, n := range c.gone {
		if !slices.Contains(c.nodes, n) {
			n.Cluster, n.ring = nil, nil // the test's cleanup knows the node for longer
		}
	}
	c.gone = nil
	c.rest() // gossip may have taken a node for dead since, that has hung
	if c.cut != (cut{}) {
		costly = append(costly, c.healing())
		c.cut = cut{}
	}
	return c.check(what, costly)
}

// cut is a time in which not all nodes could reach each other.
type cut struct {
	costs  time.Time // since when what is admitted may be lost
	healed time.Time
}

// healing returns the span that the last cut may cost: until all see each other
// again, and whoever gives way has sent its words. Who was cut off may be taken
// for dead, and take others for dead, a while after the cut has healed.
func (c *churn) healing() span {
	agreed := c.cut.healed
	if c.differed.After(agreed) {
		agreed = c.differed
	}
	took := agreed.Sub(c.cut.healed)
	c.slowest = max(c.slowest, took)
	if took > agreeing {
		c.t.Errorf("%s after a cut has healed views still differ", took)
	}
	return span{c.cut.costs.Add(-unreplicated), agreed.Add(merging)}
}

// span is a time in which what is admitted may be lost.
type span struct{ from, to time.Time }

// since is the span from a moment, and what no copy had then, to now, and a
// while longer.
func since(moment time.Time, longer time.Duration) span {
	return span{moment.Add(-unreplicated), time.Now().Add(longer)}
}

const (
	unreplicated = 150 * time.Millisecond // a beat, and what a batch takes to be acknowledged
	inFlight     = 10 * time.Millisecond  // for an answer to arrive, and be noted
	givenUp      = 500 * time.Millisecond // for calls under way at a node that is cut off, which may take over what it has copies of
	agreeing     = 5 * time.Second        // until all see each other again
	merging      = 300 * time.Millisecond // from then on, for the words of whoever gives way to arrive
)

// change makes the change, and returns when it may cost something.
func (c *churn) change(what string) (costly []span) {
	began := time.Now()
	pick := func() *full { return c.nodes[c.rand.IntN(len(c.nodes))] }
	switch what {
	case "join":
		c.join()
	case "join of two":
		var joining sync.WaitGroup
		for _, name := range c.free(2) {
			joining.Go(func() { c.start(name) })
		}
		joining.Wait()
	case "leave":
		c.leave(pick())
	case "restart":
		n := pick()
		c.leave(n)
		c.start(n.self.Name)
	case "join and leave":
		n := pick()
		var leaving sync.WaitGroup
		leaving.Go(func() { c.leave(n) })
		c.join()
		leaving.Wait()
	case "crash", "crash and return":
		n := pick()
		c.hide(n)
		c.crash(n)
		costly = append(costly, since(began, inFlight))
		if what == "crash" {
			time.Sleep(3 * time.Second)
		} else {
			c.start(n.self.Name)
		}
	case "hang":
		n := pick()
		c.hide(n)
		c.net.Isolate(hostOf(n.self.Name))
		costly = append(costly, since(began, givenUp))
		time.Sleep(time.Duration(c.rand.IntN(4000)) * time.Millisecond)
		c.net.Reconnect(hostOf(n.self.Name))
		c.cut = cut{costs: time.Now(), healed: time.Now()}
		c.show(n)
	case "split":
		n := pick()
		for _, other := range c.nodes {
			if other != n {
				c.net.Cut(hostOf(n.self.Name), hostOf(other.self.Name))
			}
		}
		time.Sleep(time.Second + time.Duration(c.rand.IntN(5000))*time.Millisecond)
		for _, other := range c.nodes {
			if other != n {
				c.net.Heal(hostOf(n.self.Name), hostOf(other.self.Name))
			}
		}
		c.cut = cut{costs: began, healed: time.Now()}
	}
	return costly
}

func (c *churn) join() { c.start(c.free(1)[0]) }

// free returns names that no node has.
func (c *churn) free(count int) (names []string) {
	for i := 1; len(names) < count; i++ {
		name := fmt.Sprintf("n%d", i)
		if !slices.ContainsFunc(c.nodes, func(n *full) bool { return n.self.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// start runs a node under a name, which may have been used before.
func (c *churn) start(name string) {
	c.mu.Lock()
	c.boots[name]++
	boot := c.boots[name]
	var seeds []string
	for _, n := range c.nodes {
		seeds = append(seeds, n.self.Name)
	}
	c.mu.Unlock()
	c.show(c.full(name, boot, seeds...))
}

func (c *churn) show(n *full) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = append(c.nodes, n)
	slices.SortFunc(c.nodes, func(a, b *full) int { return strings.Compare(a.self.Name, b.self.Name) })
}

func (c *churn) hide(n *full) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = slices.DeleteFunc(c.nodes, func(have *full) bool { return have == n })
	c.gone = append(c.gone, n)
}

// leave is what a node does that is told to stop. Callers go on asking it.
func (c *churn) leave(n *full) {
	n.ring.SetState(ring.Leaving)
	c.mustSoon("it has handed all over", n.AwaitEmpty)
	time.Sleep(500 * time.Millisecond)
	c.hide(n)
	c.mustSoon("it has said goodbye", n.ring.Leave)
	n.once.Do(func() {
		n.Close()
		n.ring.Close()
	})
}

// callers ask for this round's buckets until they are stopped.
func (c *churn) callers() (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	for i := range 2 {
		random := rand.New(rand.NewPCG(c.round, uint64(i)))
		running.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Duration(1+random.IntN(10)) * time.Millisecond):
					c.call(random)
				}
			}
		})
	}
	return func() {
		close(done)
		running.Wait()
	}
}

func (c *churn) call(random *rand.Rand) {
	c.mu.Lock()
	n := c.nodes[random.IntN(len(c.nodes))]
	bucket := check(uint32(random.IntN(churnParts)*ring.Partitions/churnParts), c.round, c.rule)
	c.mu.Unlock()
	began := time.Now()
	out := n.Decide(c.t.Context(), one(bucket), take)[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	switch {
	case !slices.Contains(c.nodes, n): // it was lost meanwhile, and its caller asks another
	case len(out.Results) == 0:
		c.failed = append(c.failed, fmt.Sprintf("asked of %s for partition %d after %s, at %s", n.self.Name, bucket.Partition, time.Since(began), time.Now().Format("04:05.000")))
	case out.Degraded:
		c.degraded++
	}
	if len(out.Results) == 1 && out.Results[0].Allowed {
		c.log[bucket] = append(c.log[bucket], time.Now())
	}
}

// rest waits until everything is where it should be.
func (c *churn) rest() {
	c.t.Helper()
	var clusters []*Cluster
	for _, n := range c.nodes {
		clusters = append(clusters, n.Cluster)
	}
	why := ""
	for range 600 {
		time.Sleep(50 * time.Millisecond)
		if why = c.apart(); why != "" {
			c.differed = time.Now()
		} else if why = building(clusters); why == "" {
			if why = misplaced(clusters); why == "" {
				return
			}
		}
	}
	c.t.Errorf("after 30 s it is not at rest: %s", why)
}

// placed waits until nothing is on its way, while callers go on.
func (w *world) placed(nodes ...*Cluster) {
	w.t.Helper()
	why := ""
	for range 200 {
		if why = building(nodes); why == "" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Fatalf("not placed: %s", why)
}

// building says what is still on its way. Callers go on meanwhile, so a copy is
// always behind a little.
func building(nodes []*Cluster) string {
	for p := range uint32(ring.Partitions) {
		holders, copies := 0, 0
		for _, n := range nodes {
			switch s := n.partitions[p].status(n.now()); {
			case s.Building:
				return fmt.Sprintf("partition %d is being copied by %s", p, n.self.Name)
			case s.Holds:
				holders++
			case !s.Empty:
				copies++
			}
		}
		if holders != 1 || copies != min(1, len(nodes)-1) {
			return fmt.Sprintf("partition %d has %d holders and %d copies", p, holders, copies)
		}
	}
	return ""
}

// misplaced says which partition is not where the views, which agree, want it.
func misplaced(nodes []*Cluster) string {
	for p := range uint32(ring.Partitions) {
		owner, _ := nodes[0].View().Owner(p)
		name := nodes[0].View().Members()[owner].Name
		for _, n := range nodes {
			if holds := n.partitions[p].status(n.now()).Holds; holds != (n.self.Name == name) {
				return fmt.Sprintf("partition %d of %s: held by %s: %v", p, name, n.self.Name, holds)
			}
		}
	}
	return ""
}

// apart says whose views differ.
func (c *churn) apart() string {
	for _, n := range c.nodes {
		active := 0
		for _, m := range n.View().Members() {
			if m.State == ring.Active {
				active++
			}
		}
		if active != len(c.nodes) || n.View().Epoch() != c.nodes[0].View().Epoch() {
			return n.self.Name + " sees other members"
		}
	}
	return ""
}

// check compares what was admitted with what is known of it, for the buckets of
// this round and of some before. A change that costs something may have lost what
// was admitted in those spans.
func (c *churn) check(what string, costly []span) int {
	synctest.Wait()
	extra := 0
	for bucket, times := range c.log {
		known := int64(-1)
		for _, n := range c.nodes {
			p := &n.partitions[bucket.Partition]
			if p.status(n.now()).Holds {
				res := bucket.Rule.Look(p.Table().Get(bucket.Fingerprint), n.clock(), 0)
				known = churnLimit - res.Remaining
			}
		}
		allowed := int64(0)
		for _, at := range times {
			if slices.ContainsFunc(costly, func(s span) bool { return at.After(s.from) && at.Before(s.to) }) {
				allowed++
			}
		}
		admitted := int64(len(times))
		if admitted > churnLimit {
			extra += int(admitted - churnLimit)
		}
		if admitted > churnLimit+allowed || known < min(churnLimit, admitted-allowed) {
			c.t.Errorf("%s: bucket %d of partition %d: %d admitted, %d known, limit %d, %d may be lost",
				what, bucket.Fingerprint, bucket.Partition, admitted, known, churnLimit, allowed)
		}
		if bucket.Fingerprint+3 < c.round || admitted-known > 0 {
			delete(c.log, bucket) // what is lost once would be found again
		}
	}
	for _, f := range c.failed {
		if what != "split" && what != "hang" {
			c.t.Errorf("%s: a call failed: %s", what, f)
		}
	}
	c.failed = nil
	return extra
}

func (w *world) mustSoon(what string, f func(context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	if err := f(ctx); err != nil {
		w.t.Errorf("%s: %v", what, err)
	}
}
