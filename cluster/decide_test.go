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
	peek = Options{Peek: true}
	fall = Options{LocalFallback: true}
)

func TestOwnerDecides(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", both)
		b, _ := w.node("n2", both)
		r := rule(t, 3, time.Hour)
		ctx := t.Context()
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
		same(t, "calls answered to n1", a.RPC().Answered.Load(), 4)
		same(t, "degraded at n1", degraded(a), "")
		same(t, "held by n1", a.LiveBuckets(), 1)
		same(t, "held by n2", b.LiveBuckets(), 1)
	})
}

// A sequence ends at its first refusal, in whichever stage that is, and takes
// nothing after it; a look sees all of it.
func TestSequenceEndsAtFirstRefusal(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", both)
		w.node("n2", both)
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
		a, _ := w.node("n1", three)
		w.node("n2", three)
		w.node("n3", three)
		r := rule(t, 2, time.Hour)
		var sequences []Sequence
		for range 3 {
			for i, owner := range []string{"n1", "n2", "n3"} {
				sequences = append(sequences, Sequence{{check(owned(t, three, owner), uint64(i+1), r)}})
			}
		}
		got := says(a.Decide(t.Context(), sequences, take))
		same(t, "three rounds", got, "+1; +1; +1; +0; +0; +0; -0; -0; -0")
		same(t, "calls, one to each other owner", a.RPC().Answered.Load(), 2)
	})
}

// What is asked of an owner goes in as few calls as its bounds allow, and each
// answer comes back to its place.
func TestManyChecks(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", both)
		w.node("n2", both)
		there := owned(t, both, "n2")
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
		same(t, "calls", a.RPC().Answered.Load(), 2)

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
		same(t, "calls", a.RPC().Answered.Load(), 2+2)
	})
}

// While views differ, the node that is asked names the owner it knows, and the
// asker follows that once.
func TestOneRedirect(t *testing.T) {
	const (
		all      = three
		second   = "n1:active n2:leaving n3:active"
		thirdOff = "n1:active n2:active n3:leaving"
	)
	type outcome struct{ says, degraded string }
	for _, c := range []struct {
		name       string
		n1, n2, n3 string
		partition  []string
		opts       Options
		want       outcome
		calls      uint64 // that n1 got answers to
	}{
		{"to the third", all, second, second, []string{all, "n2", second, "n3"}, take, outcome{"+4", ""}, 2},
		{"back to the asker", all, second, second, []string{all, "n2", second, "n1"}, take, outcome{"+4", ""}, 1},
		{"in a circle", all, second, all, []string{all, "n2", second, "n3"}, take, outcome{"degraded", "not_owner=1"}, 2},
		{"in a circle, decided here", all, second, all, []string{all, "n2", second, "n3"}, fall, outcome{"+4 degraded", "not_owner=1"}, 2},
		{"to one whom the asker does not know", both, thirdOff + " n4:active", both, []string{both, "n2", thirdOff + " n4:active", "n4"}, take, outcome{"degraded", "not_owner=1"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				a, _ := w.node("n1", c.n1)
				w.node("n2", c.n2)
				w.node("n3", c.n3)
				p := owned(t, c.partition...)
				began := time.Now()
				got := a.Decide(t.Context(), one(check(p, 1, rule(t, 5, time.Hour))), c.opts)
				same(t, "outcome", outcome{says(got), degraded(a)}, c.want)
				same(t, "answered calls", a.RPC().Answered.Load(), c.calls)
				if took := time.Since(began); took > 2*100*time.Millisecond {
					t.Errorf("took %s, at most two forward timeouts", took)
				}
			})
		})
	}
}

// Only the parts that moved are asked for again, and each counts once.
func TestRedirectOfSome(t *testing.T) {
	const second = "n1:active n2:active n3:active n4:active"
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", three)
		b, _ := w.node("n2", second)
		c, _ := w.node("n3", second)
		stays := owned(t, three, "n2", second, "n2")
		moves := owned(t, three, "n2", second, "n4")
		w.node("n4", second)
		r := rule(t, 5, time.Hour)
		sequences := []Sequence{{{check(stays, 1, r)}}, {{check(moves, 2, r)}}, {{check(stays, 1, r)}}}
		// n1 does not know n4.
		same(t, "with a stranger", says(a.Decide(t.Context(), sequences, take)), "+4; degraded; +3")
		a.config.Members.(*dictated).set(view(second))
		synctest.Wait()
		same(t, "once it knows n4", says(a.Decide(t.Context(), sequences, take)), "+2; +4; +1")
		same(t, "held by n2", b.LiveBuckets(), 1)
		same(t, "held by n3", c.LiveBuckets(), 0)
	})
}

// An owner that cannot be asked is a matter of the options: decide here, or
// leave it open; and never takes longer than the forward timeout.
func TestUnreachableOwner(t *testing.T) {
	const timeout = 100 * time.Millisecond
	for _, c := range []struct {
		name     string
		lose     func(*world)
		took     time.Duration
		degraded string
	}{
		{"cut off", func(w *world) { w.net.Cut(hostOf("n1"), hostOf("n2")) }, timeout, "timeout=3"},
		{"crashed", func(w *world) { w.net.Crash(hostOf("n2")) }, 0, "unavailable=3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				a, _ := w.node("n1", both)
				w.node("n2", both)
				here, there := owned(t, both, "n1"), owned(t, both, "n2")
				r := rule(t, 3, time.Hour)
				far, near := one(check(there, 1, r)), check(here, 2, r)
				same(t, "before", says(a.Decide(t.Context(), far, fall)), "+2")
				c.lose(w)
				synctest.Wait()

				began := time.Now()
				same(t, "here", says(a.Decide(t.Context(), far, fall)), "+2 degraded")
				same(t, "time of it", time.Since(began), c.took)
				// Stages: what can be asked counts, what comes after the
				// unreachable owner is left out, or decided here.
				both := []Sequence{{{near}, {check(there, 3, r)}, {near}}}
				same(t, "left open", says(a.Decide(t.Context(), both, take)), "+2 degraded")
				same(t, "decided here", says(a.Decide(t.Context(), both, fall)), "+1 +2 +0 degraded")
				same(t, "why", degraded(a), c.degraded)

				w.net.Heal(hostOf("n1"), hostOf("n2"))
			})
		})
	}
}

// When the owner can be reached again it decides again. Calls that were given up
// while they were under way arrive then, and have taken what they asked for:
// nobody gets more by a cut.
func TestOwnerComesBack(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", both)
		w.node("n2", both)
		far := one(check(owned(t, both, "n2"), 1, rule(t, 9, 300*time.Hour)))
		same(t, "before", says(a.Decide(t.Context(), far, fall)), "+8")
		w.net.Cut(hostOf("n1"), hostOf("n2"))
		for _, want := range []string{"+8 degraded", "+7 degraded", "+6 degraded", "+5 degraded", "+4 degraded"} {
			same(t, "meanwhile", says(a.Decide(t.Context(), far, fall)), want)
		}
		w.net.Heal(hostOf("n1"), hostOf("n2"))
		time.Sleep(10 * time.Second)
		same(t, "after", says(a.Decide(t.Context(), far, fall)), "+2")
	})
}

// A call too many to one owner falls back at once instead of waiting.
func TestOverloadedOwner(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", both, func(c *Config) { c.RPC.MaxInFlight = 1 })
		w.node("n2", both)
		there := owned(t, both, "n2")
		r := rule(t, 9, time.Hour)
		a.Decide(t.Context(), one(check(there, 1, r)), take) // connects
		var calls sync.WaitGroup
		calls.Go(func() { same(t, "the first", says(a.Decide(t.Context(), one(check(there, 1, r)), take)), "+7") })
		synctest.Wait()
		same(t, "the second", says(a.Decide(t.Context(), one(check(there, 1, r)), take)), "degraded")
		calls.Wait()
		same(t, "why", degraded(a), "overloaded=1")
	})
}

// A caller who gives up ends what was asked for it.
func TestCallerGivesUp(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		a, _ := w.node("n1", both)
		w.node("n2", both)
		w.net.Cut(hostOf("n1"), hostOf("n2"))
		defer w.net.Heal(hostOf("n1"), hostOf("n2"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		far := check(owned(t, both, "n2"), 1, rule(t, 1, time.Hour))
		same(t, "given up", says(a.Decide(ctx, one(far), take)), "degraded")
		same(t, "time of it", time.Since(began), 10*time.Millisecond)
	})
}

// Without any active member a node decides by itself, as the last one does that
// leaves.
func TestNobodyIsActive(t *testing.T) {
	for _, sees := range []string{"", "n1:leaving", "n1:leaving n2:failed", "n1:joining n2:joining"} {
		virtually(t, func(t *testing.T, w *world) {
			a, _ := w.node("n1", sees)
			got := a.Decide(t.Context(), one(check(7, 1, rule(t, 2, time.Hour))), take)
			same(t, strings.TrimSpace("seen: "+sees), says(got), "+1")
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
