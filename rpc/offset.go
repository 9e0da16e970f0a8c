package rpc

import (
	"sync"
	"time"
)

// halfWindow is how long one of the two windows of offsets collects, in ns.
const halfWindow = int64(30 * time.Second)

// offsets keeps the difference of two clocks as the exchange with the smallest
// round trip showed it: whatever delays the two ways had, the error of one
// exchange is at most half its round trip. Clocks drift, so two windows take
// turns and an exchange is forgotten 30 s to 90 s after it. While nothing is
// exchanged, what was known last stays.
type offsets struct {
	mu        sync.Mutex
	now, past sample
	begun     int64 // start of the current window, own clock
}

type sample struct {
	offset, rtt int64 // ns
	ok          bool
}

// shift returns what has to be added to an instant on the own clock for it to
// be no earlier on the peer's, in whole microseconds: nothing if the clocks may
// agree, so that instants pass unchanged between clocks that do.
func (s sample) shift() int64 {
	// The peer's clock was read between sending and receiving.
	least, most := s.offset-(s.rtt-s.rtt/2), s.offset+s.rtt/2
	if least <= 0 && most >= 0 {
		return 0
	}
	const tick = int64(time.Microsecond)
	up := min(most, maxInt64-tick) / tick * tick
	if up < most {
		up += tick
	}
	return up
}

// add takes one exchange in: own clock at sending and at receiving, and the
// peer's clock in between.
func (o *offsets) add(sent, received, peer int64) {
	rtt := received - sent
	if rtt < 0 {
		return // the own clock was set back
	}
	s := sample{offset: peer - (sent + rtt/2), rtt: rtt, ok: true}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch age := received - o.begun; {
	case !o.now.ok || age < 0 || age >= 2*halfWindow:
		o.past, o.now, o.begun = sample{}, s, received
	case age >= halfWindow:
		o.past, o.now, o.begun = o.now, s, received
	default:
		o.now = better(s, o.now)
	}
}

func (o *offsets) best() sample {
	o.mu.Lock()
	defer o.mu.Unlock()
	return better(o.now, o.past)
}

// better returns the sample of the shorter round trip, and a if they are equal.
func better(a, b sample) sample {
	if !a.ok || b.ok && b.rtt < a.rtt {
		return b
	}
	return a
}
