package holder

import (
	"testing"
	"time"

	"weir/rpc"
)

// The move of a copy is seen by one of two: A has moved it from B to C, but B
// takes itself for the backup still. It has nothing to take over with.
func TestBackupMoveSeenByOneOfTwo(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 4)
	h.view("A", "A", "C", "B")
	h.run(300 * time.Millisecond)
	h.is("A has moved the copy", "A", 1, "C")
	expect(t, "B's own View", h.nodes["B"].peers.Placement().Backups[0], id("B"))
	expect(t, "C's own View", h.nodes["C"].peers.Placement().Backups[0], id("B"))
	h.nodes["A"].down = true
	h.run(150 * time.Millisecond)
	expect(t, "asked of B", h.call("B", Call{Hop: 1, Failed: id("A")}), Verdict{Action: Ask, To: id("C")})
	expect(t, "passed on to C", h.call("C", Call{Hop: 2, Failed: id("A")}).Action, Decide)
	h.is("C has taken over", "C", 3, "")
	expect(t, "units known", h.spent("C", 1), 4)
	expect(t, "opened", h.sum.Opened, 1) // by A, at first
}

// J joins and gets it, C leaves, K joins and gets it: no ring of K's says who
// held it before. Nor does one when a load bound moves it between old members.
func TestChainOfOwners(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 3)
	h.add("J")
	h.views("J", "A", "B", "C")
	h.run(300 * time.Millisecond)
	h.is("J has it", "J", 2, "A")
	h.take("J", 1, 2)
	h.nodes["C"].down = true // it has left
	h.views("J", "A", "B")
	h.run(time.Second)
	h.add("K")
	h.view("K", "K", "B", "A", "J") // without K, K's ring says B, which has nothing
	expect(t, "B is nothing to it", h.nodes["B"].p.role, none)
	expect(t, "asked of K", h.call("K", Call{}), Verdict{Action: Ask, To: id("J")})
	h.is("nothing has changed", "J", 2, "A")
	h.views("K", "B", "A", "J")
	h.run(500 * time.Millisecond)
	h.is("K has it", "K", 3, "B")
	expect(t, "units known", h.spent("K", 1), 5)
	h.views("A", "J", "B", "K") // a load bound
	h.run(time.Second)
	h.is("A has it", "A", 4, "J")
	expect(t, "units known", h.spent("A", 1), 5)
	for _, name := range []string{"B", "K"} {
		expect(t, name+" has nothing", h.nodes[name].p.role, none)
	}
	expect(t, "grants", h.sum.Granted, 3)
	expect(t, "taken over", h.sum.Taken, 0)
	expect(t, "opened", h.sum.Opened, 1)
}

// A has the copy of J, which it has not seen in gossip. J is not gone for that,
// though A's own View gives the partition to A.
func TestHolderThatIsNotSeenYet(t *testing.T) {
	h := newHand(t, "B")
	h.views("B", "")
	h.run(50 * time.Millisecond)
	h.add("A")
	h.views("B", "A")
	h.run(300 * time.Millisecond)
	h.is("B has it", "B", 1, "A")
	h.add("J")
	h.view("B", "J", "A", "B")
	h.view("J", "J", "A", "B")
	h.run(500 * time.Millisecond)
	h.is("J has it", "J", 2, "A")
	h.take("J", 1, 6)
	h.nodes["B"].down = true // it has left, which A has seen
	h.view("A", "A", "")
	h.view("J", "J", "A")
	h.run(5 * time.Second)
	h.is("J still has it", "J", 2, "A")
	expect(t, "asked of A", h.call("A", Call{}), Verdict{Action: Ask, To: id("J")})
	// Should J die unseen, it is gone three seconds after its last word.
	h.nodes["J"].down = true
	h.run(2900 * time.Millisecond)
	expect(t, "A has it after 2.9 s", h.holds("A"), false)
	h.run(200 * time.Millisecond)
	h.is("A has taken over", "A", 4, "")
	expect(t, "units known", h.spent("A", 1), 6)
}

// decider follows a call from a node, and returns who decides it, or "" if
// two redirects do not lead there.
func (h *hand) decider(at string) string {
	for hop := range uint8(3) {
		switch v := h.call(at, Call{Hop: hop}); v.Action {
		case Decide:
			return at
		case Ask:
			at = v.To.Name
		default:
			return ""
		}
	}
	return ""
}

// A has granted to J, and the partition comes back to A: neither redirects to
// the other one in circles, at any instant.
func TestBackToTheGiver(t *testing.T) {
	h := begun(t)
	h.add("J")
	h.views("J", "A", "B", "C")
	h.run(300 * time.Millisecond)
	h.is("J has it", "J", 2, "A")
	steps := 0
	follow := func(d time.Duration) {
		for end := h.now + int64(d); h.now < end; steps++ {
			h.run(10 * time.Millisecond)
			for _, at := range []string{"A", "B", "C", "J"} {
				if h.decider(at) == "" {
					t.Fatalf("step %d: a call to %s goes in circles", steps, at)
				}
			}
		}
	}
	h.view("A", "A", "B", "C", "J") // the others have not heard
	follow(400 * time.Millisecond)
	h.is("J has it until it hears", "J", 2, "A")
	expect(t, "grants", h.sum.Granted, 1)
	h.view("J", "A", "B", "C", "J")
	follow(200 * time.Millisecond)
	h.is("A has it", "A", 3, "B")
	h.view("B", "A", "B", "C", "J")
	h.view("C", "A", "B", "C", "J")
	follow(200 * time.Millisecond)
	h.is("A has it", "A", 3, "B")
	expect(t, "grants", h.sum.Granted, 2)
	expect(t, "J has nothing any more", h.nodes["J"].p.role, none)
}

// A grants to J and dies before it can release B, which was its copy before: B
// does not take over beside J.
func TestGiverDiesBeforeItsOldBackupIsReleased(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 8)
	h.add("J")
	h.lose = func(m handMessage) bool { return m.Kind == release }
	h.views("J", "C", "A", "B")
	h.until("J holds it", func() bool { return h.holds("J") })
	h.nodes["A"].down = true
	expect(t, "B has words of A's", h.nodes["B"].p.role, copying)
	expect(t, "and they are A's", h.nodes["B"].p.holder, id("A"))
	h.run(150 * time.Millisecond)
	expect(t, "asked of B", h.call("B", Call{Hop: 1, Failed: id("A")}), Verdict{Action: Ask, To: id("J")})
	for _, name := range []string{"B", "C", "J"} {
		h.view(name, "J", "C", "B")
	}
	h.lose = nil
	h.run(2 * time.Second)
	h.is("J alone", "J", 2, "C")
	expect(t, "taken over", h.sum.Taken, 0)
	expect(t, "B was released", h.nodes["B"].p.role, none)
	expect(t, "units known", h.spent("J", 1), 8)
}

// A grant meets a node that has begun to leave: it takes nothing, and the giver
// goes on.
func TestGrantToALeaver(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 2)
	h.hold = func(m handMessage) bool { return m.Kind == grant }
	h.views("B", "A", "C")
	h.run(50 * time.Millisecond)
	expect(t, "the grant is under way", len(h.held) > 0, true)
	h.leave("B")
	h.late()
	h.is("A goes on", "A", 3, "B")
	expect(t, "asked of A", h.call("A", Call{}).Action, Decide)
	h.views("A", "C", "B")
	h.leave("B")
	h.run(300 * time.Millisecond)
	h.is("and the leaver is rid of the copy", "A", 3, "C")
	expect(t, "B has nothing", h.nodes["B"].p.role, none)
	expect(t, "grants taken", h.sum.Granted, 0)
	// A View that still gives it to B, by a late timer, does not help.
	h.view("A", "B", "C", "A")
	h.view("C", "B", "C", "A")
	h.run(time.Second)
	h.is("A has it still", "A", 3, "C")
	expect(t, "asked of B", h.call("B", Call{}), Verdict{Action: Ask, To: id("A")})
}

// A leaver with the only complete copy takes over when its holder dies, so that
// nothing is lost, and gives it away.
func TestLeaverWithTheOnlyCopy(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 5)
	h.run(100 * time.Millisecond)
	h.leave("B")
	h.nodes["A"].down = true
	h.view("C", "C", "", "B")
	h.view("B", "C", "", "B")
	h.leave("B")
	h.run(500 * time.Millisecond)
	h.is("C has it", "C", 4, "B")
	expect(t, "units known", h.spent("C", 1), 5)
	expect(t, "taken over", h.sum.Taken, 1)
	expect(t, "opened", h.sum.Opened, 1)
}

// A leaver is empty as soon as the new holder has a copy elsewhere: it does not
// wait for copies that others have forgotten, nor for its drain timeout.
func TestLeaverIsSoonEmpty(t *testing.T) {
	for _, lost := range []rpc.MessageKind{0, release, released} {
		h := begun(t)
		n := 0
		h.lose = func(m handMessage) bool { // the first two of them
			if m.Kind != lost {
				return false
			}
			n++
			return n <= 2
		}
		began := h.now
		h.views("B", "C", "A")
		h.leave("A")
		for h.nodes["A"].p.role != none && h.now < began+20_000*ms {
			h.run(10 * time.Millisecond)
		}
		took := time.Duration(h.now - began)
		want := map[rpc.MessageKind]time.Duration{0: 20 * time.Millisecond, release: 220 * time.Millisecond, released: 20 * time.Millisecond}[lost]
		what := kinds[lost] + " is lost"
		expect(t, what+": the leaver is empty after", took, want)
		h.run(time.Second)
		h.is(what, "B", 2, "C")
	}
}

// Views that come one after another, up to 300 ms apart, move it once each time.
func TestOneGrantForEachMove(t *testing.T) {
	h := begun(t)
	orders := []string{"ABC", "BCA", "CAB", "CBA"}
	owners := []string{"B", "A"}
	backup := map[string]string{"A": "B", "B": "A"}
	epoch := uint64(1)
	for i, order := range orders {
		owner := owners[i%2]
		for _, name := range order {
			h.view(string(name), owner, backup[owner], "C")
			h.run(150 * time.Millisecond)
		}
		h.run(300 * time.Millisecond)
		epoch++
		h.is("moved", owner, epoch, backup[owner])
		expect(t, "grants", h.sum.Granted, i+1)
	}
	expect(t, "taken over", h.sum.Taken, 0)
}

// A node that could not reach the holder, and becomes its copy while the call
// waits for a survey, does not take over from it by what was before.
func TestEvidenceFromBeforeTheCopy(t *testing.T) {
	h := begun(t)
	h.run(200 * time.Millisecond) // everybody has been heard
	h.lose = func(m handMessage) bool { return m.Kind == here }
	c := &Call{Hop: 1}
	c.Evidence(id("A"), h.now)
	var v Verdict
	h.step("C", func(n *handNode, out *Out) { v = n.p.Route(h.now, c, out) })
	expect(t, "asked of C", v.Action, Wait)
	h.views("A", "C", "B")
	h.run(100 * time.Millisecond)
	h.is("C is the copy of A", "A", 1, "C")
}

// A call that waits while the partition is given away, and that the new holder
// failed before it was one, does not make the giver take it back.
func TestEvidenceFromBeforeTheGrant(t *testing.T) {
	h := begun(t)
	h.hold = func(m handMessage) bool { return m.Kind == granted || m.Kind == confirm }
	h.views("B", "A", "C")
	h.until("B has taken the grant", func() bool { return len(h.held) == 2 })
	c := &Call{Hop: 2, Failed: id("B"), tried: true, asked: h.now}
	var v Verdict
	h.step("A", func(n *handNode, out *Out) { v = n.p.Route(h.now, c, out) })
	expect(t, "asked of A", v.Action, Wait)
	h.hold = nil
	h.late()
	expect(t, "then", h.ready[c], Verdict{Action: Ask, To: id("B")})
	h.run(time.Second)
	h.is("B holds it", "B", 2, "A")
}

// Without replicas the giver's copy is let go of only once it knows: else the
// next one that is built could take over beside it.
func TestWithoutReplicasTheCopyIsRevoked(t *testing.T) {
	h := begun(t)
	for _, n := range h.nodes {
		n.peers.replicas = 0
	}
	h.lose = func(m handMessage) bool { return m.Kind == revoke }
	h.run(300 * time.Millisecond)
	expect(t, "A's copy", h.nodes["A"].p.desig.to, id("B"))
	h.is("B does not know", "A", 1, "B")
	h.lose = nil
	h.run(300 * time.Millisecond)
	expect(t, "A's copy", h.nodes["A"].p.desig.to, rpc.Node{})
	h.is("B knows", "A", 1, "")
	expect(t, "what B has", h.nodes["B"].p.Status(h.now).Empty, true)
}
