package shard_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/leaky"
	"weir/shard"
)

// The rules of the oracle: three units per second of each kind.
const (
	second   = int64(time.Second)
	limit    = int64(3)
	interval = int64(333_333_333) // ns in which a unit of the bucket drains
	burst    = int64(999_999_999)
	tick     = int64(time.Microsecond) // steps of it keep counting kinds exact
)

// entry is one key of the oracle: when it ends, and how much it counted by
// then. A bucket counts nothing, its end says all.
type entry struct{ end, count int64 }

// word is how an entry travels between tables.
func (e entry) word() leaky.Word { return leaky.Word(e.end + e.count) }

// oracle is a map that never forgets, with the meaning of the three kinds
// written out once more. It uses nothing of the package leaky but its types.
type oracle map[uint64]entry

func kindOf(key uint64) leaky.Kind {
	return []leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout}[key%3]
}

// state returns what is spent at now: nanoseconds of a bucket, units of the
// others with the rest of their time.
func (o oracle) state(key uint64, now int64) (spent, left int64) {
	e := o[key]
	if e.end <= now {
		return 0, 0
	}
	if kindOf(key) == leaky.Bucket {
		return min(e.end-now, burst), min(e.end-now, burst)
	}
	return e.count, min(e.end-now, second)
}

func (o oracle) look(key uint64, now, cost int64) leaky.Result {
	spent, left := o.state(key, now)
	res := leaky.Result{ResetAfter: time.Duration(left)}
	switch kindOf(key) {
	case leaky.Bucket:
		res.Remaining = (burst - spent) / interval
		res.Never = cost > limit
		res.Allowed = cost <= limit && (cost == 0 || spent+cost*interval <= burst)
		if !res.Allowed && !res.Never {
			res.RetryAfter = time.Duration(spent + cost*interval - burst)
		}
	case leaky.Quota:
		res.Remaining = limit - spent
		res.Never = cost > limit
		res.Allowed = spent+cost <= limit
		if !res.Allowed && !res.Never {
			res.RetryAfter = time.Duration(left)
		}
	case leaky.Lockout:
		res.Remaining = limit - spent
		res.Allowed = cost == 0 || spent < limit
		if !res.Allowed {
			res.RetryAfter = time.Duration(left)
		}
	}
	return res
}

func (o oracle) take(key uint64, now, cost int64) leaky.Result {
	res := o.look(key, now, cost)
	spent, left := o.state(key, now)
	kind := kindOf(key)
	if cost == 0 || !res.Allowed && kind != leaky.Lockout {
		return res
	}
	e := o[key]
	switch kind {
	case leaky.Bucket:
		e.end = now + spent + cost*interval
		left = e.end - now
		res.Remaining -= cost
	case leaky.Quota:
		if left == 0 {
			e, left = entry{end: now + second}, second
		}
		e.count += cost
		res.Remaining = limit - e.count
	case leaky.Lockout:
		e = entry{end: max(e.end, now+second), count: min(spent+cost, limit)}
		left = second // the latest failure counts for all of it
		res.Remaining = limit - e.count
		if !res.Allowed {
			res.RetryAfter = time.Duration(left)
		}
	}
	o[key] = e
	res.ResetAfter = time.Duration(left)
	return res
}

func (o oracle) lower(key uint64, now, units int64) {
	units = min(units, limit)
	spent, left := o.state(key, now)
	e := o[key]
	if kindOf(key) == leaky.Bucket {
		units *= interval
	}
	switch {
	case left == 0 || units >= spent:
		delete(o, key)
	case units == 0:
	case kindOf(key) == leaky.Bucket:
		o[key] = entry{end: now + spent - units}
	default:
		o[key] = entry{end: e.end, count: spent - units}
	}
}

// merge keeps the entry with the later end, or the higher count at one end.
func (o oracle) merge(key uint64, e entry) {
	have := o[key]
	if e.end > have.end || e.end == have.end && e.count > have.count {
		o[key] = e
	}
}

// No sequence of takes, looks, merges, lowerings and rebuilds tells a table
// from a map that never forgets.
func TestTableAnswersLikeAMapThatNeverForgets(t *testing.T) {
	rules := map[leaky.Kind]leaky.Rule{}
	for _, kind := range []leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout} {
		r, err := leaky.NewRule(kind, limit, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		rules[kind] = r
	}
	rapid.Check(t, func(rt *rapid.T) {
		table, model := shard.NewTable(), oracle{}
		now := t0
		keys := rapid.SampledFrom([]uint64{3, 12, 300}).Draw(rt, "keys")
		for range rapid.IntRange(1, 300).Draw(rt, "steps") {
			now += tick * rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 100_000),
				rapid.Int64Range(0, second/tick)).Draw(rt, "step")
			key := rapid.Uint64Range(1, keys).Draw(rt, "key")
			kind := kindOf(key)
			cost := rapid.Int64Range(0, limit+1).Draw(rt, "cost")
			c := leaky.Check{Fingerprint: key, Rule: rules[kind], Cost: cost}
			switch rapid.SampledFrom([]string{"take", "take", "take", "look", "lower", "merge", "rebuild"}).Draw(rt, "op") {
			case "take":
				if got, want := table.Take(c, now), model.take(key, now, cost); got != want {
					rt.Fatalf("take %d of %s: %+v, want %+v", cost, kind, got, want)
				}
			case "look":
				if got, want := table.Look(c, now), model.look(key, now, cost); got != want {
					rt.Fatalf("look at %d of %s: %+v, want %+v", cost, kind, got, want)
				}
			case "lower":
				table.Lower(c, now)
				model.lower(key, now, cost)
			case "merge":
				// From a second ago to two seconds ahead: no word may hold longer than
				// a full one.
				e := entry{end: now + tick*rapid.Int64Range(-second/tick, 2*second/tick).Draw(rt, "end")}
				if kind != leaky.Bucket {
					e.count = rapid.Int64Range(1, limit).Draw(rt, "count")
				}
				table.Merge(key, e.word(), now)
				model.merge(key, e)
			case "rebuild":
				table.Rebuild(now)
			}
		}
		compare(rt, table, model, now)
	})
}

// compare checks that exactly the live entries of the model are in the table,
// and that nothing else is left of it after a rebuild.
func compare(rt *rapid.T, table *shard.Table, model oracle, now int64) {
	live := map[uint64]leaky.Word{}
	for key, e := range model {
		if int64(e.word()) > now {
			live[key] = e.word()
		}
	}
	check := func() {
		seen := 0
		table.Range(now, func(key uint64, word leaky.Word) bool {
			seen++
			if live[key] != word {
				rt.Fatalf("%s, key %d: word %d, want %d", kindOf(key), key, word, live[key])
			}
			return true
		})
		if seen != len(live) {
			rt.Fatalf("ranged over %d words, want %d", seen, len(live))
		}
	}
	check()
	table.Rebuild(now)
	check()
	if table.Len() != len(live) {
		rt.Fatalf("%d words after a rebuild, want %d", table.Len(), len(live))
	}
}
