package holder

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/rpc"
)

// A redirect, then a target that is dead: that needs a third send. And with
// every circuit open the last candidate is tried all the same.
func TestPath(t *testing.T) {
	for _, c := range []struct {
		what          string
		owner, backup string
		lost          string // to whom the circuit is open
		answers       string // one for each send: a name redirects, "-" fails
		sends         string // to whom, at which hop, and who is said to have failed
		failedOver    bool
	}{
		{"decided at once", "A", "B", "", "", "A0", false},
		{"redirected", "A", "B", "", "C", "A0 C1", false},
		{"the target is dead: a third send", "A", "B", "", "C-", "A0 C1 A1!C", true},
		{"and no fourth", "A", "B", "", "C--", "A0 C1 A1!C .", true},
		{"the owner is dead", "A", "B", "", "-", "A0 B1!A", true},
		{"and so is the backup", "A", "B", "", "--", "A0 B1!A .", true},
		{"redirected to the backup, which is dead", "A", "B", "", "B-", "A0 B1 A1!B", true},
		{"the backup redirects, after a failure", "A", "B", "", "-C", "A0 B1!A .", true},
		{"redirected twice", "A", "B", "", "CD", "A0 C1 A1!C", true},
		{"redirected to nobody", "A", "B", "", "0", "A0 B1!A", true},
		{"no backup", "A", "", "", "-", "A0 .", false},
		{"nobody owns it", "", "", "", "", "self0", false},
		{"this node owns it, and fails", "self", "B", "", "-", "self0 B1!self", true},
		{"the circuit to the owner is open", "A", "B", "A", "", "B1!A", true},
		{"both circuits are open: both are tried", "A", "B", "AB", "--", "B1!A A1!B .", true},
		{"the circuit is open and there is no backup", "A", "", "A", "-", "A0 .", false},
		{"no circuit to this node itself", "self", "B", "self", "", "self0", false},
	} {
		t.Run(c.what, func(t *testing.T) {
			named := func(name string) rpc.Node {
				if name == "" || name == "0" {
					return rpc.Node{}
				}
				return id(name)
			}
			peers := NewPeers(id("self"), 1, HeardFor, firstTime)
			peers.SetPlacement(firstTime, &Placement{Owners: []rpc.Node{named(c.owner)}, Backups: []rpc.Node{named(c.backup)}})
			for _, name := range []string{"self", "A", "B"} {
				if strings.Contains(c.lost, name) {
					peers.Lost(firstTime, id(name))
				}
			}
			p := peers.Path(0)
			var sends []string
			send := func() {
				s := fmt.Sprintf("%s%d", p.To.Name, p.Hop)
				if !p.Failed.IsZero() {
					s += "!" + p.Failed.Name
				}
				sends = append(sends, s)
			}
			send()
			for _, answer := range strings.Split(c.answers, "") {
				on := false
				if answer == "-" {
					on = p.Fail()
				} else {
					on = p.Redirect(named(answer))
				}
				if !on {
					sends = append(sends, ".")
					break
				}
				send()
			}
			expect(t, "sends", strings.Join(sends, " "), c.sends)
			expect(t, "failed over", p.FailedOver(), c.failedOver)
		})
	}
}

// beating is Peers whose heartbeats are answered after a while.
type beating struct {
	p    *Peers
	now  int64            // ms since firstTime
	trip map[string]int64 // ms, in tens; who is not in it does not answer
	pong map[int64][]Outgoing
}

func newBeating(others ...string) *beating {
	b := &beating{p: NewPeers(id("self"), 1, HeardFor, firstTime), trip: map[string]int64{}, pong: map[int64][]Outgoing{}}
	pl := &Placement{}
	for _, name := range others {
		pl.Alive = append(pl.Alive, id(name))
	}
	b.p.SetPlacement(firstTime, pl)
	b.beat()
	return b
}

func (b *beating) at() int64 { return firstTime + b.now*ms }

func (b *beating) beat() {
	var out Out
	b.p.Tick(b.at(), &out)
	for _, m := range out.Messages {
		if d, answers := b.trip[m.To.Name]; answers {
			b.pong[b.now+d] = append(b.pong[b.now+d], m)
		}
	}
}

// until lets time pass, with a beat every 50 ms.
func (b *beating) until(end int64) {
	for b.now < end {
		b.now += 10
		for _, m := range b.pong[b.now] {
			b.p.Receive(b.at(), m.To, &rpc.Message{Kind: pong, Number: m.Number}, &Out{})
		}
		if b.now%50 == 0 {
			b.beat()
		}
	}
}

// troubles names who is silent, in lower case, and who is slow, in upper case,
// behind a "?" if the node rather suspects itself.
func (b *beating) troubles(others ...string) string {
	s := ""
	b.p.mu.Lock()
	if b.p.suspect(b.at()) {
		s = "?"
	}
	b.p.mu.Unlock()
	for _, name := range others {
		if b.p.Silent(b.at(), id(name)) {
			s += strings.ToLower(name)
		}
		if b.p.Slow(b.at(), id(name)) {
			s += name
		}
	}
	return s
}

func TestSilentAndSlow(t *testing.T) {
	type trips = map[string]int64
	type phase struct {
		trips trips
		until int64  // ms
		want  string // silent ones in lower case, slow ones in upper, "?" if the node suspects itself
	}
	for _, c := range []struct {
		what   string
		others string
		phases []phase
	}{
		{"all are quick", "BCD", []phase{{trips{"B": 10, "C": 10, "D": 10}, 2000, ""}}},
		{"one answers in 40 ms, as long as a relay is waited for", "BCD", []phase{
			{trips{"B": 30, "C": 10, "D": 10}, 2000, ""},
			{trips{"B": 40, "C": 10, "D": 10}, 2230, ""}, // those of 2050, 2100 and 2150 came late
			{trips{"B": 40, "C": 10, "D": 10}, 2240, "B"},
		}},
		{"one is silent from the start", "BCD", []phase{
			{trips{"C": 10, "D": 10}, 90, ""},
			{trips{"C": 10, "D": 10}, 100, "b"},
			{trips{"C": 10, "D": 10}, 2000, "b"},
			{trips{"B": 10, "C": 10, "D": 10}, 2050, "b"},
			{trips{"B": 10, "C": 10, "D": 10}, 2060, ""}, // the answer to the ping of 2050
		}},
		{"three late answers make nobody slow", "BCD", []phase{
			{trips{"B": 60, "C": 10, "D": 10}, 190, ""},
			{trips{"B": 10, "C": 10, "D": 10}, 2000, ""},
		}},
		{"one that was slow was quick for a second before it is trusted", "BCD", []phase{
			{trips{"B": 60, "C": 10, "D": 10}, 200, ""},
			{trips{"B": 60, "C": 10, "D": 10}, 210, "B"},
			{trips{"B": 60, "C": 10, "D": 10}, 990, "B"}, // the last late answer is to the ping of 950
			{trips{"B": 10, "C": 10, "D": 10}, 2000, "B"},
			{trips{"B": 10, "C": 10, "D": 10}, 2010, ""},
		}},
		{"most are slow: it is this node", "BCD", []phase{
			{trips{"B": 60, "C": 60, "D": 10}, 400, "?"},
			{trips{"B": 10, "C": 10, "D": 10}, 2000, ""},
		}},
		{"what came late while this node was slow says nothing about one that is", "BCD", []phase{
			{trips{"B": 60, "C": 60, "D": 10}, 400, "?"},
			{trips{"B": 60, "C": 10, "D": 10}, 1450, "?"}, // the last late answer of C's came at 460
			{trips{"B": 60, "C": 10, "D": 10}, 1460, ""},
			{trips{"B": 60, "C": 10, "D": 10}, 1650, ""},
			{trips{"B": 60, "C": 10, "D": 10}, 1660, "B"},
		}},
		{"most are silent: it is this node, which waits for 300 ms", "BCD", []phase{
			{trips{"D": 10}, 30, ""},
			{trips{"D": 10}, 40, "?"},
			{trips{"D": 10}, 290, "?"},
			{trips{"D": 10}, 300, "?bc"},
		}},
		{"one of two is silent", "B", []phase{{trips{}, 90, ""}, {trips{}, 100, "b"}}},
		{"one of two is slow: neither can tell", "B", []phase{{trips{"B": 60}, 400, "?"}}},
		{"one of three is silent", "BC", []phase{{trips{"C": 10}, 90, ""}, {trips{"C": 10}, 100, "b"}}},
	} {
		t.Run(c.what, func(t *testing.T) {
			others := strings.Split(c.others, "")
			b := newBeating(others...)
			for _, ph := range c.phases {
				if b.now == 0 { // the first ping went out before
					for _, name := range others {
						if d, answers := ph.trips[name]; answers {
							b.pong[d] = append(b.pong[d], Outgoing{id(name), rpc.Message{Number: uint64(firstTime)}})
						}
					}
				}
				b.trip = ph.trips
				b.until(ph.until)
				expect(t, fmt.Sprintf("at %d ms", ph.until), b.troubles(others...), ph.want)
				for _, name := range others {
					trouble := strings.Contains(strings.ToUpper(b.troubles(name)), name)
					expect(t, "trouble", b.p.Trouble(b.at(), id(name)), trouble)
					// What has failed a caller and this node too is failed, unless it is this node.
					expect(t, "failed a caller", b.p.Failed(b.at(), id(name), false), trouble)
					expect(t, "failed this node", b.p.Failed(b.at(), id(name), true), trouble || ph.want == "" || ph.want[0] != '?')
				}
			}
		})
	}
}

func TestGone(t *testing.T) {
	const first, later = firstTime, firstTime + 3100*ms
	in := func(nodes ...rpc.Node) *Placement { return &Placement{Alive: nodes} }
	b, second := id("B"), rpc.Node{Name: "B", Boot: 2}
	for _, c := range []struct {
		what string
		do   func(p *Peers)
		node rpc.Node
		at   int64
		want bool
	}{
		{"itself", func(*Peers) {}, id("self"), later, false},
		{"an earlier run of itself", func(*Peers) {}, rpc.Node{Name: "self", Boot: 9}, first, true},
		{"nobody", func(*Peers) {}, rpc.Node{}, later, false},
		{"never heard of before", func(*Peers) {}, b, later, false},
		{"heard, never in the View, silent for 3 s", func(p *Peers) { p.Heard(first, b) }, b, first + 3000*ms, false},
		{"and longer", func(p *Peers) { p.Heard(first, b) }, b, first + 3001*ms, true},
		{"in the View, silent for long", func(p *Peers) { p.SetPlacement(first, in(b)) }, b, later, false},
		{"not in the View any more, heard 99 ms ago", func(p *Peers) { p.SetPlacement(first, in(b)); p.SetPlacement(first, in()) }, b, first + 99*ms, false},
		{"heard 100 ms ago", func(p *Peers) { p.SetPlacement(first, in(b)); p.SetPlacement(first, in()) }, b, first + 100*ms, true},
		{"and its connection broke", func(p *Peers) { p.SetPlacement(first, in(b)); p.SetPlacement(first, in()); p.Lost(first, b) }, b, first, true},
		{"heard again", func(p *Peers) { p.SetPlacement(first, in(b)); p.SetPlacement(first, in()); p.Heard(later, b) }, b, later, false},
		{"heard again, but it was never in the View", func(p *Peers) { p.SetPlacement(first, in()); p.Heard(later, b) }, b, later, false},
		{"back in the View", func(p *Peers) {
			p.SetPlacement(first, in(b))
			p.SetPlacement(first, in())
			p.SetPlacement(first, in(b))
		}, b, first, false},
		{"there is a newer run", func(p *Peers) { p.SetPlacement(first, in(b)); p.SetPlacement(first, in(second)) }, b, first, true},
		{"a newer run than that in the View", func(p *Peers) { p.SetPlacement(first, in(b)); p.Heard(first, second); p.SetPlacement(first, in(b)) }, second, first, false},
		{"the newer run", func(p *Peers) { p.SetPlacement(first, in(b)); p.SetPlacement(first, in(second)) }, second, first, false},
	} {
		p := NewPeers(id("self"), 1, HeardFor, first)
		c.do(p)
		expect(t, c.what, p.Gone(c.at, c.node), c.want)
	}
}

// Standing still says nothing about the others, but that they may have taken
// over.
func TestGap(t *testing.T) {
	b := newBeating("B", "C")
	b.trip = map[string]int64{"B": 10, "C": 10}
	b.until(1000)
	expect(t, "gaps", b.p.Gap(b.at()), 1)
	b.now += 100
	expect(t, "100 ms after a beat", b.p.Gap(b.at()), 1)
	b.pong = map[int64][]Outgoing{}
	b.now += 10
	expect(t, "110 ms after a beat", b.p.Gap(b.at()), 2)
	expect(t, "asked again", b.p.Gap(b.at()), 2)
	expect(t, "nobody is silent for that", b.troubles("B", "C"), "")
	b.trip = map[string]int64{"C": 10}
	b.until(1200)
	expect(t, "90 ms later", b.troubles("B", "C"), "")
	b.until(1210)
	expect(t, "100 ms later", b.troubles("B", "C"), "b")
	expect(t, "gaps", b.p.Gap(b.at()), 2)
}

// A connection that is refused says at once what silence says later.
func TestLost(t *testing.T) {
	b := newBeating("B", "C", "D")
	b.trip = map[string]int64{"B": 10, "C": 10, "D": 10}
	b.until(510)
	b.p.Lost(b.at(), id("B"))
	expect(t, "at once", b.troubles("B", "C", "D"), "b")
	expect(t, "the circuit is open", b.p.Open(id("B")), true)
	expect(t, "not that to C", b.p.Open(id("C")), false)
	b.p.Heard(b.at(), id("B"))
	expect(t, "heard again", b.troubles("B", "C", "D"), "")
	expect(t, "the circuit is open until the next beat", b.p.Open(id("B")), true)
	b.until(550)
	expect(t, "the next beat", b.p.Open(id("B")), false)
	// One who suspects itself waits for 300 ms, but a refusal is no silence.
	b.trip = map[string]int64{}
	b.until(650)
	expect(t, "all are silent", b.troubles("B", "C", "D"), "?")
	b.p.Lost(b.at(), id("B"))
	expect(t, "B refuses", b.troubles("B", "C", "D"), "?b")
}

// All times follow the forward timeout, once it is above 100 ms.
func TestTimesFollowTheForwardTimeout(t *testing.T) {
	for _, c := range []struct{ forward, heard, inner, patience time.Duration }{
		{50, 100, 40, 300},
		{100, 100, 40, 300},
		{250, 250, 100, 750},
	} {
		p := NewPeers(id("self"), 1, c.forward*time.Millisecond, firstTime)
		what := (c.forward * time.Millisecond).String()
		expect(t, what+": heard lately", time.Duration(p.heardFor), c.heard*time.Millisecond)
		expect(t, what+": inner", p.Inner(), c.inner*time.Millisecond)
		expect(t, what+": patience", p.patience(), c.patience*time.Millisecond)
		expect(t, what+": an answer is waited for", p.Patience(70*time.Millisecond), 70*time.Millisecond)
		p.suspected.Store(true)
		expect(t, what+": by one that suspects itself", p.Patience(70*time.Millisecond), c.patience*time.Millisecond)
		expect(t, what+": and longer", p.Patience(time.Second), time.Second)
	}
}

// Words to build copies with are sent at an even pace, however many partitions
// there are to build.
func TestPace(t *testing.T) {
	p := NewPeers(id("self"), 1, HeardFor, firstTime)
	batches := 0
	spend := func(at int64) {
		for p.spend(firstTime+at*ms, 1024) {
			batches++
		}
	}
	spend(0)
	expect(t, "at once", batches, 4) // of 2.56 ms each: 7.68 ms ahead is no more than 10 ms, 10.24 is
	for at := int64(10); at < 1000; at += 10 {
		spend(at)
	}
	expect(t, "in a second", batches, 391)
	batches = 0
	spend(60_000)
	expect(t, "after a rest", batches, 4)
	for range 10 {
		expect(t, "empty partitions cost nothing", p.spend(firstTime+60_005*ms, 0), true)
	}
}

// Of many who find at the same time that this node has stood still, none goes by
// what was sure before.
func TestGapIsSeenByAll(t *testing.T) {
	for round := range 3000 {
		peers := NewPeers(id("self"), 1, HeardFor, firstTime)
		for i := range 8 {
			peers.Heard(firstTime, id(fmt.Sprint(i)))
		}
		p := New(0, peers, func() int64 { return firstTime })
		p.role, p.sure = open, peers.Gap(firstTime)
		var stale atomic.Int64
		var asking sync.WaitGroup
		begin := make(chan struct{})
		for range 8 {
			asking.Go(func() {
				<-begin
				if p.Decides(firstTime + 5000*ms) {
					stale.Add(1)
				}
			})
		}
		close(begin)
		asking.Wait()
		if stale.Load() > 0 {
			t.Fatalf("round %d: %d would decide", round, stale.Load())
		}
	}
}
