package cluster

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A node that stops without anybody to hand over to decides nothing more once it
// retires, and its copy has what was taken last: whoever takes over is exact.
func TestRetire(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		nodes := w.together(both, "n1", "n2")
		a, b := nodes[0], nodes[1]
		far := one(check(owned(t, both, "n2 n1"), 1, rule(t, 9, 300*time.Hour)))
		same(t, "before", says(b.Decide(t.Context(), far, take)), "+8")
		same(t, "before", says(b.Decide(t.Context(), far, take)), "+7")
		began := time.Now()
		if err := b.Retire(t.Context()); err != nil {
			t.Fatal(err)
		}
		// It is told at once, and looks with every beat.
		within(t, "time of it", time.Since(began), 2*hop, 60*time.Millisecond)
		same(t, "of itself", says(b.Decide(t.Context(), far, take)), "+6 degraded")
		same(t, "which another decided", a.Stats().TakenOver.Load(), 1)
		same(t, "and then", says(a.Decide(t.Context(), far, take)), "+5")
	})
}

// A copy that is silent cannot be told.
func TestRetireIsBounded(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		b := w.together(both, "n1", "n2")[1]
		far := one(check(owned(t, both, "n2 n1"), 1, rule(t, 9, 300*time.Hour)))
		w.net.Crash(hostOf("n1"))
		same(t, "before", says(b.Decide(t.Context(), far, take)), "+8")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Retire(ctx); err == nil {
			t.Error("it says that the copy has all")
		}
	})
}

// What a node decided alone is in its snapshot, though it holds nothing of it.
func TestSnapshotOfWhatWasDecidedAlone(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a := w.together(three, "n1", "n2", "n3")[0]
		far := one(check(owned(t, three, "n2 n3"), 1, rule(t, 9, 300*time.Hour)))
		w.net.Isolate(hostOf("n1"))
		same(t, "alone", says(a.Decide(t.Context(), far, fall)), "+8 degraded")
		file := filepath.Join(t.TempDir(), "snapshot")
		if n, err := a.Save(file, time.Now); err != nil || n != 1 {
			t.Fatalf("%d words saved: %v", n, err)
		}
		_ = a.Close()
		d := &dictated{changed: make(chan struct{}, 1)}
		d.view.Store(view(""))
		restored := New(w.config("n1", d))
		if loaded, err := restored.Restore(file, time.Now); err != nil || loaded.Words != 1 {
			t.Fatalf("%d words loaded: %v", loaded.Words, err)
		}
		restored.Open(w.net.Listen(rpcOf("n1")))
		defer restored.Close()
		d.set(view("n1:active"))
		synctest.Wait()
		same(t, "of a single node later", says(restored.Decide(t.Context(), far, take)), "+7")
	})
}
