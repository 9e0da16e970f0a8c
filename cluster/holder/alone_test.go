package holder

import (
	"testing"
	"time"
)

// alone has a node take units of a key by itself.
func (h *hand) alone(at string, fingerprint uint64, units int64) {
	h.nodes[at].p.Alone(fingerprint, h.now).Take(unitsOf(fingerprint, units), h.now)
}

// What a node has decided alone reaches the holder, however often it is lost,
// and what is decided meanwhile does too.
func TestDecidedAloneReachesTheHolder(t *testing.T) {
	h := begun(t)
	h.take("A", 2, 6)
	h.lose = func(m handMessage) bool { return m.from == "C" || m.to == "C" }
	h.run(time.Second)
	h.alone("C", 1, 3)
	h.alone("C", 2, 1)
	h.run(time.Second) // A is silent: nothing is sent
	expect(t, "sent", h.sent[merge], 0)
	lost := 0
	h.lose = func(m handMessage) bool {
		if m.Kind == merge {
			lost++
		}
		return m.Kind == merge && lost <= 2 || m.Kind == merged && lost == 3
	}
	h.until("it is sent", func() bool { return lost == 1 })
	h.alone("C", 1, 2)
	h.until("and again", func() bool { return h.nodes["C"].p.alone == nil })
	expect(t, "sent", h.sent[merge], 4) // two were lost, and an answer
	h.run(200 * time.Millisecond)
	h.is("as before", "A", 1, "B")
	for _, name := range []string{"A", "B"} {
		expect(t, name+": decided at C alone", h.spent(name, 1), 5)
		expect(t, name+": the higher of two", h.spent(name, 2), 6)
	}
	expect(t, "C is empty", h.nodes["C"].p.Status(h.now).Empty, true)
}

// What is decided between the last word sent and its acknowledgement is told
// too.
func TestDecidedAloneWhileItIsTold(t *testing.T) {
	h := begun(t)
	h.hold = func(m handMessage) bool { return m.Kind == merged }
	h.alone("C", 1, 3)
	h.until("it is told", func() bool { return len(h.held) == 1 })
	h.alone("C", 1, 4)
	h.late()
	h.run(100 * time.Millisecond)
	expect(t, "A knows", h.spent("A", 1), 7)
	expect(t, "C is empty", h.nodes["C"].p.Status(h.now).Empty, true)
}

// One that takes over counts what it decided alone with that, and its copy gets
// it.
func TestDecidedAloneByTheNextHolder(t *testing.T) {
	h := begun(t)
	h.take("A", 1, 2)
	h.run(100 * time.Millisecond)
	h.nodes["A"].down = true
	h.alone("B", 1, 3)
	h.alone("B", 2, 1)
	h.run(150 * time.Millisecond)
	expect(t, "asked of B", h.call("B", Call{Hop: 1, Failed: id("A")}).Action, Decide)
	expect(t, "at once: with the copy's", h.spent("B", 1), 5)
	expect(t, "at once", h.spent("B", 2), 1)
	h.view("B", "B", "C")
	h.view("C", "B", "C")
	h.run(500 * time.Millisecond)
	h.is("C is the copy", "B", 3, "C")
	expect(t, "C knows", h.spent("C", 1), 5)
	expect(t, "C knows", h.spent("C", 2), 1)
	expect(t, "B has nothing aside", h.nodes["B"].p.alone == nil, true)
}

// A holder that has stood still and finds nobody to ask decides alone. Once it
// is sure again it counts that.
func TestDecidedAloneByAHolderThatIsNotSure(t *testing.T) {
	h := begun(t)
	h.lose = func(m handMessage) bool { return m.from == "A" || m.to == "A" }
	h.now += 300 * ms
	c := &Call{}
	h.step("A", func(n *handNode, out *Out) { n.p.Route(h.now, c, out) })
	expect(t, "A decides", h.nodes["A"].p.Decides(h.now), false)
	h.alone("A", 1, 4)
	h.lose = nil
	h.until("A is sure", func() bool { return h.nodes["A"].p.Decides(h.now) })
	expect(t, "A knows", h.spent("A", 1), 4)
	h.run(100 * time.Millisecond)
	expect(t, "B knows", h.spent("B", 1), 4)
}
