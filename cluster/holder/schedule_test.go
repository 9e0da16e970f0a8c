package holder

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	runs    = flag.Int("schedules", 100, "random schedules to run")
	seed    = flag.Uint64("seed", 0, "first seed; 0 picks one")
	logFile = flag.String("log", "", "file for the log of a fault")
)

// change is one thing that happens to the cluster.
type change struct {
	at   int64 // ms after the start
	what string
	who  int   // index among the members that it can happen to
	long int64 // ms, where it passes
}

func (c change) String() string {
	s := fmt.Sprintf("%dms %s %d", c.at, c.what, c.who)
	if c.long > 0 {
		s += fmt.Sprintf(" for %dms", c.long)
	}
	return s
}

// schedule is a whole run, but for the delays, which the seed gives.
type schedule struct {
	seed    uint64
	members int
	class   string
	changes []change
}

func (s schedule) String() string {
	parts := []string{fmt.Sprintf("seed %d, %d members, %s", s.seed, s.members, s.class)}
	for _, c := range s.changes {
		parts = append(parts, c.String())
	}
	return strings.Join(parts, "; ")
}

var classes = []string{"graceful", "graceful", "crashes", "hangs", "slow", "splits", "lossy", "all"}

// random draws a schedule. In the graceful ones nothing fails, though things
// happen at once.
func random(seed uint64) schedule {
	r := rand.New(rand.NewPCG(seed, 2))
	s := schedule{seed: seed, members: 3 + r.IntN(4), class: classes[r.IntN(len(classes))]}
	what := map[string][]string{
		"graceful": {"join", "leave", "restart"},
		"crashes":  {"join", "leave", "restart", "crash", "crash", "return"},
		"hangs":    {"join", "leave", "hang", "hang"},
		"slow":     {"join", "leave", "slow"},
		"splits":   {"join", "leave", "split"},
		"lossy":    {"join", "leave", "restart"},
		"all":      {"join", "leave", "restart", "crash", "return", "hang", "slow", "split"},
	}[s.class]
	at := int64(300)
	for range 2 + r.IntN(4) {
		c := change{at: at, what: what[r.IntN(len(what))], who: r.IntN(8)}
		switch c.what {
		case "hang":
			c.long = 50 + r.Int64N(4000)
		case "slow", "split":
			c.long = 1000 + r.Int64N(3000)
		}
		s.changes = append(s.changes, c)
		if r.IntN(3) > 0 { // else at the same moment
			at += r.Int64N(1500)
		}
	}
	return s
}

// play runs the schedule and returns the world at its end.
func play(s schedule, logging bool) *world {
	w := newWorld(s.seed)
	w.logging = logging
	w.graceful = s.class == "graceful"
	w.oneSide = s.class == "hangs" || s.class == "slow"
	w.firstMembers(s.members)
	w.callers()
	if s.class == "lossy" {
		w.loss, w.hold = 0.03, 0.01
	}
	last := int64(0)
	for _, c := range s.changes {
		w.after(c.at*ms, func() { w.apply(c) })
		last = max(last, c.at+c.long)
	}
	w.run(w.now + (last+500)*ms)
	w.calm = true
	w.loss, w.hold = 0, 0
	w.settle()
	return w
}

// firstMembers starts them one after another, and waits until all have their
// partitions.
func (w *world) firstMembers(n int) {
	for i := range n {
		w.start(fmt.Sprintf("n%d", i))
		w.run(w.now + 400*ms)
	}
	w.run(w.now + 600*ms)
}

// callers ask for two keys of each partition all the time, at whatever node:
// one soon exhausted, one never.
func (w *world) callers() {
	for p := range uint32(partitions) {
		w.limits[key{p, 1}] = 20
		w.limits[key{p, 2}] = 900
	}
	var next func()
	next = func() {
		if w.stop {
			return
		}
		var able []*node
		for _, n := range w.nodes {
			if n.up && !n.hung && n.started {
				able = append(able, n)
			}
		}
		if len(able) > 0 {
			n := able[w.rand.IntN(len(able))]
			w.call(n, key{uint32(w.rand.IntN(partitions)), 1 + uint64(w.rand.IntN(2))})
		}
		w.after(w.rand.Int64N(3*ms), next)
	}
	next()
}

// stable are the members that something can happen to.
func (w *world) stable() []*node {
	var out []*node
	for _, n := range w.nodes {
		if n.up && !n.leaving && !n.hung && !n.slow {
			out = append(out, n)
		}
	}
	return out
}

func (w *world) apply(c change) {
	able := w.stable()
	w.note("%s", c)
	if c.what == "join" && len(w.stable()) < 8 {
		w.start(fmt.Sprintf("n%d", len(w.nodes)))
		return
	}
	if c.what == "return" {
		for _, n := range w.nodes {
			if !n.up && w.current(n.id.Name) == n {
				w.start(n.id.Name)
				return
			}
		}
		return
	}
	if len(able) < 3 {
		return
	}
	n := able[c.who%len(able)]
	switch c.what {
	case "leave":
		n.leave(false)
	case "restart":
		n.leave(true)
	case "crash":
		n.crash()
	case "hang":
		n.hang(c.long * ms)
	case "slow":
		n.slow = true
		w.after(c.long*ms, func() { n.slow = false })
	case "split":
		w.cut(n, c.long*ms)
	}
}

// current returns the last run of that name.
func (w *world) current(name string) *node {
	var out *node
	for _, n := range w.nodes {
		if n.id.Name == name {
			out = n
		}
	}
	return out
}

// leave drains, as a node does: it hands over, waits until it holds nothing,
// lingers until all have heard, and goes.
func (n *node) leave(again bool) {
	w := n.w
	n.leaving = true
	w.announce(n, leaving)
	if again {
		w.returning++
	}
	// It has crashed before it had left.
	crashed := func() bool {
		if !n.up && again {
			w.returning--
		}
		return !n.up
	}
	began := w.now
	var wait func()
	wait = func() {
		if crashed() {
			return
		}
		empty := true
		for _, p := range n.parts {
			empty = empty && p.role == none
		}
		if !empty && w.now-began < 20_000*ms {
			w.after(20*ms, wait)
			return
		}
		if !empty {
			if w.graceful {
				w.fault("%s left at its drain timeout", n.id.Name)
			}
			w.lose(n)
		}
		w.after(400*ms, func() {
			if crashed() {
				return
			}
			w.announce(n, left)
			n.up = false
			w.note("%s has left", n.id.Name)
			if again {
				w.after(200*ms, func() {
					w.returning--
					if w.current(n.id.Name) == n {
						w.start(n.id.Name)
					}
				})
			}
		})
	}
	w.after(20*ms, wait)
}

func (n *node) crash() {
	w := n.w
	w.lose(n)
	n.up = false
	w.note("%s crashes", n.id.Name)
	w.after(1500*ms+w.rand.Int64N(200*ms), func() { w.announceDead(n) })
}

// announceDead spreads that a member does not answer any more.
func (w *world) announceDead(n *node) {
	if c := w.current(n.id.Name); c != n {
		return
	}
	w.version++
	item := news{n.id, dead, w.version}
	for _, other := range w.nodes {
		if other != n && other.up {
			w.tell(other, n, item, w.rand.Int64N(300*ms))
		}
	}
}

func (n *node) hang(long int64) {
	w := n.w
	w.note("%s hangs", n.id.Name)
	n.hung = true
	if long > 1600*ms {
		w.after(1500*ms, func() { w.announceDead(n) })
	}
	w.after(long, func() {
		n.hung = false
		n.resumed = w.now
		w.note("%s goes on", n.id.Name)
		held := n.held
		n.held = nil
		// What was queued meanwhile comes first, then timers.
		for _, do := range held {
			do()
		}
		if long > 1600*ms {
			if n.leaving {
				w.announce(n, leaving)
			} else {
				w.announce(n, active) // it refutes its death
			}
		}
	})
}

// cut separates a node, and perhaps a second, from the rest.
func (w *world) cut(n *node, long int64) {
	if w.split {
		return
	}
	w.split, w.sides = true, w.sides+1
	n.side = 1
	if able := w.stable(); len(able) > 4 {
		able[w.rand.IntN(len(able))].side = 1
	}
	w.note("split: %v", n.id.Name)
	began := w.now
	w.after(1500*ms, func() {
		if !w.split || w.now-began < 1400*ms {
			return
		}
		for _, a := range w.nodes {
			for _, b := range w.nodes {
				if a.up && b.up && a.side != b.side {
					w.version++
					item := news{a.id, dead, w.version}
					w.tell(b, a, item, w.rand.Int64N(300*ms))
				}
			}
		}
	})
	w.after(long, func() {
		w.split = false
		w.note("healed")
		for _, a := range w.nodes {
			w.after(w.rand.Int64N(1000*ms), func() {
				if a.up && a.leaving {
					w.announce(a, leaving)
				} else if a.up {
					w.announce(a, active)
				}
			})
		}
	})
}

// shrink leaves out what is not needed for a fault.
func shrink(s schedule) schedule {
	for changed := true; changed; {
		changed = false
		for i := range s.changes {
			less := s
			less.changes = append(append([]change(nil), s.changes[:i]...), s.changes[i+1:]...)
			if len(play(less, false).faults) > 0 {
				s, changed = less, true
				break
			}
		}
		if !changed && s.members > 3 {
			less := s
			less.members--
			if len(play(less, false).faults) > 0 {
				s, changed = less, true
			}
		}
	}
	return s
}

// sum is what all runs of a class have come to.
type sum struct {
	runs, calls, failed, degraded int
	slowest, extra, worst         int64
}

func (s *sum) add(w *world) {
	s.runs++
	s.calls += w.calls
	s.failed += w.failed
	s.degraded += w.degraded
	s.slowest = max(s.slowest, w.slowest)
	for k, limit := range w.limits {
		extra := max(0, w.admitted[k]-limit)
		s.extra, s.worst = s.extra+extra, max(s.worst, extra)
	}
}

func TestSchedules(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64() >> 20
	}
	t.Logf("%d schedules from seed %d", *runs, first)
	defer debug.SetGCPercent(debug.SetGCPercent(1600)) // little lives, and much dies
	var mu sync.Mutex
	sums := map[string]*sum{}
	var failing *schedule
	next := 0
	var players sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				done := i >= *runs || failing != nil
				mu.Unlock()
				if done {
					return
				}
				s := random(first + uint64(i))
				w := play(s, false)
				mu.Lock()
				if len(w.faults) > 0 {
					failing = &s
				}
				if sums[s.class] == nil {
					sums[s.class] = &sum{}
				}
				sums[s.class].add(w)
				mu.Unlock()
			}
		})
	}
	players.Wait()
	if failing != nil {
		s := shrink(*failing)
		w := play(s, true)
		if *logFile != "" {
			if err := os.WriteFile(*logFile, []byte(strings.Join(w.log, "\n")), 0o600); err != nil {
				t.Error(err)
			}
		}
		t.Fatalf("%s\n  %s", s, strings.Join(w.faults, "\n  "))
	}
	for class, c := range sums {
		t.Logf("%-9s %6d runs, %8d calls, %d failed, %d degraded, slowest %s, %d admitted above a limit",
			class, c.runs, c.calls, c.failed, c.degraded, time.Duration(c.slowest), c.extra)
	}
}
