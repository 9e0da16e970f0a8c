package fabric

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
)

// Transport carries the gossip of one node. It is a memberlist.Transport. After
// Shutdown or a crash of its host it neither sends nor takes anything.
type Transport struct {
	network *Network
	address string
	packets chan *memberlist.Packet
	backlog *backlog
}

// packetQueue is how many packets may wait for a node; more are lost, as they
// are from a full socket buffer.
const packetQueue = 1024

// Transport returns the gossip transport of the address, whose host is an IP.
// It listens there, too. Who did so before is replaced.
func (n *Network) Transport(address string) *Transport {
	t := &Transport{network: n, address: address, packets: make(chan *memberlist.Packet, packetQueue), backlog: n.listen(address)}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.transports[address] = t
	return t
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (t *Transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	host, text, err := net.SplitHostPort(t.address)
	if err != nil {
		return nil, 0, err
	}
	port, err := strconv.Atoi(text)
	return net.ParseIP(host), port, err
}

// WriteTo implements memberlist.Transport. A packet is lost if nothing passes
// when it is sent, or when it would arrive.
func (t *Transport) WriteTo(b []byte, to string) (time.Time, error) {
	now := time.Now()
	if over(t.backlog.gone) {
		return now, net.ErrClosed
	}
	from, host := hostOf(t.address), hostOf(to)
	if ok, _ := t.network.passable(from, host); !ok {
		return now, nil
	}
	packet := &memberlist.Packet{Buf: append([]byte(nil), b...), From: addr(t.address)}
	if d := t.network.delay(from, host); d > 0 {
		time.AfterFunc(d, func() { t.network.deliver(packet, to) })
	} else {
		t.network.deliver(packet, to)
	}
	return now, nil
}

// deliver hands a packet over, or loses it.
func (n *Network) deliver(p *memberlist.Packet, to string) {
	if ok, _ := n.passable(hostOf(p.From.String()), hostOf(to)); !ok {
		return
	}
	n.mu.Lock()
	target := n.transports[to]
	n.mu.Unlock()
	if target == nil || over(target.backlog.gone) {
		return
	}
	p.Timestamp = time.Now()
	select {
	case target.packets <- p:
	default:
	}
}

// PacketCh implements memberlist.Transport.
func (t *Transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// DialTimeout implements memberlist.Transport.
func (t *Transport) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return t.network.dial(ctx, t.backlog.gone, hostOf(t.address), to)
}

// StreamCh implements memberlist.Transport.
func (t *Transport) StreamCh() <-chan net.Conn { return t.backlog.conns }

// Shutdown implements memberlist.Transport.
func (t *Transport) Shutdown() error {
	t.network.unlisten(t.address, t.backlog)
	return nil
}
