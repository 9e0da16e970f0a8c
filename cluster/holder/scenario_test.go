package holder

import (
	"testing"
	"time"

	"weir/leaky"
	"weir/rpc"
)

func id(name string) rpc.Node { return rpc.Node{Name: name, Boot: 1} }

// begun is A as the holder with its copy at B, and C beside.
func begun(t *testing.T) *hand {
	h := newHand(t, "A")
	h.views("A", "")
	h.run(50 * time.Millisecond)
	h.add("B")
	h.add("C")
	h.views("A", "B", "C")
	h.run(500 * time.Millisecond)
	h.is("begun", "A", 1, "B")
	return h
}

// A leaver redirects at once, but the next owner has not heard: the leaver goes
// on deciding until that one's own View agrees.
func TestReceiversViewHasTheSay(t *testing.T) {
	h := begun(t)
	h.view("A", "B", "C", "A")
	h.leave("A")
	h.run(2 * time.Second)
	h.is("B has not heard", "A", 1, "B")
	expect(t, "grants", h.sent[grant], 0)
	expect(t, "asked of A", h.call("A", Call{}).Action, Decide)
	h.view("B", "B", "C", "A")
	h.view("C", "B", "C", "A")
	h.run(500 * time.Millisecond)
	h.is("B has heard", "B", 2, "C")
	expect(t, "A has nothing any more", h.nodes["A"].p.role, none)
	expect(t, "asked of A", h.call("A", Call{}), Verdict{Action: Ask, To: id("B")})
}

// The ring says who the owner was; it may be wrong. Who holds the partition is
// found by asking.
func TestHolderIsFoundWhereNoRingNamesIt(t *testing.T) {
	h := begun(t)
	h.add("J")
	h.view("J", "J", "B", "C", "A") // the others have not heard of J
	expect(t, "asked of J", h.call("J", Call{}), Verdict{Action: Ask, To: id("A")})
	h.is("nothing has changed", "A", 1, "B")
}

// A grants to J, whom it has not seen in any View: that one is not gone.
func TestNotInTheViewYetIsNotGone(t *testing.T) {
	h := begun(t)
	n := h.nodes["A"]
	n.peers.Heard(h.now, id("J"))
	expect(t, "J is heard", n.peers.Gone(h.now, id("J")), false)
	h.run(2900 * time.Millisecond)
	expect(t, "J is silent for 2.9 s", n.peers.Gone(h.now, id("J")), false)
	h.run(200 * time.Millisecond)
	expect(t, "J is silent for 3.1 s", n.peers.Gone(h.now, id("J")), true)
	h.view("A", "A", "B", "C", "J")
	expect(t, "J is in the View", n.peers.Gone(h.now, id("J")), false)
	h.view("A", "A", "B", "C")
	expect(t, "J was in the View", n.peers.Gone(h.now, id("J")), true)
}

// The new holder dies before its own backup has the copy: the giver has it.
func TestGiverKeepsTheCopy(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 7)
	h.add("J")
	h.hold = func(m handMessage) bool { return m.from == "J" && m.to == "C" } // J cannot build its backup
	h.views("J", "C", "A", "B")
	h.run(500 * time.Millisecond)
	h.is("J holds it", "J", 2, "A")
	h.take("J", 1, 2)
	h.run(100 * time.Millisecond)
	h.nodes["J"].down = true
	h.held = nil
	for _, name := range []string{"A", "B", "C"} {
		h.view(name, "C", "A", "B")
	}
	h.run(time.Second)
	h.is("A has taken over and given on", "C", 5, "A")
	expect(t, "units known", h.spent("C", 1), 9)
}

// A backup of the giver's does not take over beside the new holder: it is told
// before the grant.
func TestOldBackupIsToldBeforeTheGrant(t *testing.T) {
	h := begun(t)
	h.add("J")
	var complete []bool
	h.lose = func(m handMessage) bool {
		if m.Kind == grant {
			complete = append(complete, h.nodes["B"].p.complete)
		}
		return false
	}
	h.views("J", "C", "A", "B")
	h.run(500 * time.Millisecond)
	expect(t, "grants", len(complete), 1)
	expect(t, "B was the copy then", complete[0], false)
	h.is("J holds it", "J", 2, "C")
}

// A batch that is under way when the grant is sent does not get lost, nor undo
// anything when it comes.
func TestBatchInFlightAtTheGrant(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 3)
	h.hold = func(m handMessage) bool { return m.Kind == batch && m.to == "B" && m.Flags == 0 }
	h.run(60 * time.Millisecond)
	expect(t, "batches held", len(h.held), 1)
	expect(t, "B knows", h.spent("B", 1), 0)
	h.views("B", "C", "A")
	h.run(80 * time.Millisecond)
	expect(t, "B holds it", h.holds("B"), true)
	expect(t, "B knows", h.spent("B", 1), 3)
	h.take("B", 1, 4)
	h.late()
	expect(t, "after the late batch", h.spent("B", 1), 7)
}

// A failover that lands on a copy that is still being built is passed on, not
// decided.
func TestFailoverOnAnUnfinishedCopy(t *testing.T) {
	h := begun(t)
	h.hold = func(m handMessage) bool { return m.Kind == revoke }
	h.views("A", "C", "B")
	h.run(60 * time.Millisecond)
	h.is("C is being built", "A", 1, "B")
	v := h.call("C", Call{Hop: 1, Failed: id("A")})
	expect(t, "asked of C", v, Verdict{Action: Ask, To: id("A")}) // which C hears
	h.is("nothing has changed", "A", 1, "B")
}

// The holder dies between the revocation of one copy and the completion of the
// next: what both have is put together.
func TestHolderDiesBetweenTwoCopies(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 5)
	h.run(100 * time.Millisecond)
	h.lose = func(m handMessage) bool { return m.Kind == batch && m.Flags&flagComplete != 0 }
	h.views("A", "C", "B")
	h.run(60 * time.Millisecond)
	h.is("neither is complete", "A", 1, "")
	h.nodes["A"].down = true
	h.lose = nil
	h.view("B", "C", "B")
	h.view("C", "C", "B")
	h.run(time.Second)
	h.is("C has put it together", "C", 2, "B")
	expect(t, "units known", h.spent("C", 1), 5)
}

// A caller that could not reach the owner does not make the backup decide beside
// it.
func TestFailoverWhileTheOwnerLives(t *testing.T) {
	h := begun(t)
	expect(t, "asked of B", h.call("B", Call{Hop: 1, Failed: id("A")}), Verdict{Action: Ask, To: id("A")})
	h.is("nothing has changed", "A", 1, "B")
	h.nodes["A"].down = true
	expect(t, "A is heard still", h.call("B", Call{Hop: 1, Failed: id("A")}).Action, Ask)
	h.run(150 * time.Millisecond)
	expect(t, "A is silent", h.call("B", Call{Hop: 1, Failed: id("A")}), Verdict{Action: Decide, Degraded: true})
	h.is("B has taken over", "B", 3, "")
}

// A member that does not answer may be the holder: nothing is opened without it,
// however long it takes.
func TestTimeoutIsNoAbsence(t *testing.T) {
	h := begun(t)
	h.add("J")
	h.lose = func(m handMessage) bool { return m.from == "A" || m.to == "A" }
	h.view("J", "J", "B", "C", "A")
	h.nodes["B"].p.drop() // nobody else knows anything
	h.nodes["B"].p.holder, h.nodes["C"].p.holder = rpc.Node{}, rpc.Node{}
	expect(t, "asked of J", h.call("J", Call{}).Action, Fail)
	h.run(5 * time.Second)
	expect(t, "J has opened it", h.holds("J"), false)
	h.lose = nil
	h.run(500 * time.Millisecond)
	expect(t, "asked of J", h.call("J", Call{}), Verdict{Action: Ask, To: id("A")})
}

// A count that was lowered stays so when its holder dies, and is not said to be
// settled before the copy knows.
func TestLoweringReachesTheCopy(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 9)
	h.run(100 * time.Millisecond)
	expect(t, "B knows", h.spent("B", 1), 9)
	a := h.nodes["A"].p
	a.Lower(unitsOf(1, 9), h.now)
	expect(t, "settled", a.Settled(1), false)
	h.step("A", func(n *handNode, out *Out) { n.p.Flush(h.now, out) })
	h.deliver()
	expect(t, "settled", a.Settled(1), true)
	h.nodes["A"].down = true
	h.run(150 * time.Millisecond)
	h.call("B", Call{Hop: 1, Failed: id("A")})
	expect(t, "known to who took over", h.spent("B", 1), 0)
}

// A redirect, then a target that is dead: that needs a third send. And with
// every circuit open the last candidate is tried all the same.
func TestThreeSends(t *testing.T) {
	p := Path{To: id("A"), backup: id("B")}
	expect(t, "redirected", p.Redirect(id("C")), true)
	expect(t, "then", p.To, id("C"))
	expect(t, "C is dead", p.Fail(), true)
	expect(t, "then", p.To, id("A"))
	expect(t, "told", p.Failed, id("C"))
	expect(t, "A fails", p.Fail(), false)

	h := begun(t)
	peers := h.nodes["C"].peers
	peers.Lost(h.now, id("A"))
	peers.Lost(h.now, id("B"))
	p = peers.Path(0)
	expect(t, "circuits open", p.To, id("B"))
	expect(t, "told", p.Failed, id("A"))
	expect(t, "B fails", p.Fail(), true)
	expect(t, "then", p.To, id("A"))
	expect(t, "A fails", p.Fail(), false)
}

// Who leaves takes nothing, though a View may still give it all.
func TestLeaverTakesNothing(t *testing.T) {
	h := begun(t)
	h.leave("B")
	h.view("A", "B", "C")
	h.view("C", "B", "C", "A")
	h.run(2 * time.Second)
	expect(t, "B holds it", h.holds("B"), false)
	expect(t, "A holds it", h.holds("A"), true)
	expect(t, "grants", h.sent[grant], 0)
}

// A node that starts, and knows nobody yet, owns nothing.
func TestStartingNodeOwnsNothing(t *testing.T) {
	h := newHand(t, "A")
	expect(t, "asked", h.call("A", Call{}).Action, Fail)
	h.run(time.Second)
	expect(t, "it holds the partition", h.holds("A"), false)
}

// One that has stood still asks before it decides what has queued meanwhile.
func TestQueueAfterStandingStill(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 4)
	h.run(100 * time.Millisecond)
	h.nodes["A"].down = true
	h.run(time.Second)
	expect(t, "B takes over", h.call("B", Call{Hop: 1, Failed: id("A")}).Action, Decide)
	h.queue = nil
	h.nodes["A"].down = false
	c := &Call{}
	var v Verdict
	h.step("A", func(n *handNode, out *Out) { v = n.p.Route(h.now, c, out) })
	expect(t, "at first", v.Action, Wait)
	h.deliver()
	expect(t, "then", h.ready[c], Verdict{Action: Ask, To: id("B")})
	expect(t, "A holds it", h.holds("A"), false)
	// Nothing has happened to one who was just slow to tick.
	h = begun(t)
	h.now += 300 * ms
	expect(t, "confirmed", h.call("A", Call{}).Action, Decide)
	h.is("as before", "A", 1, "B")
}

// Copies that nobody releases ask whether they are needed.
func TestForgottenCopies(t *testing.T) {
	h := begun(t)
	h.lose = func(m handMessage) bool { return m.Kind == release }
	h.views("A", "C", "B")
	h.run(500 * time.Millisecond)
	h.is("C has the copy", "A", 1, "C")
	expect(t, "B has words still", h.nodes["B"].p.role, copying)
	h.nodes["A"].p.retain = map[rpc.Node]int64{} // and A forgets
	h.lose = nil
	h.run(800 * time.Millisecond)
	expect(t, "B has asked", h.nodes["B"].p.role, none)
}

// While two views differ, nothing goes to and fro.
func TestNoFlapping(t *testing.T) {
	h := begun(t)
	h.view("A", "B", "A", "C")
	h.view("B", "A", "B", "C")
	h.run(time.Second)
	expect(t, "grants", h.sent[grant], 0)
	h.view("B", "B", "A", "C")
	h.run(300 * time.Millisecond)
	expect(t, "grants", h.sent[grant], 1)
	h.is("B holds it", "B", 2, "A")
}

// A grant that was under way for three seconds makes no second holder.
func TestGrantThatComesLate(t *testing.T) {
	h := begun(t)
	h.hold = func(m handMessage) bool { return m.Kind == grant }
	h.views("B", "A", "C")
	h.run(200 * time.Millisecond)
	expect(t, "A has stopped", h.holds("A"), false)
	expect(t, "B has not begun", h.holds("B"), false)
	expect(t, "asked of A, as B fails", h.call("A", Call{Hop: 1, Failed: id("B"), Tried: true}).Action, Decide)
	h.is("A has taken it back", "A", 4, "B")
	h.hold = func(m handMessage) bool { return m.Kind == grant && m.Epoch == 2 }
	h.run(3 * time.Second)
	h.late()
	holders := 0
	for _, name := range h.order {
		if h.holds(name) && h.nodes[name].p.sure == h.nodes[name].peers.gap(h.now) {
			holders++
		}
	}
	expect(t, "deciders", holders, 1)
	h.run(time.Second)
	expect(t, "B holds it in the end", h.holds("B"), true)
}

// Two that held the partition on two sides meet: one goes on, with the words of
// both.
func TestTwoHoldersMeet(t *testing.T) {
	h := begun(t)
	h.lose = func(m handMessage) bool { return (m.from == "A") != (m.to == "A") }
	h.run(200 * time.Millisecond)
	h.view("A", "A", "")
	h.view("B", "B", "C")
	h.view("C", "B", "C")
	h.run(time.Second)
	expect(t, "A goes on", h.holds("A"), true)
	expect(t, "B goes on", h.holds("B"), true)
	h.take("A", 1, 5)
	h.take("A", 2, 1)
	h.take("B", 1, 3)
	h.take("B", 3, 2)
	h.lose = nil
	h.views("A", "B", "C")
	h.run(2 * time.Second)
	h.is("one cluster", "A", 4, "B")
	expect(t, "the higher of both", h.spent("A", 1), 5)
	expect(t, "of A alone", h.spent("A", 2), 1)
	expect(t, "of B alone", h.spent("A", 3), 2)
}

// Words of a snapshot: the first node opens with them, and another's are merged
// into what is held by then.
func TestRestoredWords(t *testing.T) {
	h := newHand(t, "A")
	word := func(units int64) (uint64, int64) { return 1, h.now + units*int64(time.Hour) }
	restore := func(at string, units int64) {
		fingerprint, w := word(units)
		h.nodes[at].p.Restore(fingerprint, leaky.Word(w), h.now)
	}
	restore("A", 3)
	h.views("A", "")
	h.run(100 * time.Millisecond)
	expect(t, "A opens with them", h.spent("A", 1), 3)
	h.add("B")
	restore("B", 8)
	h.views("A", "B")
	h.run(time.Second)
	h.is("A goes on", "A", 1, "B")
	expect(t, "with B's", h.spent("A", 1), 8)
	expect(t, "and so does the copy", h.spent("B", 1), 8)
}

// A revoke and a release that a node sent when it held the partition before do
// nothing to the copy that it is given when it holds it again.
func TestLateFromAnEarlierTime(t *testing.T) {
	h := begun(t)
	h.views("B", "A", "C")
	h.run(300 * time.Millisecond)
	h.is("B holds it", "B", 2, "A")
	h.views("A", "B", "C")
	h.run(300 * time.Millisecond)
	h.is("A holds it again", "A", 3, "B")
	for _, kind := range []rpc.MessageKind{revoke, release} {
		h.bring(handMessage{"A", "B", rpc.Message{Kind: kind, Epoch: 1, Number: h.nodes["A"].p.number}})
		h.deliver()
		h.is("as before", "A", 3, "B")
	}
}

// What comes late, twice or of another epoch does nothing.
func TestLateMessages(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 6)
	h.run(100 * time.Millisecond)
	for _, m := range []rpc.Message{
		{Kind: batch, Epoch: 1, Number: 1, Flags: flagBegin},
		{Kind: batch, Epoch: 0, Number: 1000, Flags: flagBegin},
		{Kind: release, Epoch: 1, Number: 1},
		{Kind: revoke, Epoch: 1, Number: 1},
		{Kind: grant, Epoch: 1, Number: 1},
		{Kind: moved, Epoch: 0, Node: id("C")},
		{Kind: here, Number: 77},
		{Kind: takeOver, Epoch: 1, Node: id("C")},
		{Kind: 200},
	} {
		h.bring(handMessage{"A", "B", m})
		h.deliver()
	}
	for _, m := range []rpc.Message{
		{Kind: copied, Epoch: 1, Number: 1},
		{Kind: noCopy, Epoch: 1, Number: 1},
		{Kind: revoked, Epoch: 1, Number: 1},
		{Kind: granted, Epoch: 1},
		{Kind: refused, Epoch: 1},
		{Kind: confirmed, Number: 1},
		{Kind: reject, Epoch: 0, Node: id("B")},
		{Kind: merged, Number: 1},
	} {
		h.bring(handMessage{"B", "A", m})
		h.deliver()
	}
	h.is("as before", "A", 1, "B")
	expect(t, "B knows", h.spent("B", 1), 6)
	expect(t, "A knows", h.spent("A", 1), 6)
}
