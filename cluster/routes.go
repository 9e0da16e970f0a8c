package cluster

import (
	"weir/cluster/holder"
	"weir/ring"
	"weir/rpc"
)

// routes is one View with the peers in it. It is immutable.
type routes struct {
	view   *ring.View
	byName map[string]*peer // everybody who can be asked: all but this node and members that are gone
}

// newRoutes returns the routes of the current View, with the peers that old
// already had.
func (c *Cluster) newRoutes(old *routes) *routes {
	r := &routes{view: c.config.Members.View(), byName: make(map[string]*peer)}
	for _, m := range r.view.Members() {
		have := old.byName[m.Name]
		known := have != nil && have.node.Boot == m.Boot && have.address == m.RPC
		switch {
		case m.Name == c.self.Name:
		case m.State == ring.Failed && (!known || c.peers.Silent(c.now(), have.node)):
		case known:
			r.byName[m.Name] = have
		default:
			r.byName[m.Name] = c.newPeer(m)
		}
	}
	return r
}

// closeReplaced closes the peers of old that r does not go on using. Calls under
// way on them fail at once, as they would on the connection of a member that is
// gone.
func (r *routes) closeReplaced(old *routes) {
	for name, p := range old.byName {
		if r.byName[name] != p {
			p.close()
		}
	}
}

func (r *routes) close() {
	for _, p := range r.byName {
		p.close()
	}
}

// peer returns that very run of a member; a boot of zero is any.
func (r *routes) peer(n rpc.Node) *peer {
	p := r.byName[n.Name]
	if p == nil || n.Boot != 0 && p.node.Boot != n.Boot {
		return nil
	}
	return p
}

// placement says of a View what the protocol needs to know.
func placement(view *ring.View, self rpc.Node) *holder.Placement {
	members := view.Members()
	nodes := make([]rpc.Node, len(members))
	out := &holder.Placement{
		Owners:  make([]rpc.Node, ring.Partitions),
		Backups: make([]rpc.Node, ring.Partitions),
	}
	for i, m := range members {
		nodes[i] = rpc.Node{Name: m.Name, Boot: m.Boot}
		switch {
		case m.Name == self.Name:
			nodes[i] = self
			out.Leaving = m.State == ring.Leaving
		case m.State == ring.Failed:
		default:
			out.Alive = append(out.Alive, nodes[i])
			if m.State != ring.Joining {
				out.Asked = append(out.Asked, nodes[i])
			}
		}
	}
	for p := range uint32(ring.Partitions) {
		if i, ok := view.Owner(p); ok {
			out.Owners[p] = nodes[i]
		}
		if i, ok := view.Backup(p); ok {
			out.Backups[p] = nodes[i]
		}
	}
	return out
}
