package ring

import (
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// gossip is the membership library, told what it must and asked for what this
// package needs. It calls its listener while it holds a lock of its own.
type gossip struct{ list *memberlist.Memberlist }

// gossipEvents is what gossip tells. Its methods must not block, nor call
// gossip.
type gossipEvents interface {
	metadata() []byte
	heard(name, address string, metadata []byte)
	// lost tells that a member is not alive any more; left, that it said so
	// itself.
	lost(name string, left bool)
	// vet returns why a member must not be taken in, or nil. joining is true
	// for the members of a cluster that this node or a peer is about to join.
	vet(name, address string, metadata []byte, alive, joining bool) error
	conflict(name, address, other string)
}

// The tuning: in small clusters a dead member is seen by all after about two
// seconds.
const (
	probeInterval   = 250 * time.Millisecond
	probeTimeout    = 100 * time.Millisecond
	gossipInterval  = 50 * time.Millisecond
	pushPull        = 5 * time.Second
	deadGossip      = 10 * time.Second
	suspicion       = 4
	suspicionMax    = 2
	streamTimeout   = 2 * time.Second
	announceTimeout = time.Second
	// A name is free for another address as soon as its owner was seen dead.
	// Zero would mean never.
	reclaimAfter = time.Millisecond
)

// Transport carries gossip packets and streams.
type Transport = memberlist.Transport

// listenGossip opens the TCP and the UDP port, and returns the port they share.
func listenGossip(ip net.IP, port int, log *slog.Logger) (Transport, int, error) {
	const tries = 10 // a port that is free for TCP may not be for UDP
	var err error
	for range tries {
		var t *memberlist.NetTransport
		t, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{ip.String()},
			BindPort:  port,
			Logger:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		})
		if err == nil {
			return t, t.GetAutoBindPort(), nil
		}
		if port != 0 {
			break
		}
	}
	return nil, 0, fmt.Errorf("ring: cannot listen for gossip at %s: %w", net.JoinHostPort(ip.String(), strconv.Itoa(port)), err)
}

// startGossip takes part in the gossip under the name. From here on others may
// find this node.
func startGossip(name, label string, advertise net.IP, port int, transport Transport, events gossipEvents, log *slog.Logger) (*gossip, error) {
	d := delegate{events}
	c := memberlist.DefaultLANConfig()
	c.Name = name
	c.Label = label
	c.Transport = transport
	c.AdvertiseAddr = advertise.String()
	c.AdvertisePort = port
	c.BindPort = port
	c.TCPTimeout = streamTimeout
	c.ProbeInterval = probeInterval
	c.ProbeTimeout = probeTimeout
	c.GossipInterval = gossipInterval
	c.PushPullInterval = pushPull
	c.GossipToTheDeadTime = deadGossip
	c.SuspicionMult = suspicion
	c.SuspicionMaxTimeoutMult = suspicionMax
	c.DeadNodeReclaimTime = reclaimAfter
	c.Delegate, c.Events, c.Conflict, c.Merge, c.Alive = d, d, d, d, d
	c.Logger = stdlog.New(libraryLog{log}, "", 0)
	list, err := memberlist.Create(c)
	if err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	return &gossip{list: list}, nil
}

// join exchanges everything known with the node at the address, ip:port.
func (g *gossip) join(address string) error {
	_, err := g.list.Join([]string{address})
	return err
}

// announce spreads this node's changed metadata. That it takes longer than a
// while to be sent is no error: it goes on being spread.
func (g *gossip) announce() {
	// The only error is that time-out.
	_ = g.list.UpdateNode(announceTimeout)
}

// leave tells the others that this node is gone.
func (g *gossip) leave(timeout time.Duration) error {
	if err := g.list.Leave(timeout); err != nil {
		return fmt.Errorf("ring: leave: %w", err)
	}
	return nil
}

// stop ends the gossip. The library does not wait for a probe that is under
// way, which ends by itself after some probe intervals.
func (g *gossip) stop() error {
	if err := g.list.Shutdown(); err != nil {
		return fmt.Errorf("ring: %w", err)
	}
	return nil
}

// libraryLog is what the library logs: of its own workings, and as much as peers
// like, but for the lines that an operator must see.
type libraryLog struct{ log *slog.Logger }

// Write implements io.Writer. It is called once for each line.
func (l libraryLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	switch {
	case strings.Contains(text, "over TCP but UDP probes failed"):
		l.log.Warn("gossip passes by TCP only; let UDP through between the nodes' gossip ports, or members are taken for dead", "library", text)
	case strings.Contains(text, "unacceptable label"):
		l.log.Warn("gossip of another cluster is refused; nodes of one cluster have the same label", "library", text)
	default:
		l.log.Debug("gossip", "library", text)
	}
	return len(line), nil
}

// delegate turns what the library calls into events.
type delegate struct{ events gossipEvents }

func addressOf(n *memberlist.Node) string {
	return net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
}

// NodeMeta implements memberlist.Delegate.
func (d delegate) NodeMeta(int) []byte { return d.events.metadata() }

// NotifyMsg implements memberlist.Delegate.
func (d delegate) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (d delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (d delegate) MergeRemoteState([]byte, bool) {}

// NotifyJoin implements memberlist.EventDelegate.
func (d delegate) NotifyJoin(n *memberlist.Node) { d.events.heard(n.Name, addressOf(n), n.Meta) }

// NotifyUpdate implements memberlist.EventDelegate.
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.events.heard(n.Name, addressOf(n), n.Meta) }

// NotifyLeave implements memberlist.EventDelegate.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	d.events.lost(n.Name, n.State == memberlist.StateLeft)
}

// NotifyConflict implements memberlist.ConflictDelegate.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.events.conflict(existing.Name, addressOf(existing), addressOf(other))
}

// NotifyAlive implements memberlist.AliveDelegate.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	return d.events.vet(n.Name, addressOf(n), n.Meta, true, false)
}

// NotifyMerge implements memberlist.MergeDelegate.
func (d delegate) NotifyMerge(nodes []*memberlist.Node) error {
	for _, n := range nodes {
		alive := n.State == memberlist.StateAlive || n.State == memberlist.StateSuspect
		if err := d.events.vet(n.Name, addressOf(n), n.Meta, alive, true); err != nil {
			return err
		}
	}
	return nil
}
