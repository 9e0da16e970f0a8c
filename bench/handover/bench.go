package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

const (
	fleetSize  = 3
	batch      = 1000 // requests in one array
	fillers    = 4    // arrays at the same time
	mostSample = 20_000
)

// bench is one run.
type bench struct {
	options
	policy string
	table  table
	found  outcome
}

// hot is how many items callers ask for; the rest stay as they were filled.
func (b *bench) hot() int { return b.keys / 2 }

func (b *bench) fleet(ctx context.Context, replicas int) (*fleet, error) {
	return startFleet(ctx, fleetSize, b.weir, b.callers, "--policy", b.policy, "--replicas", strconv.Itoa(replicas))
}

// deploys measures a join and a leave under load, and the same without.
func (b *bench) deploys(ctx context.Context) error {
	f, err := b.fleet(ctx, 1)
	if err != nil {
		return err
	}
	defer f.close()
	if err := b.fill(ctx, f); err != nil {
		return err
	}
	rest, err := b.rest(ctx, f)
	if err != nil {
		return err
	}
	for _, event := range []struct {
		name, done string
		move       func(context.Context) (move, error)
	}{
		{"join", "from start to ready", f.join},
		{"leave", "from SIGTERM to its end", f.leave},
	} {
		callers := startLoad(ctx, f, b.callers, b.hot())
		m, err := event.move(ctx)
		saw := callers.stop(m.settled)
		if err != nil {
			return fmt.Errorf("%s: %w", event.name, err)
		}
		b.found.add(saw)
		b.found.moved += m.keys
		b.table.move(event.name, event.done, m, b.keys)
		b.table.quantiles(event.name, saw.took)
		b.table.ratios(event.name, saw.took, rest)
		b.table.line(event.name, "failed calls", count(saw.failed), "")
		b.table.line(event.name, "degraded decisions", count(saw.degraded), "")
	}
	for _, event := range []struct {
		name string
		move func(context.Context) (move, error)
	}{
		{"join, no callers", f.join}, {"leave, no callers", f.leave},
	} {
		if err := b.bytes(ctx, f, event.name, event.move); err != nil {
			return fmt.Errorf("%s: %w", event.name, err)
		}
	}
	return b.check(ctx, f)
}

// fill takes one unit of every item.
func (b *bench) fill(ctx context.Context, f *fleet) error {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := make(chan []int)
	var mu sync.Mutex
	degraded := 0
	var filling sync.WaitGroup
	for range fillers {
		filling.Go(func() {
			for items := range batches {
				all, err := f.decideAll(ctx, f.any(), items, false)
				if err != nil {
					cancel(fmt.Errorf("filling: %w", err))
				}
				mu.Lock()
				for _, d := range all {
					if d.Degraded {
						degraded++
					}
				}
				mu.Unlock()
			}
		})
	}
	for first := 0; first < b.keys && ctx.Err() == nil; first += batch {
		items := make([]int, 0, batch)
		for i := first; i < min(first+batch, b.keys); i++ {
			items = append(items, i)
		}
		batches <- items
	}
	close(batches)
	filling.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	took := time.Since(began)
	b.found.degraded += degraded
	b.table.line("fill", "to decide about every key once", seconds(took), "s")
	b.table.line("fill", "keys per second", count(int(float64(b.keys)/took.Seconds())), "1/s")
	b.table.line("fill", "degraded decisions", count(degraded), "")
	return nil
}

// rest measures decisions while nothing moves, but polled as when something
// does.
func (b *bench) rest(ctx context.Context, f *fleet) ([]time.Duration, error) {
	if _, err := f.follow(ctx, fleetSize, nil); err != nil {
		return nil, err
	}
	callers := startLoad(ctx, f, b.callers, b.hot())
	err := f.watch(ctx, b.length)
	saw := callers.stop(time.Now())
	if err != nil {
		return nil, err
	}
	b.found.add(saw)
	b.table.line("at rest", "decisions per second", count(int(saw.rate())), "1/s")
	b.table.quantiles("at rest", saw.took)
	b.table.line("at rest", "failed calls", count(saw.failed), "")
	b.table.line("at rest", "degraded decisions", count(saw.degraded), "")
	return saw.took, nil
}

// bytes measures what a move sends when nobody asks for decisions.
func (b *bench) bytes(ctx context.Context, f *fleet, name string, move func(context.Context) (move, error)) error {
	before, unknown := loopbackBytes()
	m, err := move(ctx)
	if err != nil {
		return err
	}
	b.found.moved += m.keys
	b.table.line(name, "to settled", seconds(m.took), "s")
	b.table.line(name, "keys moved", count(m.keys), "")
	after, err := loopbackBytes()
	unknown = errors.Join(unknown, err)
	if unknown != nil {
		b.table.line(name, "bytes per key moved", "unknown", fmt.Sprintf("(%v)", unknown))
		return nil
	}
	if err := f.watch(ctx, m.watched); err != nil {
		return err
	}
	atRest, err := loopbackBytes()
	if err != nil {
		return err
	}
	b.table.line(name, "bytes on loopback", count(after-before), "")
	b.table.line(name, "bytes as long at rest", count(atRest-after), "")
	b.table.line(name, "bytes per key moved", ratio(float64(after-before-(atRest-after)), float64(m.keys)), "B **")
	return nil
}

// watch polls the nodes for a while, as a move is watched.
func (f *fleet) watch(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	for left := d; left > 0; left = time.Until(end) {
		f.poll(ctx)
		if err := pause(ctx, min(pollEvery, max(0, time.Until(end)))); err != nil {
			return err
		}
	}
	return nil
}

// check looks at a sample of the items that nobody has asked for since they
// were filled.
func (b *bench) check(ctx context.Context, f *fleet) error {
	sample := rand.Perm(b.keys - b.hot())
	sample = sample[:min(len(sample), mostSample)]
	first, degraded := "", 0
	for len(sample) > 0 {
		items := sample[:min(len(sample), batch)]
		sample = sample[len(items):]
		for i := range items {
			items[i] += b.hot()
		}
		all, err := f.decideAll(ctx, f.any(), items, true)
		if err != nil {
			return fmt.Errorf("looking at the sample: %w", err)
		}
		b.found.sampled += len(all)
		for i, d := range all {
			if d.Degraded {
				degraded++
			}
			if left := d.Buckets[0].Remaining; left != limit-1 {
				b.found.wrong++
				if first == "" {
					first = fmt.Sprintf("such as item %d: %d left, want %d", items[i], left, limit-1)
				}
			}
		}
	}
	b.found.degraded += degraded
	b.table.line("after all moves", "buckets looked at", count(b.found.sampled), "")
	b.table.line("after all moves", "of these wrong", count(b.found.wrong), first)
	b.table.line("after all moves", "degraded decisions", count(degraded), "")
	return nil
}

// spent is CPU time and what it was spent on.
type spent struct {
	busy, idle time.Duration // CPU time
	idleFor    time.Duration
	calls      int
}

func (s spent) perDecision() float64 {
	return s.busy.Seconds() * 1e6 / float64(max(s.calls, 1))
}

func (s spent) perSecond() float64 { return s.idle.Seconds() / max(s.idleFor.Seconds(), 1e-9) }

// backups measures what the copies of every bucket cost, on fresh clusters. The
// two kinds take turns, as the machine may be slower at times.
func (b *bench) backups(ctx context.Context) error {
	var sum [2]spent // by replicas
	var each [2]struct{ busy, idle []float64 }
	for _, replicas := range []int{1, 0, 1, 0} {
		s, err := b.spend(ctx, replicas)
		if errors.Is(err, errNoCPU) {
			b.table.line("CPU", "time per decision", "unknown", fmt.Sprintf("(%v)", err))
			return nil
		}
		if err != nil {
			return err
		}
		t := &sum[replicas]
		t.busy, t.idle, t.idleFor, t.calls = t.busy+s.busy, t.idle+s.idle, t.idleFor+s.idleFor, t.calls+s.calls
		each[replicas].busy = append(each[replicas].busy, s.perDecision())
		each[replicas].idle = append(each[replicas].idle, 1e3*s.perSecond())
	}
	for _, replicas := range []int{1, 0} {
		b.table.line("CPU", fmt.Sprintf("per decision, --replicas %d", replicas),
			decimal(sum[replicas].perDecision()), "µs "+both(each[replicas].busy))
	}
	b.table.line("CPU", "per decision, --replicas 1 / 0", ratio(sum[1].perDecision(), sum[0].perDecision()), "*")
	for _, replicas := range []int{1, 0} {
		b.table.line("CPU", fmt.Sprintf("of an idle cluster, --replicas %d", replicas),
			decimal(1e3*sum[replicas].perSecond()), "ms/s "+both(each[replicas].idle))
	}
	b.table.line("CPU", "of an idle cluster, --replicas 1 / 0", ratio(sum[1].perSecond(), sum[0].perSecond()), "*")
	return nil
}

// spend measures one fresh cluster, idle and then busy.
func (b *bench) spend(ctx context.Context, replicas int) (spent, error) {
	f, err := b.fleet(ctx, replicas)
	if err != nil {
		return spent{}, err
	}
	defer f.close()
	var s spent
	atFirst, err := f.cpu()
	if err != nil {
		return spent{}, err
	}
	began := time.Now()
	if err := pause(ctx, b.length); err != nil {
		return spent{}, err
	}
	idled, err := f.cpu()
	if err != nil {
		return spent{}, err
	}
	s.idle, s.idleFor = idled-atFirst, time.Since(began)
	callers := startLoad(ctx, f, b.callers, b.hot())
	err = pause(ctx, b.length)
	saw := callers.stop(time.Now())
	if err != nil {
		return spent{}, err
	}
	worked, err := f.cpu()
	if err != nil {
		return spent{}, err
	}
	b.found.add(saw)
	s.busy, s.calls = worked-idled, saw.calls
	return s, nil
}
