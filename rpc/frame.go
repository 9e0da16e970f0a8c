package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// MaxFrame is the longest a frame may be, in bytes, without its length.
const MaxFrame = 1 << 20

const (
	lengthSize  = 4
	firstBuffer = 16 << 10 // bytes; holds several hundred usual frames
	keepBuffer  = 64 << 10 // bytes a buffer may keep after a burst
)

// errStopped is what a stopped frameReader returns.
var errStopped = errors.New("stopped")

// errLength is a length that no frame can have.
var errLength = errors.New("bad frame length")

// frameReader cuts a connection into frames. Only stop may be called by
// another goroutine than the reading one.
type frameReader struct {
	nc         net.Conn
	buf        []byte
	start, end int       // unread bytes of buf
	armed      time.Time // read deadline in force, zero if none
	stopped    atomic.Bool
}

func newFrameReader(nc net.Conn) *frameReader {
	return &frameReader{nc: nc, buf: make([]byte, firstBuffer)}
}

// next returns the next frame without its length. It is valid until the next
// call. The frame must be no longer than limit and complete by the given time;
// if that is zero, it may take any time to begin, then frameTimeout.
func (r *frameReader) next(limit int, by time.Time) ([]byte, error) {
	r.shrink()
	need := lengthSize
	for {
		if r.stopped.Load() {
			return nil, errStopped
		}
		have := r.end - r.start
		if have >= lengthSize {
			n := int64(binary.BigEndian.Uint32(r.buf[r.start:]))
			if n == 0 || n > int64(limit) {
				return nil, fmt.Errorf("%w: %d is not between 1 and %d", errLength, n, limit)
			}
			need = lengthSize + int(n)
		}
		if have >= need {
			frame := r.buf[r.start+lengthSize : r.start+need]
			r.start += need
			return frame, nil
		}
		if by.IsZero() && have > 0 {
			// Set once per frame, so that a trickle of bytes does not extend it.
			by = time.Now().Add(frameTimeout)
		}
		if err := r.fill(need, by); err != nil {
			return nil, err
		}
	}
}

// fill reads at least one byte.
func (r *frameReader) fill(need int, by time.Time) error {
	if !by.Equal(r.armed) {
		if err := r.nc.SetReadDeadline(by); err != nil {
			return err
		}
		r.armed = by
	}
	// Looked at after the deadline was set: either this sees stop, or stop's
	// own deadline comes later and ends the read below.
	if r.stopped.Load() {
		return errStopped
	}
	r.makeRoom(need)
	n, err := r.nc.Read(r.buf[r.end:])
	r.end += n
	switch {
	case n > 0:
		return nil // an error with it comes again
	case r.stopped.Load():
		return errStopped
	case err == io.EOF && r.end > r.start:
		return io.ErrUnexpectedEOF
	}
	return err
}

// makeRoom makes place behind the unread bytes. The buffer grows with what has
// arrived, not with what a length announces.
func (r *frameReader) makeRoom(need int) {
	if r.start > 0 && r.start+need > len(r.buf) {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	if r.end == len(r.buf) {
		grown := make([]byte, min(2*len(r.buf), lengthSize+MaxFrame))
		copy(grown, r.buf[:r.end])
		r.buf = grown
	}
}

// shrink lets go of a buffer that a few long frames have blown up.
func (r *frameReader) shrink() {
	if r.start < r.end {
		return
	}
	r.start, r.end = 0, 0
	if len(r.buf) > keepBuffer {
		r.buf = make([]byte, firstBuffer)
	}
}

// stop makes the reading goroutine return with errStopped before the next
// frame, at once if it waits for one.
func (r *frameReader) stop() {
	r.stopped.Store(true)
	_ = r.nc.SetReadDeadline(time.Unix(1, 0))
}
