package ring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
)

// Config says who this node is and where it finds the others.
type Config struct {
	Self          Member        // Name may be empty: then the advertised gossip address. Gossip is filled in.
	Label         string        // of the cluster; others are never heard
	Seeds         []string      // host:port, or dns+name:port for all addresses of a name
	Bind          string        // host:port of gossip, TCP and UDP; port 0 picks a free one
	AdvertiseHost string        // what others reach this node at; default: the host of Bind
	JoinTimeout   time.Duration // how long Join tries before it goes on alone
	NameTimeout   time.Duration // how long Join waits for a name to become free; default 10 s
	Log           *slog.Logger  // default: none

	Transport  Transport                                                // default: real sockets at Bind
	LookupHost func(ctx context.Context, host string) ([]string, error) // default: the system's resolver

	format uint32 // tests pretend to be of another one
}

// Errors of Join. The returned error wraps one of them and names the peer.
var (
	// ErrFormat: the cluster places partitions otherwise.
	ErrFormat = errors.New("another ring format")
	// ErrNameTaken: a living member at another address has this node's name.
	ErrNameTaken = errors.New("the name is taken")
)

var errName = errors.New("no name of a member")

// Ring is this node's part in the membership. It is made by [New], safe for
// concurrent use, and to be closed.
type Ring struct {
	config Config
	roster *roster
	gossip *gossip
	look   lookup

	mu   sync.Mutex // guards self and what is told of it
	self Member
	told atomic.Pointer[[]byte] // self as metadata

	view    atomic.Pointer[View]
	changed chan struct{}

	aliases map[string]time.Time // when a seed led to nobody new; of Join and then rejoin

	refusals chan error // capacity 1: why the others' members cannot be joined
	ctx      context.Context
	cancel   context.CancelFunc
	workers  sync.WaitGroup
	doubts   chan string     // capacity 1: a gossip address whose member is in doubt
	leaving  context.Context // ends when Leave begins
	leave    context.CancelFunc
	ending   sync.Mutex // held by Leave and Close: gossip must not be asked to leave once stopped
	stopped  bool
}

// New listens for gossip under the node's name. Others may find the node from
// here on, but it looks for none before Join.
func New(config Config) (*Ring, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.NameTimeout == 0 {
		config.NameTimeout = 10 * time.Second
	}
	if config.format == 0 {
		config.format = Format
	}
	r := &Ring{
		config:   config,
		roster:   newRoster(),
		look:     config.LookupHost,
		self:     config.Self,
		changed:  make(chan struct{}, 1),
		aliases:  make(map[string]time.Time),
		refusals: make(chan error, 1),
		doubts:   make(chan string, 1),
	}
	if r.look == nil {
		r.look = net.DefaultResolver.LookupHost
	}
	if err := CheckSeeds(config.Seeds); err != nil {
		return nil, err
	}
	bind, port, err := r.resolve(config.Bind)
	if err != nil {
		return nil, err
	}
	transport := config.Transport
	if transport == nil {
		if transport, port, err = listenGossip(bind, port, config.Log); err != nil {
			return nil, err
		}
	}
	if err := r.start(transport, bind, port); err != nil {
		return nil, errors.Join(err, transport.Shutdown())
	}
	return r, nil
}

func (r *Ring) start(transport Transport, bind net.IP, port int) error {
	host, advertise := r.config.AdvertiseHost, bind
	if host == "" {
		host = bind.String()
	} else {
		var err error
		if advertise, _, err = r.resolve(net.JoinHostPort(host, "0")); err != nil {
			return err
		}
	}
	r.self.Gossip = net.JoinHostPort(advertise.String(), strconv.Itoa(port))
	if r.self.Name == "" {
		r.self.Name = net.JoinHostPort(host, strconv.Itoa(port))
	}
	if !ValidName(r.self.Name) {
		return fmt.Errorf("ring: the name %q: 1 to %d printable bytes are wanted", r.self.Name, MaxName)
	}
	if err := r.tell(); err != nil {
		return err
	}
	r.view.Store(NewView([]Member{r.self}))
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.leaving, r.leave = context.WithCancel(r.ctx)
	var err error
	r.gossip, err = startGossip(r.self.Name, r.config.Label, advertise, port, transport, events{r}, r.config.Log)
	if err != nil {
		r.cancel()
		return err
	}
	r.workers.Go(r.build)
	return nil
}

// MaxName is the longest name of a member, in bytes.
const MaxName = 255

// ValidName reports whether a member or a cluster can be called so: 1 to MaxName
// bytes of printable UTF-8.
func ValidName(name string) bool {
	return name != "" && len(name) <= MaxName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) })
}

// resolve returns the IP and the port of an address.
func (r *Ring) resolve(address string) (net.IP, int, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, 0, fmt.Errorf("ring: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, 0, fmt.Errorf("ring: address %q: port %q is no number of 0 to 65535", address, text)
	}
	if host == "" {
		if ip := net.ParseIP(r.config.AdvertiseHost); ip != nil && ip.To4() == nil {
			return net.IPv6unspecified, int(port), nil
		}
		return net.IPv4zero, int(port), nil
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip, int(port), nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	ips, err := r.look(ctx, host)
	if err != nil {
		return nil, 0, fmt.Errorf("ring: address %q: %w", address, err)
	}
	if len(ips) == 0 || net.ParseIP(ips[0]) == nil {
		return nil, 0, fmt.Errorf("ring: address %q: the name has no address", address)
	}
	return net.ParseIP(ips[0]), int(port), nil
}

// Self returns this node as it is told to the others.
func (r *Ring) Self() Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.self
}

// View returns the membership as this node sees it now.
func (r *Ring) View() *View { return r.view.Load() }

// Changed receives after View has changed. It holds one message at most, and
// serves one reader.
func (r *Ring) Changed() <-chan struct{} { return r.changed }

// SetState tells the others what this node is about. Leaving is final. It
// returns when gossip has begun to spread it, a second later at most.
func (r *Ring) SetState(s State) {
	r.mu.Lock()
	if r.self.State != Leaving {
		r.self.State = s
	}
	// Of all that is told only the state, a byte, has changed, so it fits.
	_ = r.tell()
	r.mu.Unlock()
	r.roster.touch()
	r.gossip.announce()
}

// Doubt says that a member is not what the View says, as when another run of it
// answers calls: its address is joined again soon, which tells both sides.
func (r *Ring) Doubt(name string) {
	if m, ok := r.View().Member(name); ok {
		select {
		case r.doubts <- m.Gossip:
		default:
		}
	}
}

// tell prepares what gossip tells of self.
func (r *Ring) tell() error {
	metadata, err := encodeMetadata(r.self, r.config.format)
	if err == nil {
		r.told.Store(&metadata)
	}
	return err
}

// Leave tells the others that this node is gone, and stops looking for them. It
// returns when that has been sent, at the context's deadline, or after two
// seconds.
func (r *Ring) Leave(ctx context.Context) error {
	r.leave()
	r.ending.Lock()
	defer r.ending.Unlock()
	if r.stopped {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ring: leave: %w", err)
	}
	const most = 2 * time.Second
	timeout := most
	if by, ok := ctx.Deadline(); ok {
		timeout = min(most, max(time.Millisecond, time.Until(by))) // 0 would mean no bound
	}
	return r.gossip.leave(timeout)
}

// Close ends this node's part in the gossip and waits for all of it but a last
// probe, which nobody hears. Without Leave before, the others see it die. It may be called again.
func (r *Ring) Close() error {
	r.cancel()
	r.ending.Lock()
	defer r.ending.Unlock()
	if r.stopped {
		return nil
	}
	r.stopped = true
	r.workers.Wait()
	return r.gossip.stop()
}

// settle is how long a change waits for others that come with it.
const settle = 100 * time.Millisecond

// build turns what the roster has heard into Views.
func (r *Ring) build() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.roster.changed:
		}
		pause := time.NewTimer(settle)
		select {
		case <-r.ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		old := r.view.Load()
		now := NewView(append(r.roster.all(), r.Self()))
		r.view.Store(now)
		r.logChanges(old, now)
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
}

func (r *Ring) logChanges(old, now *View) {
	for _, m := range now.members {
		before, known := old.Member(m.Name)
		if !known || before.State != m.State || before.Boot != m.Boot {
			r.config.Log.Info("member", "name", m.Name, "state", m.State.String(), "gossip", m.Gossip)
		}
	}
	for _, m := range old.members {
		if _, stays := now.Member(m.Name); !stays {
			r.config.Log.Info("member has left", "name", m.Name, "gossip", m.Gossip)
		}
	}
}

// events is the Ring as gossip sees it.
type events struct{ *Ring }

func (e events) metadata() []byte { return *e.told.Load() }

func (e events) heard(name, address string, metadata []byte) {
	m, format, err := decodeMetadata(metadata, e.config.format)
	if name == e.ownName() || err != nil || format != e.config.format {
		return
	}
	m.Name, m.Gossip = name, address
	e.roster.alive(m)
}

func (e events) lost(name string, left bool) { e.roster.gone(name, left, time.Now()) }

// vet refuses members that this node cannot work with.
func (e events) vet(name, address string, metadata []byte, alive, joining bool) error {
	_, format, err := decodeMetadata(metadata, e.config.format)
	switch {
	case err != nil && alive:
		err = fmt.Errorf("%w: %q at %s", err, name, address)
	case alive && !ValidName(name):
		err = fmt.Errorf("%w: %q at %s", errName, name, address)
	case err == nil && format != e.config.format:
		err = fmt.Errorf("%w: %q at %s has %d, this node has %d", ErrFormat, name, address, format, e.config.format)
	case joining && alive && name == e.ownName() && address != e.ownAddress():
		err = fmt.Errorf("%w: %q is at %s, and alive", ErrNameTaken, name, address)
	default:
		return nil
	}
	e.config.Log.Warn("member refused", "error", err, "peer", address)
	if joining {
		select {
		case e.refusals <- err:
		default:
		}
	}
	return err
}

func (e events) conflict(name, address, other string) {
	e.config.Log.Warn("two nodes have the same name; the first keeps it", "name", name, "address", address, "peer", other)
}
