package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// encoder appends frames to a buffer. Nothing in it can fail: a write to memory
// does not.
type encoder struct {
	msg   *msgpack.Encoder
	buf   []byte
	start int // of the frame begun last
}

func newEncoder() *encoder {
	e := new(encoder)
	e.msg = msgpack.NewEncoder(e)
	return e
}

func (e *encoder) Write(p []byte) (int, error) {
	e.buf = append(e.buf, p...)
	return len(p), nil
}

func (e *encoder) WriteByte(c byte) error {
	e.buf = append(e.buf, c)
	return nil
}

// begin starts a frame: an array of so many elements, of which the first, its
// kind, is written.
func (e *encoder) begin(elements int, k kind) {
	e.start = len(e.buf)
	e.buf = append(e.buf, 0, 0, 0, 0)
	e.array(elements)
	e.uint(uint64(k))
}

// end fills in the length of the frame.
func (e *encoder) end() {
	binary.BigEndian.PutUint32(e.buf[e.start:], uint32(len(e.buf)-e.start-lengthSize))
}

func (e *encoder) array(n int)   { _ = e.msg.EncodeArrayLen(n) }
func (e *encoder) uint(v uint64) { _ = e.msg.EncodeUint(v) }
func (e *encoder) int(v int64)   { _ = e.msg.EncodeInt(v) }

// node writes two elements: name and run.
func (e *encoder) node(n Node) {
	e.text(n.Name, MaxName)
	e.uint(n.Boot)
}

// wide writes the number in nine bytes, however small it is.
func (e *encoder) wide(v uint64) {
	e.buf = binary.BigEndian.AppendUint64(append(e.buf, msgpcode.Uint64), v)
}

// text writes at most its first most bytes.
func (e *encoder) text(s string, most int) {
	_ = e.msg.EncodeString(s[:min(len(s), most)])
}

var errTrailing = errors.New("bytes after the last element")

// decoder reads one frame from memory. Of the msgpack library it uses only what
// reads single numbers and lengths: its slice, string and skip functions take
// memory or stack by lengths that nobody has compared with anything. The first
// error stays, and everything read after it is zero.
type decoder struct {
	msg  *msgpack.Decoder
	data []byte
	off  int
	err  error
}

func newDecoder() *decoder {
	d := new(decoder)
	d.msg = msgpack.NewDecoder(d)
	return d
}

// reset turns the decoder to another frame.
func (d *decoder) reset(frame []byte) { d.data, d.off, d.err = frame, 0, nil }

func (d *decoder) left() int { return len(d.data) - d.off }

func (d *decoder) Read(p []byte) (int, error) {
	if d.left() == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.data[d.off:])
	d.off += n
	return n, nil
}

func (d *decoder) ReadByte() (byte, error) {
	if d.left() == 0 {
		return 0, io.EOF
	}
	d.off++
	return d.data[d.off-1], nil
}

// UnreadByte is there for the library to take the decoder for a buffer.
func (d *decoder) UnreadByte() error {
	d.off--
	return nil
}

func (d *decoder) fail(field string, err error) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: %w", field, err)
	}
}

// ready reports whether a value can be read, and refuses nil, which the library
// takes for zero.
func (d *decoder) ready(field string) bool {
	switch {
	case d.err != nil:
		return false
	case d.left() == 0:
		d.fail(field, io.ErrUnexpectedEOF)
		return false
	case d.data[d.off] == msgpcode.Nil:
		d.fail(field, errors.New("is nil"))
		return false
	}
	return true
}

// uint reads a number of 0 to most.
func (d *decoder) uint(field string, most uint64) uint64 {
	if !d.ready(field) {
		return 0
	}
	var v uint64
	var err error
	switch c := d.data[d.off]; {
	case c >= msgpcode.NegFixedNumLow || c >= msgpcode.Int8 && c <= msgpcode.Int64:
		// The library turns signed numbers into huge unsigned ones.
		err = errors.New("is signed")
	case c == msgpcode.Uint64 && d.left() >= 9:
		// Not left to the library because all words are of this form.
		v = binary.BigEndian.Uint64(d.data[d.off+1:])
		d.off += 9
	default:
		v, err = d.msg.DecodeUint64()
	}
	if err == nil && v > most {
		err = fmt.Errorf("%d is above %d", v, most)
	}
	if err != nil {
		d.fail(field, err)
		return 0
	}
	return v
}

// array reads the length of an array of least to most elements, none of which
// is encoded in fewer than size bytes.
func (d *decoder) array(field string, least, most, size int) int {
	if !d.ready(field) {
		return 0
	}
	n, err := d.msg.DecodeArrayLen()
	if err == nil && (n < least || n > most) {
		err = fmt.Errorf("%d elements, not %d to %d", n, least, most)
	}
	if err == nil && n > d.left()/size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		d.fail(field, err)
		return 0
	}
	return n
}

// text reads a string of at most most bytes, which it copies.
func (d *decoder) text(field string, most int) string {
	if !d.ready(field) {
		return ""
	}
	n, err := d.msg.DecodeBytesLen()
	if err == nil && (n < 0 || n > most) {
		err = fmt.Errorf("%d bytes, at most %d", n, most)
	}
	if err == nil && n > d.left() {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		d.fail(field, err)
		return ""
	}
	s := string(d.data[d.off : d.off+n])
	d.off += n
	return s
}

// node reads two elements: name and run, or nobody.
func (d *decoder) node(field string) Node {
	n := Node{Name: d.text(field, MaxName), Boot: d.uint(field, maxUint64)}
	if err := n.check(); err != nil && d.err == nil {
		d.fail(field, err)
	}
	return n
}

// done returns the first error, or one if anything is left.
func (d *decoder) done() error {
	if d.err == nil && d.left() > 0 {
		d.err = errTrailing
	}
	return d.err
}
