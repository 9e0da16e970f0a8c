package holder

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"weir/rpc"
)

// The simulated cluster: every node is its Peers and Partitions and nothing
// else; time, network, gossip and callers are events in one queue. Nothing in it
// runs at the same time, so a seed gives the same run every time.

const (
	partitions = 7
	ms         = int64(time.Millisecond)
	forward    = 100 * ms // forward timeout
	firstTime  = int64(1_000_000) * int64(time.Second)
)

type event struct {
	at, order int64
	do        func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	e := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return e
}

// state of a member, as gossip tells it.
type state uint8

const (
	joining state = iota
	active
	leaving
	dead
	left
)

type news struct {
	node    rpc.Node
	state   state
	version int
}

type node struct {
	w     *world
	id    rpc.Node
	peers *Peers
	parts [partitions]*Partition
	known map[string]news

	up       bool
	started  bool // it has joined
	leaving  bool // final
	hung     bool // SIGSTOP
	held     []func()
	side     int   // of a split
	slow     bool  // 20 to 120 ms each way
	resumed  int64 // when it was continued last
	lastTick int64
	was      [partitions]bool // open after the last step
	decided  [partitions]bool // and sure of it
	followed [partitions]rpc.Node
	epochs   [partitions]uint64
}

type world struct {
	seed    uint64
	rand    *rand.Rand
	now     int64
	order   int64
	queue   queue
	nodes   []*node // all that ever ran
	version int
	boots   uint64
	split   bool
	loss    float64 // of messages and calls
	hold    float64 // of messages that are held for up to 3 s
	faults  []string
	log     []string
	logging bool

	graceful bool // nothing fails
	oneSide  bool // nothing is lost: whoever is silent or slow is so to everybody

	admitted  map[key]int64
	allowance map[key]int64
	calls     int
	failed    int
	degraded  int
	slowest   int64
	calm      bool // nothing happens any more
	returning int  // members that have left, or are about to, and start again
	stop      bool // callers stop
	sides     int  // how often the cluster was split
	openings  []openingOf
	limits    map[key]int64
}

// openingOf is that a node began to hold a partition.
type openingOf struct {
	at        int64
	node      *node
	partition uint32
	epoch     uint64
}

type key struct {
	partition   uint32
	fingerprint uint64
}

func newWorld(seed uint64) *world {
	return &world{
		seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), now: firstTime,
		admitted: map[key]int64{}, allowance: map[key]int64{}, limits: map[key]int64{},
	}
}

func (w *world) after(d int64, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now + d, w.order, do})
}

func (w *world) run(until int64) {
	for len(w.queue) > 0 && w.queue[0].at <= until && len(w.faults) == 0 {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	w.now = max(w.now, until)
}

func (w *world) fault(format string, args ...any) {
	if len(w.faults) < 5 {
		w.faults = append(w.faults, fmt.Sprintf("%6.1f ms: ", float64(w.now-firstTime)/float64(ms))+fmt.Sprintf(format, args...))
	}
}

func (w *world) note(format string, args ...any) {
	if w.logging {
		w.log = append(w.log, fmt.Sprintf("%6.1f ms: ", float64(w.now-firstTime)/float64(ms))+fmt.Sprintf(format, args...))
	}
}

// delay is how long anything takes from one node to another.
func (w *world) delay(a, b *node) int64 {
	if a == b {
		return 0
	}
	d := 200_000 + w.rand.Int64N(12*ms-200_000)
	if a.slow || b.slow {
		d = 20*ms + w.rand.Int64N(100*ms)
	}
	return d
}

func (w *world) reach(a, b *node) bool {
	return a == b || b.up && (!w.split || a.side == b.side)
}

// deliver runs something at a node, when it runs itself.
func (n *node) deliver(do func()) {
	switch {
	case !n.up:
	case n.hung:
		n.held = append(n.held, func() { n.deliver(do) })
	default:
		do()
	}
}

func (w *world) find(id rpc.Node) *node {
	for _, n := range w.nodes {
		if n.id.Name == id.Name && n.id.Boot == id.Boot {
			return n
		}
	}
	return nil
}

// start runs a node; the first opens everything, others know what a seed knows.
func (w *world) start(name string) *node {
	w.boots++
	id := rpc.Node{Name: name, Boot: w.boots}
	n := &node{w: w, id: id, peers: NewPeers(id, 1, HeardFor, w.now), known: map[string]news{}, up: true, lastTick: w.now}
	for p := range n.parts {
		n.parts[p] = New(uint32(p), n.peers, func() int64 { return w.now })
	}
	for _, other := range w.nodes {
		if other.up && !other.hung && other.started && !other.leaving && (!w.split || other.side == 0) {
			for k, v := range other.known {
				n.known[k] = v
			}
			break
		}
	}
	w.nodes = append(w.nodes, n)
	n.started = true
	w.note("%s starts as run %d", name, id.Boot)
	w.announce(n, active)
	n.tick()
	w.after(500*ms, func() { w.exchange(n) })
	return n
}

// exchange is the whole-state exchange of gossip: what one has missed.
func (w *world) exchange(n *node) {
	for _, other := range w.nodes {
		if other.up && n.up && w.reach(other, n) && other != n {
			for _, name := range slices.Sorted(maps.Keys(other.known)) {
				n.deliver(func() { n.learn(other.known[name]) })
			}
			return
		}
	}
}

// announce tells everybody, each some time later.
func (w *world) announce(n *node, s state) {
	w.version++
	item := news{n.id, s, w.version}
	if n.up {
		n.learn(item)
	}
	for _, other := range w.nodes {
		if other == n || !other.up {
			continue
		}
		w.tell(other, n, item, w.rand.Int64N(300*ms))
	}
}

func (w *world) tell(to, about *node, item news, lag int64) {
	w.after(lag, func() {
		if w.split && to.side != about.side && item.state != dead {
			w.after(500*ms, func() { w.tell(to, about, item, 0) })
			return
		}
		to.deliver(func() { to.learn(item) })
	})
}

func (n *node) learn(item news) {
	if have, ok := n.known[item.node.Name]; ok && have.version >= item.version {
		return
	}
	n.known[item.node.Name] = item
	if n.started {
		n.replace()
	}
}

// place is a ring: the owner is the member with the highest hash, but now and
// then, by a load bound, the second.
func place(partition uint32, names []string) string {
	best, second := "", ""
	var bestSum, secondSum uint64
	all := fnv.New64a()
	for _, name := range names {
		h := fnv.New64a()
		fmt.Fprintf(h, "%d/%s/%d", partition, name, len(name))
		all.Write([]byte(name))
		switch sum := h.Sum64() * 0x9e3779b97f4a7c15; {
		case best == "" || sum > bestSum:
			second, secondSum = best, bestSum
			best, bestSum = name, sum
		case second == "" || sum > secondSum:
			second, secondSum = name, sum
		}
	}
	fmt.Fprint(all, partition)
	if second != "" && all.Sum64()*0x9e3779b97f4a7c15>>61 == 0 {
		return second
	}
	return best
}

// replace makes a Placement of what the node knows.
func (n *node) replace() {
	pl := &Placement{Leaving: n.leaving}
	var names []string
	ids := map[string]rpc.Node{}
	for _, item := range n.known {
		if item.state == active {
			names = append(names, item.node.Name)
		}
		ids[item.node.Name] = item.node
		if item.state <= leaving && item.node != n.id {
			pl.Alive = append(pl.Alive, item.node)
			if item.state != joining {
				pl.Asked = append(pl.Asked, item.node)
			}
		}
	}
	slices.Sort(names)
	byName := func(a, b rpc.Node) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(pl.Alive, byName)
	slices.SortFunc(pl.Asked, byName)
	for p := range uint32(partitions) {
		var owner, backup rpc.Node
		if len(names) > 0 {
			name := place(p, names)
			owner = ids[name]
			if rest := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == name }); len(rest) > 0 {
				backup = ids[place(p, rest)]
			}
		}
		pl.Owners, pl.Backups = append(pl.Owners, owner), append(pl.Backups, backup)
	}
	n.peers.SetPlacement(n.w.now, pl)
	for _, p := range n.parts {
		n.step(func(out *Out) { p.Tick(n.w.now, out) })
	}
}

// step runs the machine and does what it asks for.
func (n *node) step(f func(*Out)) {
	var out Out
	f(&out)
	for _, m := range out.Messages {
		n.w.send(n, m)
	}
	for i, p := range n.parts {
		if p.role == open && !n.was[i] {
			n.w.note("%s opens partition %d by epoch %d", n.id.Name, p.id, p.epoch)
			n.w.openings = append(n.w.openings, openingOf{n.w.now, n, p.id, p.epoch})
		}
		decides := p.Decides(n.w.now)
		if decides && !n.decided[i] {
			n.w.begins(n, p, out.Opened > 0)
		}
		n.was[i], n.decided[i], n.followed[i] = p.role == open, decides, p.holder
	}
	for _, r := range out.Ready {
		r.Call.Owner.(*visit).goOn(r.Verdict)
	}
	n.w.check(n)
}

// begins allows for what a node does not know that begins to decide a partition:
// one that takes over from one that is only silent or slow, or one that goes on
// after it has stood still.
func (w *world) begins(n *node, p *Partition, lost bool) {
	if lost && w.graceful && w.now > firstTime+100*ms {
		w.fault("%s opens partition %d with what is left", n.id.Name, p.id)
	}
	for k := range w.limits {
		if k.partition != p.id {
			continue
		}
		most := int64(0)
		if lost && w.now > firstTime+100*ms { // holder and copy at once: the whole limit
			w.allowance[k] += w.limits[k]
		}
		mine := w.spent(k, p.table.Get(k.fingerprint))
		for _, other := range w.nodes {
			q := other.parts[p.id]
			if other == n || !other.up {
				continue
			}
			spent := w.spent(k, q.table.Get(k.fingerprint))
			most = max(most, spent)
			_, dirty := q.desig.dirty[k.fingerprint]
			acknowledged := w.oneSide && q.role == open && q.desig.to == n.id && q.desig.complete && !dirty && n.followed[p.id] == other.id
			if spent > mine && (w.graceful || acknowledged) {
				w.fault("%s opens partition %d: it knows of %d of key %d, and %s of %d", n.id.Name, p.id, mine, k.fingerprint, other.id.Name, spent)
			}
		}
		if most > mine {
			w.allowance[k] += most - mine
		}
	}
}

var kinds = []string{"?", "ping", "pong", "batch", "revoke", "release", "offer", "grant", "confirm", "copied", "noCopy", "revoked", "released", "wanted", "granted", "refused", "confirmed", "needed", "reject", "moved", "merge", "merged", "who", "here", "yield", "takeOver"}

func (w *world) send(from *node, m Outgoing) {
	to := w.find(m.To)
	if w.logging && Of(&m.Message) {
		w.note("%s -> %s p%d %s e%d #%d f%d %v %d words", from.id.Name, m.To.Name, m.Partition, kinds[m.Kind], m.Epoch, m.Number, m.Flags, m.Node, len(m.Words))
	}
	if to == nil || !w.reach(from, to) || w.loss > 0 && w.rand.Float64() < w.loss {
		return
	}
	d := w.delay(from, to)
	if w.hold > 0 && w.rand.Float64() < w.hold {
		d += w.rand.Int64N(3000 * ms)
	}
	words := slices.Clone(m.Words)
	msg := m.Message
	msg.Words = words
	w.after(d, func() {
		if !w.reach(from, to) {
			return
		}
		to.deliver(func() {
			if !Of(&msg) {
				to.step(func(out *Out) { to.peers.Receive(w.now, from.id, &msg, out) })
				return
			}
			to.step(func(out *Out) {
				to.peers.Heard(w.now, from.id)
				to.parts[msg.Partition].Receive(w.now, from.id, &msg, out)
			})
		})
	})
}

func (n *node) tick() {
	w := n.w
	if !n.up {
		return
	}
	n.deliver(func() {
		beat := w.now-n.lastTick >= 50*ms || n.lastTick == w.now
		n.step(func(out *Out) {
			if beat {
				n.lastTick = w.now
				n.peers.Tick(w.now, out)
			}
			for _, p := range n.parts {
				if beat || p.Busy() {
					p.Tick(w.now, out)
				}
			}
		})
		w.after(10*ms, n.tick)
	})
}
