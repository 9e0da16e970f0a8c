package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// keptSamples bounds what each caller remembers; beyond that it is a fair choice
// of all.
const keptSamples = 1 << 18

// sample is one decision: when it was asked for, and how long it took.
type sample struct {
	at   time.Time
	took time.Duration
}

// caller asks for single decisions, one after another.
type caller struct {
	samples  []sample
	calls    int
	failed   int
	degraded int
	failure  error // the first
}

// load is a number of callers at work.
type load struct {
	began   time.Time
	callers []*caller
	done    chan struct{}
	running sync.WaitGroup
}

// startLoad lets callers ask for random items below the bound until they are
// stopped.
func startLoad(ctx context.Context, f *fleet, callers, items int) *load {
	l := &load{began: time.Now(), done: make(chan struct{})}
	for range callers {
		c := new(caller)
		l.callers = append(l.callers, c)
		l.running.Go(func() {
			for !closed(l.done) && ctx.Err() == nil {
				c.call(ctx, f, rand.IntN(items))
			}
		})
	}
	return l
}

func (c *caller) call(ctx context.Context, f *fleet, item int) {
	began := time.Now()
	d, err := f.decide(ctx, f.any(), item)
	took := time.Since(began)
	c.calls++
	if err != nil {
		c.failed++
		if c.failure == nil {
			c.failure = err
		}
		return
	}
	if d.Degraded {
		c.degraded++
	}
	if len(c.samples) < keptSamples {
		c.samples = append(c.samples, sample{began, took})
	} else if i := rand.IntN(c.calls); i < keptSamples {
		c.samples[i] = sample{began, took}
	}
}

// seen is what callers have seen together.
type seen struct {
	calls    int
	lasted   time.Duration
	took     []time.Duration // of those asked for in time, in order
	failed   int
	degraded int
	failure  error
}

// stop ends the callers. Of what was asked for after the given time, failures
// alone count.
func (l *load) stop(until time.Time) seen {
	close(l.done)
	l.running.Wait()
	s := seen{lasted: time.Since(l.began)}
	for _, c := range l.callers {
		s.calls += c.calls
		s.failed += c.failed
		s.degraded += c.degraded
		if s.failure == nil {
			s.failure = c.failure
		}
		for _, one := range c.samples {
			if one.at.Before(until) {
				s.took = append(s.took, one.took)
			}
		}
	}
	slices.Sort(s.took)
	return s
}

func (s seen) rate() float64 { return float64(s.calls) / s.lasted.Seconds() }

// quantile returns the smallest duration that so many of a thousand do not
// exceed, of a list in order; 0 of an empty one.
func quantile(sorted []time.Duration, ofThousand int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*ofThousand + 999) / 1000
	return sorted[max(rank, 1)-1]
}
