package rpc

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"time"
)

var (
	errQueueFull = errors.New("write queue is full")
	errEnded     = errors.New("writer has ended")
)

// writer sends queued frames, all that have gathered in one write. There is no
// timer: while one write is under way, the next one gathers.
type writer struct {
	nc net.Conn

	mu        sync.Mutex
	work      sync.Cond // queue is no longer empty, or finishing
	room      sync.Cond // queue was taken, or ended
	queue     *encoder
	by        time.Time // no write may last longer, if set
	finishing bool      // run returns once the queue is empty
	ended     bool      // run has returned
}

func newWriter(nc net.Conn) *writer {
	w := &writer{nc: nc, queue: newEncoder()}
	w.work.L, w.room.L = &w.mu, &w.mu
	return w
}

// put queues the frame that is built, in place and one at a time, as they are
// written. If most bytes are queued it waits for room when told so, and
// otherwise returns errQueueFull. It returns errEnded once run has returned.
func (w *writer) put(wait bool, most int, build func(*encoder)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue.buf) >= most && !w.ended {
		if !wait {
			return errQueueFull
		}
		w.room.Wait()
	}
	if w.ended {
		return errEnded
	}
	if len(w.queue.buf) == 0 {
		w.work.Signal()
	}
	build(w.queue)
	return nil
}

// run writes until finish was called and nothing is queued, or until a write
// fails.
func (w *writer) run() error {
	defer w.end()
	var batch []byte
	for w.await() {
		// Lets those who are about to queue something do so: at 64 callers
		// a call takes two thirds of the time (BenchmarkDecide).
		runtime.Gosched()
		batch = w.take(batch)
		if _, err := w.nc.Write(batch); err != nil {
			return err
		}
		if cap(batch) > keepBuffer {
			batch = nil
		}
	}
	return nil
}

// await waits for frames and reports whether there are any.
func (w *writer) await() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue.buf) == 0 && !w.finishing {
		w.work.Wait()
	}
	return len(w.queue.buf) > 0
}

// take exchanges the queue for the memory of the previous one and starts the
// time for writing it.
func (w *writer) take(spare []byte) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.queue.buf
	w.queue.buf = spare[:0]
	w.room.Broadcast()
	by := time.Now().Add(writeTimeout)
	if !w.by.IsZero() && w.by.Before(by) {
		by = w.by
	}
	_ = w.nc.SetWriteDeadline(by) // if this fails, so does the write
	return batch
}

func (w *writer) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.queue.buf = nil
	w.room.Broadcast()
}

// finish lets run return once it has written what is queued.
func (w *writer) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finishing = true
	w.work.Signal()
}

// hurry makes writes fail that are not done after the given time.
func (w *writer) hurry(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.by = time.Now().Add(d)
	_ = w.nc.SetWriteDeadline(w.by)
}
