package shard_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// Three contended keys, one of each kind, among keys that live for a
// millisecond of a clock that every take moves on: rebuilds drop nearly all of
// the table again and again, and never one of the three.
func TestContendedKeysAdmitExactlyTheLimitAcrossRebuilds(t *testing.T) {
	const workers, rounds = 64, 1500
	table := shard.NewTable()
	var contended [3]leaky.Check
	var admitted [3]atomic.Int64
	for i, kind := range []leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout} {
		r, err := leaky.NewRule(kind, 500, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		contended[i] = leaky.Check{Fingerprint: uint64(i + 1), Rule: r, Cost: 1}
	}
	brief := rule(t, 1, time.Millisecond)
	// All of it spans 96 ms, in which no unit of the hour drains.
	var clock atomic.Int64
	var fresh atomic.Uint64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range rounds {
				now := t0 + clock.Add(int64(time.Microsecond))
				if !table.Take(leaky.Check{Fingerprint: 10 + fresh.Add(1), Rule: brief, Cost: 1}, now).Allowed {
					t.Error("a fresh key was refused")
				}
				for k, c := range contended {
					if table.Take(c, now).Allowed {
						admitted[k].Add(1)
					}
				}
				if i%500 == 250 {
					table.Rebuild(now)
				}
			}
		})
	}
	wg.Wait()
	for k := range contended {
		if got := admitted[k].Load(); got != 500 {
			t.Errorf("%s: admitted %d, want 500", contended[k].Rule.Kind(), got)
		}
	}
	if n := table.Len(); n >= workers*rounds {
		t.Errorf("%d words are left: no rebuild dropped any", n)
	}
	table.Rebuild(t0 + second)
	if n := table.Len(); n != 3 {
		t.Errorf("%d words live, want the three contended ones", n)
	}
}

// A rebuild in the middle of inserting keeps every word that lives.
func TestRebuildsByInsertionKeepWhatLives(t *testing.T) {
	table := shard.NewTable()
	brief, long := rule(t, 1, time.Millisecond), rule(t, 1, time.Hour)
	for i := range int64(10_000) {
		now := t0 + i*int64(time.Microsecond)
		table.Take(leaky.Check{Fingerprint: uint64(i + 1_000), Rule: brief, Cost: 1}, now)
		if i%100 == 0 {
			table.Take(leaky.Check{Fingerprint: uint64(i/100 + 1), Rule: long, Cost: 1}, now)
		}
	}
	if n := table.Len(); n >= 10_100 {
		t.Fatalf("%d words: no rebuild dropped any", n)
	}
	for key := range uint64(100) {
		if table.Look(leaky.Check{Fingerprint: key + 1, Rule: long, Cost: 1}, t0+second).Allowed {
			t.Fatalf("key %d was forgotten", key+1)
		}
	}
}

// Looks leave the word that the table holds as it is.
func TestLookLeavesTheWord(t *testing.T) {
	for i, kind := range []leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout} {
		r, err := leaky.NewRule(kind, 4, 8*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		// Two of four: half of the drain time, or the count of two until the end.
		want := leaky.Word([]int64{t0 + 4*second, t0 + 8*second + 2, t0 + 8*second + 2}[i])
		table := shard.NewTable()
		table.Take(leaky.Check{Fingerprint: 1, Rule: r, Cost: 2}, t0)
		for _, cost := range []int64{0, 1, 2, 3, 4, 5, -1} {
			for _, now := range []int64{t0 - second, t0, t0 + 3*second, t0 + 9*second} {
				table.Look(leaky.Check{Fingerprint: 1, Rule: r, Cost: cost}, now)
			}
		}
		var held []leaky.Word
		table.Range(t0, func(_ uint64, word leaky.Word) bool { held = append(held, word); return true })
		if len(held) != 1 || held[0] != want {
			t.Errorf("%s: held %d after looks, want %d", kind, held, want)
		}
	}
}

// A copy that comes too late says nothing and takes no room.
func TestMergeOfAnExpiredWordStoresNothing(t *testing.T) {
	table := shard.NewTable()
	for key, word := range []leaky.Word{0, 1, leaky.Word(t0 - second), leaky.Word(t0 - 1), leaky.Word(t0)} {
		table.Merge(uint64(key+1), word, t0)
	}
	if n := table.Len(); n != 0 {
		t.Fatalf("%d words, want none", n)
	}
	table.Merge(9, leaky.Word(t0+1), t0)
	if n := table.Len(); n != 1 {
		t.Fatalf("%d words, want the one that lives a nanosecond more", n)
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

// Words that were given back leave their room in the map; a rebuild returns it,
// though it has not one word to drop.
func TestLoweredKeysGiveTheirMemoryBack(t *testing.T) {
	for _, kept := range []uint64{0, 100} {
		table := shard.NewTable()
		before := heap()
		r := rule(t, 1, time.Hour)
		for key := range uint64(100_000) {
			table.Take(leaky.Check{Fingerprint: key + 1, Rule: r, Cost: 1}, t0)
		}
		if used := heap() - before; used < 1<<20 {
			t.Fatalf("100000 keys took %d bytes: too few to measure by", used)
		}
		for key := kept; key < 100_000; key++ {
			table.Lower(leaky.Check{Fingerprint: key + 1, Rule: r, Cost: 1}, t0)
		}
		if n := table.Len(); n != int(kept) {
			t.Errorf("%d words before the rebuild, want %d", n, kept)
		}
		table.Rebuild(t0)
		if left := heap() - before; left >= 1<<20 {
			t.Errorf("%d keys kept: %d bytes are left", kept, left)
		}
		if n := table.Len(); n != int(kept) {
			t.Errorf("%d words, want %d", n, kept)
		}
		runtime.KeepAlive(table)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
