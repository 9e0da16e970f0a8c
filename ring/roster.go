package ring

import (
	"sync"
	"time"
)

// rememberFailed is how long a member that died is shown, and tried to reach.
const rememberFailed = time.Hour

// roster is who is known, as gossip has told so far. Gossip calls it while it
// holds its own lock, so its methods only copy.
type roster struct {
	mu      sync.Mutex
	members map[string]Member
	failed  map[string]time.Time // when those in state Failed died
	changed chan struct{}        // capacity 1
}

func newRoster() *roster {
	return &roster{
		members: make(map[string]Member),
		failed:  make(map[string]time.Time),
		changed: make(chan struct{}, 1),
	}
}

// alive takes in what a living member says of itself.
func (r *roster) alive(m Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members[m.Name] = m
	delete(r.failed, m.Name)
	r.kick()
}

// gone takes in that a member is not alive any more. One that had said it was
// leaving is forgotten, another one is remembered as failed.
func (r *roster) gone(name string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, known := r.members[name]
	switch {
	case !known || m.State == Failed:
		return
	case m.State == Leaving:
		delete(r.members, name)
	default:
		m.State = Failed
		r.members[name] = m
		r.failed[name] = now
	}
	r.kick()
}

// forget drops members that failed too long ago.
func (r *roster) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, since := range r.failed {
		if now.Sub(since) > rememberFailed {
			delete(r.failed, name)
			delete(r.members, name)
			r.kick()
		}
	}
}

// all returns everybody known.
func (r *roster) all() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Member, 0, len(r.members))
	for _, m := range r.members {
		out = append(out, m)
	}
	return out
}

// touch makes a new View due.
func (r *roster) touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kick()
}

// kick must be called with mu held.
func (r *roster) kick() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}
