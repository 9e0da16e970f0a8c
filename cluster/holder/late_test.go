package holder

import (
	"testing"
	"time"

	"weir/leaky"
	"weir/rpc"
)

// A grant that was under way for three seconds makes no second holder.
func TestGrantThatComesLate(t *testing.T) {
	h := begun(t)
	h.hold = func(m handMessage) bool { return m.Kind == grant }
	h.views("B", "A", "C")
	h.run(200 * time.Millisecond)
	expect(t, "A has stopped", h.holds("A"), false)
	expect(t, "B has not begun", h.holds("B"), false)
	expect(t, "asked of A, as B fails", h.call("A", Call{Hop: 1, Failed: id("B"), tried: true, asked: h.now}).Action, Decide)
	h.is("A has taken it back", "A", 4, "B")
	h.hold = func(m handMessage) bool { return m.Kind == grant && m.Epoch == 2 }
	h.run(3 * time.Second)
	h.late()
	holders := 0
	for _, name := range h.order {
		if h.holds(name) && h.nodes[name].p.sure == h.nodes[name].peers.Gap(h.now) {
			holders++
		}
	}
	expect(t, "deciders", holders, 1)
	h.run(time.Second)
	expect(t, "B holds it in the end", h.holds("B"), true)
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

// The same grant, and nothing else of A's has reached B meanwhile: B takes it,
// asks A whether it stands, and decides nothing, as A says no.
func TestGrantThatComesLateAndAlone(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 1)
	h.hold = func(m handMessage) bool { return m.Kind == grant }
	h.views("B", "A", "C")
	h.until("the grant is sent", func() bool { return len(h.held) > 0 })
	late := h.held[0]
	h.hold, h.held = nil, nil
	h.lose = func(m handMessage) bool { return m.from == "A" && m.to == "B" || m.Kind == grant }
	h.run(400 * time.Millisecond)
	expect(t, "asked of A", h.call("A", Call{Hop: 1, Failed: id("B"), tried: true, asked: h.now}).Action, Decide)
	h.take("A", 1, 5)
	h.run(2600 * time.Millisecond)
	expect(t, "A holds it", h.holds("A"), true)
	expect(t, "epoch", h.nodes["A"].p.epoch, 4)
	h.queue = nil
	h.step("B", func(n *handNode, out *Out) {
		n.peers.Heard(h.now, id("A"))
		n.p.Receive(h.now, id("A"), &late.Message, out)
	})
	expect(t, "B has taken it", h.holds("B"), true)
	c := &Call{}
	var v Verdict
	h.step("B", func(n *handNode, out *Out) { v = n.p.Route(h.now, c, out) })
	expect(t, "asked of B", v, Verdict{Action: Wait})
	h.lose = nil
	h.deliver()
	expect(t, "then", h.ready[c], Verdict{Action: Ask, To: id("A")})
	expect(t, "B holds it", h.holds("B"), false)
	expect(t, "epoch that B knows", h.nodes["B"].p.epoch, 4)
	expect(t, "units known to A", h.spent("A", 1), 6)
}

// B has taken over from A. What A sent before as the holder does nothing, but
// that A learns who is.
func TestLateFromTheOneThatWasTakenOver(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 6)
	h.run(100 * time.Millisecond)
	h.nodes["A"].down = true
	h.run(150 * time.Millisecond)
	expect(t, "B takes over", h.call("B", Call{Hop: 1, Failed: id("A")}).Action, Decide)
	h.view("B", "B", "", "C") // so that nothing else is under way
	h.view("C", "B", "", "B")
	h.run(100 * time.Millisecond)
	for _, c := range []struct {
		m      rpc.Message
		answer rpc.MessageKind
	}{
		{rpc.Message{Kind: batch, Epoch: 1, Number: 900, Flags: flagBegin}, reject},
		{rpc.Message{Kind: batch, Epoch: 1, Number: 901, Words: []rpc.Word{{Fingerprint: 1}}}, reject},
		{rpc.Message{Kind: revoke, Epoch: 1, Number: 902}, reject},
		{rpc.Message{Kind: release, Epoch: 1, Number: 903}, reject},
		{rpc.Message{Kind: offer, Epoch: 1}, reject},
		{rpc.Message{Kind: confirm, Epoch: 1, Number: 904}, reject},
		{rpc.Message{Kind: grant, Epoch: 2, Number: 905}, refused},
	} {
		var out Out
		h.nodes["B"].p.Receive(h.now, id("A"), &c.m, &out)
		what := kinds[c.m.Kind]
		if len(out.Messages) != 1 {
			t.Fatalf("%s: %d messages, want 1", what, len(out.Messages))
		}
		expect(t, what+" is answered with", kinds[out.Messages[0].Kind], kinds[c.answer])
		expect(t, what+": to", out.Messages[0].To, id("A"))
		if c.answer == reject {
			expect(t, what+": holder", out.Messages[0].Node, id("B"))
			expect(t, what+": epoch", out.Messages[0].Epoch, 3)
		}
		h.is(what, "B", 3, "")
		expect(t, what+": units known", h.spent("B", 1), 6)
	}
}

// An acknowledgement counts for the batch that is under way, and for no other.
func TestLateAcknowledgement(t *testing.T) {
	h := begun(t)
	h.hold = func(m handMessage) bool { return m.Kind == copied }
	h.take("A", 1, 6)
	h.run(60 * time.Millisecond)
	expect(t, "acknowledgements under way", len(h.held), 1)
	h.take("A", 1, 2)
	a := h.nodes["A"].p
	expect(t, "admitted since the last one", a.Status(h.now).Admitted, 8)
	m := h.held[0]
	for _, other := range []rpc.Message{
		{Kind: copied, Epoch: m.Epoch, Number: m.Number - 1},
		{Kind: copied, Epoch: m.Epoch, Number: m.Number + 1},
		{Kind: copied, Epoch: m.Epoch - 1, Number: m.Number},
		{Kind: noCopy, Epoch: m.Epoch, Number: m.Number - 1},
	} {
		h.bring(handMessage{"B", "A", other})
		expect(t, "admitted", a.Status(h.now).Admitted, 8)
		h.is("as before", "A", 1, "B")
	}
	h.hold = nil
	h.bring(m)
	expect(t, "admitted, once it is there", a.Status(h.now).Admitted, 2)
	expect(t, "settled", a.Settled(1), false)
	h.run(100 * time.Millisecond)
	expect(t, "admitted", a.Status(h.now).Admitted, 0)
	h.bring(m) // twice
	h.take("A", 1, 3)
	h.bring(m)
	expect(t, "admitted", a.Status(h.now).Admitted, 3)
	// A copy that says that it is none is built anew.
	h.bring(handMessage{"B", "A", rpc.Message{Kind: noCopy, Epoch: 1, Number: m.Number}})
	h.is("as before", "A", 1, "B")
}

// Words of a snapshot at a node that is neither the holder nor its backup.
func TestRestoredWordsElsewhere(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 4)
	h.take("A", 2, 4)
	h.add("D")
	for fingerprint, units := range map[uint64]int64{1: 7, 2: 1, 3: 2} {
		h.nodes["D"].p.Restore(fingerprint, leaky.Word(h.now+units*int64(time.Hour)), h.now)
	}
	expect(t, "D opens", h.holds("D"), false)
	h.views("A", "B", "C", "D")
	h.run(time.Second) // nobody has told D of A, so it asks the owner
	h.is("as before", "A", 1, "B")
	expect(t, "D has nothing any more", h.nodes["D"].p.role, none)
	for _, name := range []string{"A", "B"} {
		expect(t, name+": the snapshot's is higher", h.spent(name, 1), 7)
		expect(t, name+": the snapshot's is lower", h.spent(name, 2), 4)
		expect(t, name+": of the snapshot alone", h.spent(name, 3), 2)
	}
}

// The batch under way carries a part of what has changed: until all has arrived,
// no less counts as unknown to the copy than is.
func TestAcknowledgementOfAPart(t *testing.T) {
	h := begun(t)
	for key := range uint64(3000) {
		h.take("A", key+1, 1)
	}
	for range 10 {
		h.run(10 * time.Millisecond)
		unknown := int64(0)
		for key := range uint64(3000) {
			unknown += 1 - h.spent("B", key+1)
		}
		if s := h.nodes["A"].p.Status(h.now); s.Admitted < unknown || (s.Lag > 0) != (unknown > 0) {
			t.Errorf("B lacks %d units, and A says %+v", unknown, s)
		}
	}
	h.run(200 * time.Millisecond)
	expect(t, "in the end", h.nodes["A"].p.Status(h.now).Admitted, 0)
}

// A grant of one giver does not acknowledge that of another by the same epoch.
func TestGrantsOfTwoByOneEpoch(t *testing.T) {
	h := begun(t)
	h.views("B", "A", "C")
	h.until("B holds it", func() bool { return h.holds("B") })
	var out Out
	h.nodes["B"].p.Receive(h.now, id("C"), &rpc.Message{Kind: grant, Epoch: 2, Number: 900}, &out)
	expect(t, "messages", len(out.Messages), 1)
	expect(t, "the answer", kinds[out.Messages[0].Kind], kinds[refused])
	out = Out{}
	h.nodes["B"].p.Receive(h.now, id("A"), &rpc.Message{Kind: grant, Epoch: 2, Number: 900}, &out)
	expect(t, "its own, once more", kinds[out.Messages[0].Kind], kinds[granted])
}

// No epoch that anybody claims makes those that follow overflow.
func TestEndlessEpoch(t *testing.T) {
	h := begun(t)
	for kind := ping; kind < lastKind; kind++ {
		for _, to := range h.order {
			h.bring(handMessage{"C", to, rpc.Message{Kind: kind, Epoch: 1<<64 - 1, Node: id("C")}})
		}
	}
	h.views("C", "A", "B")
	h.run(time.Second)
	h.is("moved", "C", 2, "A")
}

// Whoever has given way while the holder had no way to hear it, sends its words
// soon after there is one: a new View ends the waiting for longer and longer.
func TestWayIsBack(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 5)
	h.run(100 * time.Millisecond)
	h.take("A", 2, 3)
	h.lose = func(m handMessage) bool { return m.Kind == merge }
	h.nodes["B"].peers.Lost(h.now, id("A"))
	expect(t, "asked of B", h.call("B", Call{Hop: 1, Failed: id("A")}).Action, Decide)
	for range 300 {
		if h.sent[merge] < 5 { // the next one would be sent 800 ms later
			h.run(10 * time.Millisecond)
		}
	}
	expect(t, "merges lost", h.sent[merge], 5)
	expect(t, "B knows of the second key", h.spent("B", 2), 0)
	h.lose = nil
	h.views("A", "B", "C")
	h.run(150 * time.Millisecond)
	expect(t, "B knows of the second key now", h.spent("B", 2), 3)
}
