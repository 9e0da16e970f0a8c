package holder

import (
	"testing"
	"time"

	"weir/rpc"
)

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
	keep := revoke // B stays the copy at first, and C gets only what there was
	h.lose = func(m handMessage) bool {
		return m.Kind == keep || m.Kind == batch && m.to == "C" && m.Flags&flagBegin == 0
	}
	h.views("A", "C", "B")
	h.run(60 * time.Millisecond)
	h.take("A", 2, 3)
	h.run(100 * time.Millisecond)
	h.is("B is the copy still", "A", 1, "B")
	expect(t, "nobody could take over", h.nodes["A"].p.Status(h.now).Bare, false)
	keep = 0
	h.run(200 * time.Millisecond)
	expect(t, "B knows of the second key", h.spent("B", 2), 3)
	expect(t, "C knows of the second key", h.spent("C", 2), 0)
	h.is("neither is complete", "A", 1, "")
	expect(t, "nobody could take over now", h.nodes["A"].p.Status(h.now).Bare, true)
	h.nodes["A"].down = true
	h.lose = nil
	h.view("B", "C", "B")
	h.view("C", "C", "B")
	h.run(time.Second)
	h.is("C has put it together", "C", 2, "B")
	expect(t, "units known", h.spent("C", 1), 5)
	expect(t, "of B alone", h.spent("C", 2), 3)
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

// The message that says that the new copy has everything is lost, and the holder
// dies: the new one takes over, the old one does not.
func TestOldAndNewCopyDoNotBothDecide(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 5)
	h.run(100 * time.Millisecond)
	h.lose = func(m handMessage) bool { return m.Kind == copied && m.from == "C" && h.nodes["C"].p.complete }
	h.views("A", "C", "B")
	h.run(60 * time.Millisecond)
	h.is("C has everything, which A does not know", "A", 1, "C")
	h.nodes["A"].down = true
	h.lose = nil
	h.run(150 * time.Millisecond)
	expect(t, "asked of B", h.call("B", Call{Hop: 1, Failed: id("A")}), Verdict{Action: Ask, To: id("C")})
	expect(t, "asked of C", h.call("C", Call{Hop: 2, Failed: id("A")}).Action, Decide)
	h.is("C alone", "C", 3, "")
	expect(t, "taken over", h.sum.Taken, 1)
	expect(t, "units known", h.spent("C", 1), 5)
}

// The same, but the holder only stands still. The old copy does not know that
// the new one has taken over, so that is not the one to ask.
func TestStandingStillBetweenTwoCopies(t *testing.T) {
	h := begun(t)
	h.hold = func(m handMessage) bool { return m.Kind == copied && m.from == "C" && h.nodes["C"].p.complete }
	h.views("A", "C", "B")
	h.run(60 * time.Millisecond)
	h.is("C has everything, which A does not know", "A", 1, "C")
	h.nodes["A"].down = true
	h.run(150 * time.Millisecond)
	expect(t, "C takes over", h.call("C", Call{Hop: 1, Failed: id("A")}).Action, Decide)
	h.nodes["A"].down = false
	h.queue = nil
	expect(t, "asked of A", h.call("A", Call{}), Verdict{Action: Ask, To: id("C")})
	h.is("C alone", "C", 3, "")
}

// The owner lives, but it and its backup do not hear each other: both decide.
// The owner gives way as soon as they do, and what only it knows comes back.
func TestWordsOfTheOneThatWasTakenOverComeBack(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 4)
	h.take("A", 3, 9)
	h.run(100 * time.Millisecond)
	var mergedWords int
	h.lose = func(m handMessage) bool { return m.from == "A" && m.to == "B" || m.from == "B" && m.to == "A" }
	h.take("A", 1, 2)
	h.take("A", 2, 1)
	h.run(150 * time.Millisecond)
	expect(t, "A is silent to B", h.call("B", Call{Hop: 1, Failed: id("A")}), Verdict{Action: Decide, Degraded: true})
	began := h.now
	h.take("B", 1, 3)
	expect(t, "both decide", h.holds("A"), true)
	h.lose = func(m handMessage) bool {
		if m.Kind == merge {
			mergedWords += len(m.Words)
		}
		return false
	}
	h.until("A has stepped down", func() bool { return !h.holds("A") })
	h.is("A has heard of B", "B", 3, "")
	expect(t, "both held it for", time.Duration(h.now-began), 100*time.Millisecond) // B's first batch was lost
	expect(t, "words sent to be merged", mergedWords, 2)                            // not the third, which B had acknowledged
	expect(t, "key 1: the higher of 6 and 7", h.spent("B", 1), 7)
	expect(t, "key 2: of A alone", h.spent("B", 2), 1)
	expect(t, "key 3: of both", h.spent("B", 3), 9)
	h.run(300 * time.Millisecond) // of the hold-off of 500 ms
	expect(t, "B has it still", h.holds("B"), true)
	h.run(200 * time.Millisecond)
	h.is("A has it back", "A", 4, "B")
	expect(t, "key 1", h.spent("A", 1), 7)
}

// A member answers a survey when that is over. Its answer does nothing, but the
// next survey finds it; nothing was opened meanwhile.
func TestSurveyIsAnsweredLate(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 6)
	h.add("J")
	h.view("J", "J", "", "A")
	h.hold = func(m handMessage) bool { return m.Kind == here && m.to == "J" } // A is heard
	expect(t, "asked of J", h.call("J", Call{}).Action, Fail)
	h.run(time.Second)
	expect(t, "J has it", h.holds("J"), false)
	first := h.held[:0:0]
	for _, m := range h.held {
		if m.Kind == here && len(first) == 0 {
			first = append(first, m)
		}
	}
	expect(t, "answers of A's", len(first), 1)
	h.until("J surveys", func() bool { return h.nodes["J"].p.survey.number != 0 })
	h.bring(first[0])
	expect(t, "an answer to an old survey: known to J", h.nodes["J"].p.holder, rpc.Node{})
	h.hold, h.held = nil, nil
	h.run(200 * time.Millisecond)
	expect(t, "asked of J", h.call("J", Call{}), Verdict{Action: Ask, To: id("A")})
	h.is("as before", "A", 1, "B")
	expect(t, "opened", h.sum.Opened, 1) // by A, at first
}

// A count is lowered while a batch with the old word is under way, and while it
// changes hands: the old word does not come back.
func TestLoweredWordDoesNotComeBack(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 9)
	h.hold = func(m handMessage) bool { return m.Kind == batch && m.from == "A" && len(m.Words) > 0 }
	h.run(60 * time.Millisecond)
	expect(t, "batches with the old word", len(h.held), 1)
	a := h.nodes["A"].p
	a.Lower(unitsOf(1, 9), h.now)
	h.hold = nil
	h.run(200 * time.Millisecond)
	expect(t, "settled", a.Settled(1), true)
	h.late()
	expect(t, "B knows", h.spent("B", 1), 0)
	h.take("A", 2, 9)
	h.run(100 * time.Millisecond)
	h.views("B", "C", "A")
	h.until("B holds it", func() bool { return h.holds("B") })
	expect(t, "B knows", h.spent("B", 2), 9)
	b := h.nodes["B"].p
	b.Lower(unitsOf(2, 9), h.now)
	h.run(time.Second)
	h.is("moved", "B", 2, "C")
	for _, name := range []string{"B", "C"} {
		expect(t, name+": key 1", h.spent(name, 1), 0)
		expect(t, name+": key 2", h.spent(name, 2), 0)
	}
}

// While the copy does not answer, what was lowered is not settled, however often
// it is sent.
func TestLoweringIsNotSettledByASilentCopy(t *testing.T) {
	h := begun(t)
	a := h.nodes["A"].p
	h.take("A", 1, 9)
	h.run(100 * time.Millisecond)
	h.lose = func(m handMessage) bool { return m.Kind == copied }
	a.Lower(unitsOf(1, 9), h.now)
	h.run(time.Second)
	expect(t, "settled", a.Settled(1), false)
	expect(t, "B knows", h.spent("B", 1), 0) // it is the answer that is missing
	h.lose = nil
	h.run(time.Second)
	expect(t, "settled", a.Settled(1), true)
}
