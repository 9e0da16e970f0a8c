package shard_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/leaky"
	"weir/shard"
)

const t0 = 1_700_000_000 * int64(time.Second)

func rule(t testing.TB, limit int64, window time.Duration) leaky.Rule {
	t.Helper()
	r, err := leaky.NewRule(leaky.Bucket, limit, window)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The table against bare words that are never forgotten: no sequence of takes,
// looks, merges, lowerings and rebuilds tells them apart.
func TestTableAnswersLikeWordsThatAreNeverForgotten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table := shard.NewTable()
		words := map[uint64]leaky.Word{}
		now := t0
		for range rapid.IntRange(1, 300).Draw(rt, "steps") {
			now += rapid.Int64Range(0, int64(time.Second)).Draw(rt, "step")
			c := leaky.Check{
				Fingerprint: rapid.Uint64Range(1, 200).Draw(rt, "key"),
				Rule:        rule(t, 3, time.Second),
				Cost:        rapid.Int64Range(0, 3).Draw(rt, "cost"),
			}
			have := words[c.Fingerprint]
			switch rapid.SampledFrom([]string{"take", "take", "look", "lower", "merge", "rebuild"}).Draw(rt, "op") {
			case "take":
				next, want := c.Rule.Take(have, now, c.Cost)
				words[c.Fingerprint] = next
				if got := table.Take(c, now); got != want {
					rt.Fatalf("take: %+v, want %+v", got, want)
				}
			case "look":
				if got, want := table.Look(c, now), c.Rule.Look(have, now, c.Cost); got != want {
					rt.Fatalf("look: %+v, want %+v", got, want)
				}
			case "lower":
				words[c.Fingerprint] = c.Rule.Lower(have, now, c.Cost)
				table.Lower(c, now)
			case "merge":
				word := leaky.Word(now + rapid.Int64Range(-int64(time.Second), int64(time.Second)).Draw(rt, "word"))
				words[c.Fingerprint] = max(have, word)
				table.Merge(c.Fingerprint, word, now)
			case "rebuild":
				table.Rebuild(now)
			}
		}
		live := map[uint64]leaky.Word{}
		for key, word := range words {
			if int64(word) > now {
				live[key] = word
			}
		}
		seen := 0
		table.Range(now, func(key uint64, word leaky.Word) bool {
			seen++
			if live[key] != word {
				rt.Fatalf("key %d: word %d, want %d", key, word, live[key])
			}
			return true
		})
		if seen != len(live) {
			rt.Fatalf("ranged over %d words, want %d", seen, len(live))
		}
		table.Rebuild(now)
		if table.Len() != len(live) {
			rt.Fatalf("%d words after a rebuild, want %d", table.Len(), len(live))
		}
	})
}

func TestContendedKeyAdmitsExactlyTheLimit(t *testing.T) {
	table := shard.NewTable()
	check := leaky.Check{Fingerprint: 7, Rule: rule(t, 1000, time.Hour), Cost: 1}
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := range 1500 {
				// Fresh keys beside it force rebuilds meanwhile.
				table.Take(leaky.Check{Fingerprint: uint64(100 + i), Rule: check.Rule, Cost: 1}, t0)
				if table.Take(check, t0).Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := admitted.Load(); got != 1000 {
		t.Fatalf("admitted %d, want 1000", got)
	}
}

func TestRefusalsAndLooksLeaveNoState(t *testing.T) {
	table := shard.NewTable()
	r := rule(t, 1, time.Second)
	table.Look(leaky.Check{Fingerprint: 1, Rule: r, Cost: 1}, t0)
	table.Take(leaky.Check{Fingerprint: 2, Rule: r, Cost: 2}, t0)
	table.Take(leaky.Check{Fingerprint: 3, Rule: r, Cost: 0}, t0)
	table.Lower(leaky.Check{Fingerprint: 4, Rule: r, Cost: 1}, t0)
	if n := table.Len(); n != 0 {
		t.Fatalf("%d words, want none", n)
	}
}

func TestRangeStopsWhenTold(t *testing.T) {
	table := shard.NewTable()
	for key := range uint64(10) {
		table.Take(leaky.Check{Fingerprint: key + 1, Rule: rule(t, 1, time.Second), Cost: 1}, t0)
	}
	calls := 0
	table.Range(t0, func(uint64, leaky.Word) bool { calls++; return calls < 3 })
	if calls != 3 {
		t.Fatalf("%d calls, want 3", calls)
	}
}

// Fresh keys without end are bounded by those that live: the table drops
// drained ones by itself while it is used.
func TestFreshKeysAreBoundedByLiveOnes(t *testing.T) {
	table := shard.NewTable()
	r := rule(t, 1, time.Millisecond)
	most := 0
	for i := range int64(100_000) {
		table.Take(leaky.Check{Fingerprint: uint64(i + 1), Rule: r, Cost: 1}, t0+i*int64(time.Microsecond))
		most = max(most, table.Len())
	}
	// A thousand keys live at any instant, twice that before a rebuild.
	if most > 2001 {
		t.Fatalf("held %d words at most, want 2001", most)
	}
}

func TestDrainedKeysGiveTheirMemoryBack(t *testing.T) {
	table := shard.NewTable()
	before := heap()
	r := rule(t, 1, time.Second)
	for key := range uint64(1_000_000) {
		table.Take(leaky.Check{Fingerprint: key + 1, Rule: r, Cost: 1}, t0)
	}
	full := heap()
	if n := table.Len(); n != 1_000_000 {
		t.Fatalf("%d words, want a million", n)
	}
	table.Rebuild(t0 + int64(time.Second))
	after := heap()
	if n := table.Len(); n != 0 {
		t.Fatalf("%d words after all expired", n)
	}
	if used, left := full-before, after-before; left > used/50 {
		t.Fatalf("a million keys took %d bytes, %d are left", used, left)
	}
	runtime.KeepAlive(table)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
