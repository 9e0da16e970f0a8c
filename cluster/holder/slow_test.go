package holder

import (
	"maps"
	"testing"
	"time"
)

// A node that is slow but alive, 20 to 120 ms each way, for three seconds. What
// it holds is taken from it once, and it gets nothing back before it was quick
// for a second. It takes nothing from the others, neither then nor when it is
// quick again. No call fails, not even one that it was asked itself.
func TestSlowNode(t *testing.T) {
	taken, had := 0, 0
	for seed := range uint64(40) {
		w := newWorld(seed)
		w.firstMembers(4)
		w.callers()
		w.run(w.now + 500*ms)
		n := w.current("n1")
		was := map[uint32]uint64{} // its partitions, and by which epoch it held them
		for i, p := range n.parts {
			if epoch, holds := p.Holder(); holds {
				was[uint32(i)] = epoch
			}
		}
		before := len(w.openings)
		began := w.now
		n.slow = true
		w.run(began + 3000*ms)
		n.slow = false
		ended := w.now
		w.run(ended + 3000*ms)

		lost, back := map[uint32]uint64{}, map[uint32]uint64{}
		for _, o := range w.openings[before:] {
			to := lost
			if o.node == n {
				to = back
			}
			if to[o.partition] != 0 {
				t.Errorf("seed %d: partition %d is moved there and back and there", seed, o.partition)
			}
			to[o.partition] = o.epoch
			switch {
			case was[o.partition] == 0:
				t.Errorf("seed %d: partition %d was not the slow node's", seed, o.partition)
			case o.node != n && o.at >= began+1000*ms:
				t.Errorf("seed %d: partition %d is taken after %s", seed, o.partition, time.Duration(o.at-began))
			case o.node == n && o.at < ended+950*ms: // the last late answer may be to a ping of 50 ms before
				t.Errorf("seed %d: partition %d is given back after %s", seed, o.partition, time.Duration(o.at-ended))
			}
		}
		had, taken = had+len(was), taken+len(lost)
		for p, epoch := range was {
			was[p] = epoch + 2
		}
		if !maps.Equal(lost, was) {
			t.Errorf("seed %d: taken by these epochs: %v, want %v", seed, lost, was)
		}
		for p, epoch := range was {
			was[p] = epoch + 1
		}
		if !maps.Equal(back, was) {
			t.Errorf("seed %d: given back by these epochs: %v, want %v", seed, back, was)
		}
		for _, f := range w.faults {
			t.Errorf("seed %d: %s", seed, f)
		}
		if w.failed > 0 {
			t.Errorf("seed %d: %d of %d calls failed", seed, w.failed, w.calls)
		}
		for k, limit := range w.limits {
			if extra := w.admitted[k] - limit; extra > w.allowance[k] {
				t.Errorf("seed %d: partition %d, key %d: %d above the limit, %d allowed", seed, k.partition, k.fingerprint, extra, w.allowance[k])
			}
		}
	}
	expect(t, "taken", taken, 40)
	expect(t, "of", had, 40)
}

// Two members cannot tell which of them is slow. Until both know to be patient,
// one may take what the other holds, but once, and gives it back; then no call
// fails.
func TestSlowNodeOfTwo(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(seed)
		w.firstMembers(2)
		w.callers()
		w.run(w.now + 500*ms)
		before := len(w.openings)
		began := w.now
		w.current("n1").slow = true
		w.run(began + 500*ms)
		failed := w.failed
		w.run(began + 3000*ms)
		moves := map[uint32]int{}
		for _, o := range w.openings[before:] {
			moves[o.partition]++
			if moves[o.partition] == 1 && o.at > began+500*ms {
				t.Errorf("seed %d: partition %d is taken after %s", seed, o.partition, time.Duration(o.at-began))
			}
		}
		for p, n := range moves {
			if n != 2 {
				t.Errorf("seed %d: partition %d has moved %d times, want 2", seed, p, n)
			}
		}
		expect(t, "failed, after half a second", w.failed-failed, 0)
		expect(t, "faults", len(w.faults), 0)
	}
}
