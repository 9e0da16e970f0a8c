package holder

import (
	"fmt"
	"maps"
	"slices"

	"weir/leaky"
)

// check asserts what must hold at every instant.
func (w *world) check(n *node) {
	for i, p := range n.parts {
		if p.epoch < n.epochs[i] {
			w.fault("I2: %s falls back from epoch %d to %d of partition %d", n.id.Name, n.epochs[i], p.epoch, i)
		}
		n.epochs[i] = p.epoch
		if p.role != open {
			continue
		}
		for _, other := range w.nodes {
			if q := other.parts[i]; other != n && other.up && q.role == open {
				if w.graceful {
					w.fault("I1: %s and %s both hold partition %d", n.id.Name, other.id.Name, i)
				}
			}
		}
	}
	if !w.graceful {
		return
	}
	for i := range n.parts {
		complete := 0
		for _, other := range w.nodes {
			if q := other.parts[i]; other.up && q.role == copying && q.complete {
				complete++
			}
		}
		if complete > 1 {
			w.fault("I4: %d complete copies of partition %d", complete, i)
		}
	}
}

// settle lets everything come to rest and looks whether it is as it should be.
func (w *world) settle() {
	w.run(w.now + 2500*ms)
	for _, a := range w.nodes {
		for _, b := range w.nodes {
			if a != b && a.up && b.up {
				for _, name := range slices.Sorted(maps.Keys(a.known)) {
					b.deliver(func() { b.learn(a.known[name]) })
				}
			}
		}
	}
	// A copy that is not needed asks after five seconds at the most; one in four
	// worlds lives on in any case.
	for range 13 {
		w.run(w.now + 500*ms)
		if w.seed%4 != 0 && w.unrest() == "" {
			break
		}
	}
	w.stop = true
	w.run(w.now + 1500*ms)
	if len(w.faults) > 0 {
		return
	}
	if what := w.unrest(); what != "" {
		w.fault("I6: %s", what)
		return
	}
	for k, limit := range w.limits {
		var word leaky.Word
		for _, n := range w.nodes {
			if p := n.parts[k.partition]; n.up && p.role == open {
				word = p.table.Get(k.fingerprint)
			}
		}
		for _, n := range w.nodes {
			if p := n.parts[k.partition]; n.up && p.role == copying && p.table.Get(k.fingerprint) != word {
				w.fault("I5: %s's copy of partition %d, key %d differs", n.id.Name, k.partition, k.fingerprint)
			}
		}
		admitted, allowed := w.admitted[k], w.allowance[k]
		if admitted > limit+allowed {
			w.fault("partition %d, key %d: %d admitted of %d, %d allowed besides", k.partition, k.fingerprint, admitted, limit, allowed)
		}
		if known := w.spent(k, word); known < min(admitted-allowed, limit) {
			w.fault("partition %d, key %d: %d admitted and %d known, %d allowed besides", k.partition, k.fingerprint, admitted, known, allowed)
		}
	}
	if w.graceful && w.failed > 0 {
		w.fault("%d of %d calls failed", w.failed, w.calls)
	}
}

// unrest says what is not where the View wants it, or nothing.
func (w *world) unrest() string {
	if w.returning > 0 {
		return fmt.Sprintf("%d members have still to return", w.returning)
	}
	alive := 0
	for _, n := range w.nodes {
		switch {
		case n.up && n.leaving:
			return n.id.Name + " has still to leave"
		case n.up:
			alive++
		}
	}
	for i := range uint32(partitions) {
		holders, copies := 0, 0
		for _, n := range w.nodes {
			if !n.up {
				continue
			}
			p := n.parts[i]
			owner, backup, _ := n.peers.place(i)
			switch {
			case p.role == open:
				holders++
				if owner != n.id {
					return fmt.Sprintf("%s holds partition %d, which is %s's", n.id.Name, i, owner.Name)
				}
			case p.role == copying && p.complete:
				copies++
				if backup != n.id {
					return fmt.Sprintf("%s has the copy of partition %d, which should be at %s", n.id.Name, i, backup.Name)
				}
			case p.role != none:
				return fmt.Sprintf("%s is still %d of partition %d (complete %v, merging %v) of %v", n.id.Name, p.role, i, p.complete, p.merging.exists(), p.holder)
			}
		}
		if holders != 1 || copies != min(1, alive-1) {
			return fmt.Sprintf("partition %d has %d holders and %d copies", i, holders, copies)
		}
	}
	return ""
}
