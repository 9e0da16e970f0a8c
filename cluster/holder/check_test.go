package holder

import (
	"maps"
	"slices"
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
	w.run(w.now + 6500*ms)
	w.stop = true
	w.run(w.now + 1500*ms)
	if len(w.faults) > 0 {
		return
	}
	for i := range uint32(partitions) {
		var holders, complete int
		var held, copied *Partition
		for _, n := range w.nodes {
			if !n.up {
				continue
			}
			p := n.parts[i]
			owner, backup, _ := n.peers.place(i)
			switch {
			case p.role == open:
				holders++
				held = p
				if owner != n.id {
					w.fault("I6: %s holds partition %d, which is %s's", n.id.Name, i, owner.Name)
				}
			case p.role == copying && p.complete:
				complete++
				copied = p
				if backup != n.id {
					w.fault("I6: %s has the copy of partition %d, which should be at %s", n.id.Name, i, backup.Name)
				}
			case p.role != none:
				w.fault("I6: %s is still %d of partition %d (complete %v, merging %v) of %v", n.id.Name, p.role, i, p.complete, p.merging.exists(), p.holder)
			}
		}
		alive := 0
		for _, n := range w.nodes {
			if n.up && !n.leaving {
				alive++
			}
		}
		if holders != 1 || complete != min(1, alive-1) {
			w.fault("I6: partition %d has %d holders and %d copies", i, holders, complete)
			continue
		}
		for k, limit := range w.limits {
			if k.partition != i {
				continue
			}
			word := held.table.Get(k.fingerprint)
			if copied != nil && copied.table.Get(k.fingerprint) != word {
				w.fault("I5: the copy of partition %d, key %d differs", i, k.fingerprint)
			}
			admitted, allowed := w.admitted[k], w.allowance[k]
			if admitted > limit+allowed {
				w.fault("partition %d, key %d: %d admitted of %d, %d allowed besides", i, k.fingerprint, admitted, limit, allowed)
			}
			if known := w.spent(k, word); known < min(admitted-allowed, limit) {
				w.fault("partition %d, key %d: %d admitted and %d known, %d allowed besides", i, k.fingerprint, admitted, known, allowed)
			}
		}
	}
	if w.graceful && w.failed > 0 {
		w.fault("%d of %d calls failed", w.failed, w.calls)
	}
}
