package cluster

import (
	"context"
	"fmt"

	"weir/leaky"
	"weir/ring"
	"weir/rpc"
)

// peers answers what other nodes ask of this one.
type peers struct{ *Cluster }

// Decide answers for the partitions that this node owns by its own View, and
// names the owner for the others. All sequences are decided at one clock
// reading, in their order.
func (p peers) Decide(_ context.Context, _ rpc.Identity, req *rpc.DecideRequest, reply *rpc.DecideReply) (later func(context.Context, *rpc.DecideReply) error, err error) {
	for _, checks := range req.Sequences {
		for _, check := range checks {
			if check.Partition >= ring.Partitions {
				return nil, &rpc.Error{Code: rpc.CodeInvalid, Text: fmt.Sprintf("partition %d of %d", check.Partition, ring.Partitions)}
			}
		}
	}
	r, now := p.routes.Load(), p.clock()
	for _, checks := range req.Sequences {
		out := reply.Add()
		if owner := r.firstElsewhere(checks); owner != here {
			out.NotOwner, out.Owner = true, r.members[owner].Name
			continue
		}
		out.Results = p.decideHere(checks, req.Peek, now, out.Results)
	}
	return nil, nil
}

// Receive leaves the messages alone: this node keeps no copies.
func (p peers) Receive(rpc.Identity, []rpc.Message) {}

// firstElsewhere returns the first owner of the checks that is not this node,
// or here if there is none: a sequence is decided whole or not at all.
func (r *routes) firstElsewhere(checks []leaky.Check) int {
	for _, check := range checks {
		if owner := r.owner(check); owner != here {
			return owner
		}
	}
	return here
}

// Status says how this node is.
func (p peers) Status() rpc.Status { return rpc.Status{LiveBuckets: int64(p.LiveBuckets())} }
