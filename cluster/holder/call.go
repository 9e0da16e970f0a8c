package holder

import "weir/rpc"

// Action is what becomes of a call.
type Action uint8

const (
	Decide Action = iota // here, now
	Ask                  // another node
	Wait                 // it comes back in Out.Ready, after Peers.Inner or a little more at most
	Fail                 // nobody is known who could decide
)

// Verdict says what to do with a call.
type Verdict struct {
	Action   Action
	To       rpc.Node // whom to ask
	Degraded bool     // the partition was taken over for this call
}

// maxHop is how often a call is passed on at the most: by the asker, and by three
// nodes each of which has just handed the partition on, as when several restart
// at once.
const maxHop = 4

// Call is a question to one partition, wherever it came from. It belongs to the
// partition while it waits.
type Call struct {
	Hop    uint8    // how often it was passed on
	Failed rpc.Node // who has failed the caller, zero if nobody
	Owner  any      // for whoever asks

	tried  bool  // it has failed this node too
	asked  int64 // when this node asked it, 0 if it could not
	until  int64 // when it has waited long enough
	waited bool
}

// Evidence says that a node has failed the call here, too, and when it was
// asked: 0 if it could not be, and there is no use in trying it.
func (c *Call) Evidence(failed rpc.Node, asked int64) {
	c.Failed, c.tried, c.asked, c.waited = failed, true, asked, false
}

// Path is the way of one call to whoever decides it: the owner, then whom that
// one names, then once more after a failure. So it takes three sends at most.
type Path struct {
	To     rpc.Node // whom to ask now
	Hop    uint8
	Failed rpc.Node

	owner      rpc.Node
	backup     rpc.Node
	redirector rpc.Node // who has named To
	redirected bool
	failedOver bool
	skipped    rpc.Node // the owner, if the circuit to it was open
	home       bool     // the asker has asked itself
}

// Path returns the way to a partition. The circuit may skip its first step.
func (p *Peers) Path(partition uint32) Path {
	owner, backup, _ := p.place(partition)
	if owner.IsZero() {
		owner = p.self // the last one goes on by itself
	}
	path := Path{To: owner, owner: owner, backup: backup}
	if owner != p.self && p.Open(owner) && path.Fail() {
		path.skipped = owner
	}
	return path
}

// Redirect takes in that the node asked has named another, and reports whether
// to go on.
func (p *Path) Redirect(to rpc.Node) bool {
	if p.redirected || to.IsZero() || p.failedOver {
		return p.Fail()
	}
	p.redirected = true
	p.redirector, p.To, p.Hop = p.To, to, 1
	return true
}

// Fail takes in that the node asked has not answered, or does not know, and
// reports whether to go on: with the one that has redirected to it, else with
// the backup.
func (p *Path) Fail() bool {
	if !p.skipped.IsZero() { // it was left out untried, and is the last one now
		p.Failed, p.To, p.Hop = p.To, p.skipped, 1
		p.skipped = rpc.Node{}
		return true
	}
	next := p.backup
	if !p.redirector.IsZero() {
		next = p.redirector
	}
	if p.failedOver || next.IsZero() || next == p.To {
		return false
	}
	p.failedOver = true
	p.Failed, p.To, p.Hop = p.To, next, 1
	return true
}

// Home takes in that nobody who was asked knows the holder, and reports whether
// the asker is to ask itself, for the only time. Owner and backup may both have
// joined just now, so that nobody can have told them.
func (p *Path) Home(self rpc.Node) bool {
	if p.home || p.owner == self || p.failedOver && p.backup == self {
		return false
	}
	p.home, p.failedOver = true, true
	p.Failed, p.To, p.Hop = p.owner, self, 1
	return true
}

// FailedOver reports whether the node to be asked is the last one.
func (p *Path) FailedOver() bool { return p.failedOver }
