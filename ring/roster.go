package ring

import (
	"sync"
	"time"
)

// rememberFailed is how long a member that died is shown, and tried to reach.
const rememberFailed = time.Hour

// maxMembers bounds what strangers can make a node remember, and the time that
// a View takes to build.
const maxMembers = 1024

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
	if _, known := r.members[m.Name]; !known && len(r.members) >= maxMembers && !r.evict() {
		return
	}
	r.members[m.Name] = m
	delete(r.failed, m.Name)
	r.kick()
}

// evict forgets the member that failed the longest ago, and reports whether
// there was one. It must be called with mu held.
func (r *roster) evict() bool {
	oldest := ""
	for name, since := range r.failed {
		if oldest == "" || since.Before(r.failed[oldest]) {
			oldest = name
		}
	}
	delete(r.failed, oldest)
	delete(r.members, oldest)
	return oldest != ""
}

// gone takes in that a member is not alive any more. One that left, or had said
// that it was leaving, is forgotten, another one is remembered as failed.
func (r *roster) gone(name string, left bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, known := r.members[name]
	switch {
	case !known || m.State == Failed:
		return
	case left || m.State == Leaving:
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

// at reports whether a member is known by that gossip address.
func (r *roster) at(address string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.members {
		if m.Gossip == address {
			return true
		}
	}
	return false
}

// company reports whether any member is known that is not dead.
func (r *roster) company() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.members) > len(r.failed)
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
