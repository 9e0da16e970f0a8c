package ring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	joinPause   = 250 * time.Millisecond // between two rounds of Join
	rejoinLeast = time.Second            // between two rounds of looking for who is missing
	rejoinMost  = 2 * time.Second
	atOnce      = 8                // members tried at the same time
	aliasFor    = 10 * time.Second // until an address that led to nobody new is tried again
)

// Join looks for the seeds until it knows another member: one that has answered,
// or that has found this node. It returns nil then, or when nobody has for the
// join timeout: then this node is alone, and goes on looking. It fails if the
// cluster refuses the node, or the context ends.
func (r *Ring) Join(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	began := time.Now()
	for {
		clear(r.aliases) // a virtual address may lead to another node the next time
		alone, err := r.tryMissing(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		refusal := r.refused(err)
		waited := time.Since(began)
		switch {
		case errors.Is(refusal, ErrNameTaken) && waited < r.config.NameTimeout:
			// Its owner may be dying.
		case refusal != nil:
			return refusal
		case alone || r.roster.company():
			// Not: a seed has answered. It may be this node itself, and the
			// others may have found this node first, so that none of them is
			// missing and tried.
			r.workers.Go(r.rejoin)
			return nil
		case waited >= r.config.JoinTimeout:
			// The library's errors have many lines.
			r.config.Log.Warn("no seed answers; serving alone, and trying on", "error", strings.Join(strings.Fields(fmt.Sprint(err)), " "))
			r.workers.Go(r.rejoin)
			return nil
		}
		if !pause(ctx, joinPause) {
			return ctx.Err()
		}
	}
}

// rejoin looks for ever for seeds and members that this node does not see:
// gossip by itself never heals a split.
func (r *Ring) rejoin() {
	for {
		var err error
		select {
		case <-r.leaving.Done():
			return
		case address := <-r.doubts:
			err = r.gossip.join(address)
			if !pause(r.leaving, joinPause) { // whatever number of calls are in doubt
				return
			}
		case <-time.After(rejoinLeast + rand.N(rejoinMost-rejoinLeast)):
			r.roster.forget(time.Now())
			_, err = r.tryMissing(r.leaving)
		}
		if r.refused(err); err != nil { // vet has logged a refusal
			r.config.Log.Debug("a member is missing", "error", err)
		}
	}
}

// tryMissing tries to join everybody that this node should see and does not, and
// returns whether there is nobody to try.
func (r *Ring) tryMissing(ctx context.Context) (alone bool, err error) {
	known := map[string]bool{r.ownAddress(): true}
	wanted, err := resolveSeeds(ctx, r.config.Seeds, r.look)
	for _, m := range r.roster.all() {
		if m.State == Failed {
			wanted = append(wanted, m.Gossip)
		} else {
			known[m.Gossip] = true
		}
	}
	addresses := missing(wanted, known)
	if len(addresses) == 0 {
		// With names that do not resolve yet there may be others.
		return err == nil, err
	}
	maps.DeleteFunc(r.aliases, func(_ string, since time.Time) bool { return time.Since(since) >= aliasFor })
	addresses = slices.DeleteFunc(addresses, func(address string) bool {
		_, alias := r.aliases[address]
		return alias
	})
	var mu sync.Mutex
	var tries sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, address := range addresses {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		tries.Go(func() {
			defer func() { <-slots }()
			joinErr := r.gossip.join(address)
			mu.Lock()
			defer mu.Unlock()
			if joinErr == nil {
				if !r.roster.at(address) {
					// Another address of this node or of one that is known,
					// such as a virtual one: no need to ask it all the time.
					r.aliases[address] = time.Now()
				}
			} else {
				err = errors.Join(err, joinErr)
			}
		})
	}
	tries.Wait()
	return false, err
}

// refused forgets why members were refused meanwhile, and returns it if it is
// what made this node's own attempts fail: a stranger who tries to join this
// node is refused by the same check, and is no reason to give up. The library
// passes the text of an error on, but not the error.
func (r *Ring) refused(failure error) error {
	select {
	case err := <-r.refusals:
		if failure != nil && strings.Contains(failure.Error(), err.Error()) {
			return err
		}
	default:
	}
	return nil
}

func (r *Ring) ownName() string    { return r.Self().Name }
func (r *Ring) ownAddress() string { return r.Self().Gossip }

// pause waits, and reports whether the context still holds.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
