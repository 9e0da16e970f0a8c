package cluster

import (
	"weir/leaky"
	"weir/ring"
	"weir/rpc"
)

// here is the index of the node itself among owners.
const here = -1

// routes is one View with a client to each of its members. It is immutable.
type routes struct {
	view    *ring.View
	self    string
	members []ring.Member
	clients []*rpc.Client // by member index; nil for this node and for failed members
}

// newRoutes returns the routes of the current View, with the clients that old
// already had.
func newRoutes(config Config, old *routes) *routes {
	r := &routes{view: config.Members.View(), self: config.RPC.Self.Name}
	r.members = r.view.Members()
	r.clients = make([]*rpc.Client, len(r.members))
	for i, m := range r.members {
		if m.Name == r.self || m.State == ring.Failed {
			continue
		}
		if r.clients[i] = old.client(m); r.clients[i] == nil {
			peer := rpc.Identity{Name: m.Name, Boot: m.Boot, Label: config.RPC.Self.Label, Format: config.RPC.Self.Format}
			r.clients[i] = rpc.NewClient(config.RPC, peer, m.RPC)
		}
	}
	return r
}

// client returns the client to that very member: the same name, boot and
// address.
func (r *routes) client(m ring.Member) *rpc.Client {
	if r == nil {
		return nil
	}
	for i, have := range r.members {
		if have.Name == m.Name && have.Boot == m.Boot && have.RPC == m.RPC {
			return r.clients[i]
		}
	}
	return nil
}

// closeReplaced closes the clients of old that r does not go on using. Calls
// under way on them fail at once, as they would on the connection of a member
// that is gone.
func (r *routes) closeReplaced(old *routes) {
	for i, m := range old.members {
		if c := old.clients[i]; c != nil && r.client(m) != c {
			c.Close()
		}
	}
}

func (r *routes) close() {
	for _, c := range r.clients {
		if c != nil {
			c.Close()
		}
	}
}

// owner returns the member that owns the check's partition. With no active
// member at all, the last one to leave goes on deciding by itself.
func (r *routes) owner(check leaky.Check) int {
	i, ok := r.view.Owner(check.Partition)
	if !ok || r.members[i].Name == r.self {
		return here
	}
	return i
}

// index returns the member of that name, or ok false if there is none.
func (r *routes) index(name string) (i int, ok bool) {
	if name == r.self {
		return here, true
	}
	for i, m := range r.members {
		if m.Name == name && r.clients[i] != nil {
			return i, true
		}
	}
	return 0, false
}
