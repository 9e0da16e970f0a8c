package holder

import (
	"testing"
	"time"

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
