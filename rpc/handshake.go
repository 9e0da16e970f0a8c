package rpc

import (
	"errors"
	"fmt"
	"math"
	"net"
	"time"
)

// Protocol is the version of what doc.go describes.
const Protocol = 2

// hello introduces one end of a connection to the other.
type hello struct {
	protocol uint64
	Identity
	wantName string // whom the sender expects at the other end; empty: anyone
	wantBoot uint64 // 0: any run of it
	clock    int64
}

// cause is why a connection was refused. Numbers go over the wire.
type cause uint8

const (
	causeMalformed cause = iota + 1
	causeProtocol
	causeLabel
	causeFormat
	causeName
	causeBoot
)

// code returns what the refused client's calls fail with.
func (c cause) code() Code {
	switch c {
	case causeMalformed:
		return CodeInvalid
	case causeName, causeBoot:
		return CodeWrongPeer
	}
	return CodeRefused
}

// message returns what a server logs of it.
func (c cause) message() string {
	switch c {
	case causeProtocol:
		return "rpc: peer speaks another protocol version"
	case causeLabel:
		return "rpc: peer is of another cluster"
	case causeFormat:
		return "rpc: peer has another ring format"
	case causeName:
		return "rpc: peer expects another node"
	case causeBoot:
		return "rpc: peer expects another run of this node"
	}
	return "rpc: malformed hello"
}

// refusal ends a handshake.
type refusal struct {
	cause cause
	text  string // says the same to both ends
}

func (r *refusal) Error() string { return r.text }

func refuse(c cause, format string, args ...any) *refusal {
	return &refusal{cause: c, text: fmt.Sprintf(format, args...)}
}

func (e *encoder) hello(h *hello) {
	e.begin(9, kindHello)
	e.uint(h.protocol)
	e.uint(uint64(h.Format))
	e.text(h.Label, MaxName)
	e.text(h.Name, MaxName)
	e.uint(h.Boot)
	e.text(h.wantName, MaxName)
	e.uint(h.wantBoot)
	e.int(h.clock)
	e.end()
}

func (e *encoder) refusal(r *refusal) {
	e.begin(3, kindRefusal)
	e.uint(uint64(r.cause))
	e.text(r.text, maxText)
	e.end()
}

// hello reads a first frame. If it is a refusal, that is the error. Of a hello
// of another protocol nothing but the version is known to make sense.
func (d *decoder) hello() (hello, error) {
	var h hello
	n, k := d.begin()
	switch {
	case d.err != nil:
		return h, d.err
	case k == kindRefusal:
		return h, d.refusal()
	case k != kindHello:
		return h, fmt.Errorf("kind: %d instead of a hello", k)
	}
	h.protocol = d.uint("protocol", maxUint64)
	if h.protocol != Protocol || d.err != nil {
		return h, d.err
	}
	if n < 9 {
		return h, fmt.Errorf("hello: %d elements", n)
	}
	h.Format = uint32(d.uint("format", math.MaxUint32))
	h.Label = d.text("label", MaxName)
	h.Name = d.text("name", MaxName)
	h.Boot = d.uint("boot", maxUint64)
	h.wantName = d.text("wanted name", MaxName)
	h.wantBoot = d.uint("wanted boot", maxUint64)
	h.clock = int64(d.uint("clock", maxInt64))
	if d.err == nil && h.Name == "" {
		d.fail("name", errors.New("is empty"))
	}
	return h, d.err
}

// refusal reads what follows the kind.
func (d *decoder) refusal() error {
	c := cause(d.uint("cause", math.MaxUint8))
	text := d.text("text", maxText)
	if d.err != nil {
		return d.err
	}
	return &refusal{cause: c, text: text}
}

// judge compares what the other end said with what it has to be: of the same
// cluster, expecting the node that self is, and itself the node that want
// names. Empty fields of want are not compared.
func judge(h *hello, self, want Identity) *refusal {
	switch {
	case h.protocol != Protocol:
		return refuse(causeProtocol, "protocol version %d, that of %q is %d", h.protocol, self.Name, Protocol)
	case h.Label != self.Label:
		return refuse(causeLabel, "%q is of another cluster than %q: the labels differ", h.Name, self.Name)
	case h.Format != self.Format:
		return refuse(causeFormat, "ring format of %q is %d, that of %q is %d", h.Name, h.Format, self.Name, self.Format)
	case h.wantName != "" && h.wantName != self.Name:
		return refuse(causeName, "%q expected %q, this is %q", h.Name, h.wantName, self.Name)
	case h.wantBoot != 0 && h.wantBoot != self.Boot:
		return refuse(causeBoot, "%q expected run %d of %q, this is %d", h.Name, h.wantBoot, self.Name, self.Boot)
	case want.Name != "" && want.Name != h.Name:
		return refuse(causeName, "%q expected %q, this is %q", self.Name, want.Name, h.Name)
	case want.Boot != 0 && want.Boot != h.Boot:
		return refuse(causeBoot, "%q expected run %d of %q, this is %d", self.Name, want.Boot, h.Name, h.Boot)
	}
	return nil
}

// send writes one frame of the handshake.
func send(nc net.Conn, by time.Time, build func(*encoder)) error {
	if err := nc.SetWriteDeadline(by); err != nil {
		return err
	}
	e := newEncoder()
	build(e)
	_, err := nc.Write(e.buf)
	return err
}

// receive reads the other end's hello or refusal. A frame that is neither is a
// refusal of this end, of causeMalformed; other errors are the connection's.
func receive(fr *frameReader, by time.Time) (hello, error) {
	frame, err := fr.next(maxHello, by)
	if errors.Is(err, errLength) {
		return hello{}, refuse(causeMalformed, "not a hello: %v", err)
	}
	if err != nil {
		return hello{}, err
	}
	d := newDecoder()
	d.reset(frame)
	h, err := d.hello()
	if _, told := errors.AsType[*refusal](err); err != nil && !told {
		err = refuse(causeMalformed, "not a hello: %v", err)
	}
	return h, err
}

// introduce is the client's side of the handshake. It returns the peer's hello
// and the clock readings of its exchange.
func introduce(nc net.Conn, fr *frameReader, by time.Time, cfg *Config, want Identity) (peer hello, sent, received int64, err error) {
	sent = cfg.Clock()
	own := hello{protocol: Protocol, Identity: cfg.Self, wantName: want.Name, wantBoot: want.Boot, clock: sent}
	if err = send(nc, by, func(e *encoder) { e.hello(&own) }); err != nil {
		return
	}
	peer, err = receive(fr, by)
	received = cfg.Clock()
	if err != nil {
		return
	}
	if r := judge(&peer, cfg.Self, want); r != nil {
		// The peer accepted: tell it why it is left.
		_ = send(nc, by, func(e *encoder) { e.refusal(r) })
		err = r
	}
	return
}

// welcome is the server's side of the handshake.
func welcome(nc net.Conn, fr *frameReader, by time.Time, cfg *Config) (Identity, error) {
	peer, err := receive(fr, by)
	if err == nil {
		if r := judge(&peer, cfg.Self, Identity{}); r != nil {
			err = r
		}
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		_ = send(nc, by, func(e *encoder) { e.refusal(r) })
	}
	if err != nil {
		return Identity{}, err
	}
	own := hello{protocol: Protocol, Identity: cfg.Self, clock: cfg.Clock()}
	return peer.Identity, send(nc, by, func(e *encoder) { e.hello(&own) })
}
