package cluster

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/leaky"
	"weir/ring"
	"weir/rpc"
)

const (
	both  = "n1:active n2:active"
	three = "n1:active n2:active n3:active"
)

var (
	take = Options{}
	peek = Options{Mode: leaky.Looking}
	fall = Options{LocalFallback: true}
)

func TestOwnerDecides(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		nodes := w.together(both, "n1", "n2")
		a, b := nodes[0], nodes[1]
		r := rule(t, 3, time.Hour)
		ctx := t.Context()
		calls := a.RPC().Answered.Load()
		for _, owner := range []string{"n1", "n2"} {
			p := owned(t, both, owner)
			same(t, "n1", says(a.Decide(ctx, one(check(p, 1, r)), take)), "+2")
			same(t, "n2", says(b.Decide(ctx, one(check(p, 1, r)), take)), "+1")
			same(t, "a look at n1", says(a.Decide(ctx, one(check(p, 1, r)), peek)), "+1")
			same(t, "another look at n2", says(b.Decide(ctx, one(check(p, 1, r)), peek)), "+1")
			same(t, "n1 again", says(a.Decide(ctx, one(check(p, 1, r)), take)), "+0")
			same(t, "n2, refused", says(b.Decide(ctx, one(check(p, 1, r)), take)), "-0")
			same(t, "n1, refused", says(a.Decide(ctx, one(check(p, 1, r)), take)), "-0")
		}
		same(t, "decided at n1 for itself", a.Stats().Local.Load(), 4)
		same(t, "sent on by n1", a.Stats().Forwarded.Load(), 4)
		same(t, "calls answered to n1", a.RPC().Answered.Load()-calls, 4)
		same(t, "degraded at n1", degraded(a), "")
		same(t, "held by n1", a.LiveBuckets(), 1)
		same(t, "held by n2, without its copy", b.LiveBuckets(), 1)
	})
}

// A sequence ends at its first refusal, in whichever stage that is, and takes
// nothing after it; a look sees all of it.
func TestSequenceEndsAtFirstRefusal(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a := w.together(both, "n1", "n2")[0]
		here, there := owned(t, both, "n1"), owned(t, both, "n2")
		small, large := rule(t, 1, time.Hour), rule(t, 9, time.Hour)
		sequence := func(first, second uint32) []Sequence {
			return []Sequence{{
				{check(first, 1, large), check(first, 2, small), check(first, 3, large)},
				{},
				{check(second, 4, large)},
			}}
		}
		for _, at := range [][2]uint32{{here, there}, {there, here}} {
			s := sequence(at[0], at[1])
			same(t, "first", says(a.Decide(t.Context(), s, take)), "+8 +0 +8 +8")
			same(t, "second", says(a.Decide(t.Context(), s, take)), "+7 -0")
			same(t, "a look", says(a.Decide(t.Context(), s, peek)), "+7 -0 +8 +8")
			// The other way round, other buckets.
			for stage := range s[0] {
				for i := range s[0][stage] {
					s[0][stage][i].Fingerprint += 100
				}
			}
			same(t, "others are untouched", says(a.Decide(t.Context(), s, peek)), "+9 +1 +9 +9")
		}
	})
}

// Sequences of one call are decided in their order, as if they came one by one.
func TestSequencesInOrder(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a := w.together(three, "n1", "n2", "n3")[0]
		r := rule(t, 2, time.Hour)
		var sequences []Sequence
		for range 3 {
			for i, owner := range []string{"n1", "n2", "n3"} {
				sequences = append(sequences, Sequence{{check(owned(t, three, owner), uint64(i+1), r)}})
			}
		}
		var got string
		calls := answered(a, func() { got = says(a.Decide(t.Context(), sequences, take)) })
		same(t, "three rounds", got, "+1; +1; +1; +0; +0; +0; -0; -0; -0")
		same(t, "calls, one to each other owner", calls, 2)
	})
}

// What is asked of an owner goes in as few calls as its bounds allow, and each
// answer comes back to its place.
func TestManyChecks(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a := w.together(both, "n1", "n2")[0]
		there := owned(t, both, "n2")
		calls := a.RPC().Answered.Load()
		sequences := make([]Sequence, rpc.MaxSequences+1)
		for i := range sequences {
			limit := int64(i + 1)
			sequences[i] = Sequence{{check(there, uint64(i+1), rule(t, limit, time.Hour))}}
		}
		for i, out := range a.Decide(t.Context(), sequences, take) {
			if out.Degraded || len(out.Results) != 1 || out.Results[0].Remaining != int64(i) {
				t.Fatalf("sequence %d: %+v", i, out)
			}
		}
		same(t, "calls", a.RPC().Answered.Load()-calls, 2)

		const checks = rpc.MaxChecks/4 + 1 // so that three of the four fit
		sequences = make([]Sequence, 4)
		for i := range sequences {
			sequences[i] = Sequence{make([]leaky.Check, checks)}
			for k := range checks {
				sequences[i][0][k] = check(there, uint64(1_000_000+i), rule(t, checks+int64(i), time.Hour))
			}
		}
		for i, out := range a.Decide(t.Context(), sequences, take) {
			if out.Degraded || len(out.Results) != checks || out.Results[checks-1].Remaining != int64(i) {
				t.Fatalf("sequence %d: %d results, degraded %t", i, len(out.Results), out.Degraded)
			}
		}
		same(t, "calls", a.RPC().Answered.Load()-calls, 2+2)
	})
}

// A call too many to one owner falls back at once instead of waiting.
func TestOverloadedOwner(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", both, func(c *Config) { c.RPC.MaxInFlight = 1 })
		b, _ := w.node("n2", both)
		w.settle(a, b)
		there := owned(t, both, "n2")
		r := rule(t, 9, time.Hour)
		a.Decide(t.Context(), one(check(there, 1, r)), take) // connects
		var calls sync.WaitGroup
		calls.Go(func() { same(t, "the first", says(a.Decide(t.Context(), one(check(there, 1, r)), take)), "+7") })
		synctest.Wait()
		same(t, "the second", says(a.Decide(t.Context(), one(check(there, 1, r)), take)), "degraded")
		calls.Wait()
		same(t, "why", degraded(a), "overloaded=1")
		// The cap is this node's own: it says nothing against the owner.
		same(t, "taken over", a.Stats().TakenOver.Load(), 0)
	})
}

// An owner that this node has too many calls at is asked by way of its backup.
func TestOverloadedOwnerByWayOfBackup(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", three, func(c *Config) { c.RPC.MaxInFlight = 1 })
		b, _ := w.node("n2", three)
		c, _ := w.node("n3", three)
		w.settle(a, b, c)
		there := owned(t, three, "n2 n3")
		r := rule(t, 9, time.Hour)
		var calls sync.WaitGroup
		calls.Go(func() { same(t, "the first", says(a.Decide(t.Context(), one(check(there, 1, r)), take)), "+8") })
		synctest.Wait()
		same(t, "the second", says(a.Decide(t.Context(), one(check(there, 1, r)), take)), "+7")
		calls.Wait()
		same(t, "degraded", degraded(a), "")
		same(t, "taken over", c.Stats().TakenOver.Load(), 0)
	})
}

// A caller who gives up ends what was asked for it. What is then decided here
// starts from what a copy here knows, and is told to nobody.
func TestCallerGivesUp(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a := w.together(both, "n1", "n2")[0]
		far := one(check(owned(t, both, "n2 n1"), 1, rule(t, 9, 300*time.Hour)))
		same(t, "before", says(a.Decide(t.Context(), far, take)), "+8")
		time.Sleep(70 * time.Millisecond)
		w.net.Cut(hostOf("n1"), hostOf("n2"))
		for _, c := range []struct {
			opts Options
			want string
		}{{take, "degraded"}, {fall, "+7 degraded"}, {fall, "+6 degraded"}} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			began := time.Now()
			same(t, "given up", says(a.Decide(ctx, far, c.opts)), c.want)
			same(t, "time of it", time.Since(began), 10*time.Millisecond)
			cancel()
		}
		same(t, "why", degraded(a), "timeout=3")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		same(t, "nobody waits", says(a.Decide(ctx, far, take)), "degraded")
		same(t, "which counts as nothing", degraded(a), "timeout=3")
		w.net.Heal(hostOf("n1"), hostOf("n2"))
		time.Sleep(10 * time.Millisecond)
		// The three that were given up have waited in the network.
		same(t, "after", says(a.Decide(t.Context(), far, take)), "+4")
		same(t, "taken over", a.Stats().TakenOver.Load(), 0)
	})
}

// Without any active member the last one to leave decides by itself. One that
// has not joined yet does not: it may not know of anybody.
func TestNobodyIsActive(t *testing.T) {
	for sees, want := range map[string]string{
		"n1:leaving": "+1", "n1:leaving n2:failed": "+1",
		"": "degraded", "n1:joining": "degraded", "n1:joining n2:joining": "degraded",
	} {
		virtually(t, func(t *testing.T, w *world) {
			a, _ := w.node("n1", sees)
			got := a.Decide(t.Context(), one(check(7, 1, rule(t, 2, time.Hour))), take)
			same(t, strings.TrimSpace("seen: "+sees), says(got), want)
		})
	}
}

// A peer that asks for what cannot be is told so and harms nothing.
func TestBadPartition(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", "n1:active")
		stranger := w.config("n2", nil).RPC
		client := rpc.NewClient(stranger, rpc.Identity{Name: "n1", Boot: 1, Label: "test", Format: ring.Format}, rpcOf("n1"))
		defer client.Close()
		good, bad := check(1, 1, rule(t, 5, time.Hour)), check(ring.Partitions, 1, rule(t, 5, time.Hour))
		_, err := client.Decide(t.Context(), &rpc.DecideRequest{Sequences: [][]leaky.Check{{good}, {bad}}})
		same(t, "code", rpc.CodeOf(err), rpc.CodeInvalid)
		if err == nil || !strings.Contains(err.Error(), "partition 1021 of 1021") {
			t.Errorf("%v", err)
		}
		same(t, "nothing was taken", a.LiveBuckets(), 0)
	})
}
