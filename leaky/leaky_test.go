package leaky_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/leaky"
)

const (
	second = int64(time.Second)
	t0     = 1_700_000_000 * second
)

func TestNewRuleBounds(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		kind   leaky.Kind
		limit  int64
		window time.Duration
		want   error
	}{
		{leaky.Bucket, 1, time.Millisecond, nil},
		{leaky.Bucket, 1_000, time.Millisecond, nil},
		{leaky.Bucket, 1_001, time.Millisecond, leaky.ErrInterval},
		{leaky.Bucket, 1_000_000_000, 366 * day, nil},
		{leaky.Bucket, 1_000_000_001, 366 * day, leaky.ErrLimit},
		{leaky.Bucket, 30_000_000_000, 366 * day, leaky.ErrLimit},
		{leaky.Bucket, 0, time.Second, leaky.ErrLimit},
		{leaky.Bucket, -1, time.Second, leaky.ErrLimit},
		{leaky.Bucket, 1, 0, leaky.ErrWindow},
		{leaky.Bucket, 1, -time.Second, leaky.ErrWindow},
		{leaky.Bucket, 1, time.Millisecond - 1, leaky.ErrWindow},
		{leaky.Bucket, 1, 366*day + 1, leaky.ErrWindow},
		{leaky.Quota, 999, time.Minute, nil},
		{leaky.Quota, 1000, time.Minute, leaky.ErrLimit},
		{leaky.Lockout, 999, time.Millisecond, nil},
		{leaky.Lockout, 1000, time.Minute, leaky.ErrLimit},
		{leaky.Kind(9), 1, time.Second, leaky.ErrKind},
	} {
		r, err := leaky.NewRule(c.kind, c.limit, c.window)
		if !errors.Is(err, c.want) {
			t.Errorf("NewRule(%s, %d, %s): %v, want %v", c.kind, c.limit, c.window, err, c.want)
		}
		if err == nil && (r.Kind() != c.kind || r.Limit() != c.limit || r.Window() != c.window) {
			t.Errorf("NewRule(%s, %d, %s) kept %s %d %s", c.kind, c.limit, c.window, r.Kind(), r.Limit(), r.Window())
		}
	}
}

func TestZeroRuleRefuses(t *testing.T) {
	var r leaky.Rule
	for _, cost := range []int64{0, 1, math.MaxInt64} {
		if w, res := r.Take(5, t0, cost); res.Allowed || !res.Never || w != 5 {
			t.Errorf("cost %d: %+v, word %d", cost, res, w)
		}
	}
	if w := r.Lower(0, t0, 1); w != 0 {
		t.Errorf("lowered to %d", w)
	}
}

// Ten per ten seconds, one hit, then idle: no idle time saves up credit.
func TestIdlingNeverExceedsTheBurst(t *testing.T) {
	rule := mustRule(t, leaky.Bucket, 10, 10*time.Second)
	for _, idle := range []time.Duration{3 * time.Second, 6 * time.Second, 8900 * time.Millisecond, time.Hour} {
		word, _ := rule.Take(0, t0, 1)
		now := t0 + int64(idle)
		admitted := 0
		for range 25 {
			var res leaky.Result
			if word, res = rule.Take(word, now, 1); res.Allowed {
				admitted++
			}
		}
		if admitted != 10 {
			t.Errorf("after %s idle a burst admitted %d, want 10", idle, admitted)
		}
	}
}

// One hundred per ten seconds, drained, then one hit every few milliseconds for
// twenty seconds: polling drops no fraction of a unit.
func TestPollingKeepsFractions(t *testing.T) {
	rule := mustRule(t, leaky.Bucket, 100, 10*time.Second)
	for _, every := range []int64{33, 70, 90, 99, 50} {
		word, _ := rule.Take(0, t0, 100)
		admitted, last := int64(0), int64(0)
		for at := every; at <= 20_000; at += every {
			last = at
			rule.Look(word, t0+at*1e6, 1)
			var res leaky.Result
			if word, res = rule.Take(word, t0+at*1e6, 1); res.Allowed {
				admitted++
			}
		}
		if want := last / 100; admitted != want {
			t.Errorf("every %d ms: admitted %d, want %d", every, admitted, want)
		}
	}
}

func TestHugeCostLeavesTheBucketAlone(t *testing.T) {
	for _, kind := range []leaky.Kind{leaky.Bucket, leaky.Quota} {
		rule := mustRule(t, kind, 10, 10*time.Second)
		word, _ := rule.Take(0, t0, 10)
		for _, cost := range []int64{11, 1e10, 1 << 62, math.MaxInt64, -1, -5, math.MinInt64} {
			next, res := rule.Take(word, t0, cost)
			want := leaky.Result{Never: true, ResetAfter: 10 * time.Second}
			if next != word || res != want {
				t.Errorf("%s, cost %d: word %d to %d, %+v", kind, cost, word, next, res)
			}
		}
	}
}

// A clock alternating between now and five seconds ago admits the limit only.
func TestOlderTimeDoesNotRewind(t *testing.T) {
	rule := mustRule(t, leaky.Bucket, 10, 10*time.Second)
	var word leaky.Word
	admitted := 0
	for i := range 1000 {
		var res leaky.Result
		if word, res = rule.Take(word, t0-int64(i%2)*5*second, 1); res.Allowed {
			admitted++
		}
	}
	if admitted != 10 {
		t.Fatalf("admitted %d, want 10", admitted)
	}
}

// A changed limit keeps the consumed share, at once and in both directions.
func TestChangedLimitKeepsTheShare(t *testing.T) {
	rule := func(limit int64) leaky.Rule { return mustRule(t, leaky.Bucket, limit, time.Hour) }
	exhausted, _ := rule(10).Take(0, t0, 10)
	for _, limit := range []int64{11, 5, 10, 1, 1200} {
		if res := rule(limit).Look(exhausted, t0, 1); res.Allowed || res.Remaining != 0 {
			t.Errorf("exhausted at 10, limit now %d: %+v", limit, res)
		}
	}
	half, _ := rule(60).Take(0, t0, 30)
	for _, c := range [][2]int64{{6, 3}, {60, 30}, {600, 300}} {
		if res := rule(c[0]).Look(half, t0, 1); res.Remaining != c[1] {
			t.Errorf("half used, limit now %d: remaining %d, want %d", c[0], res.Remaining, c[1])
		}
	}
}

func TestLowerBucket(t *testing.T) {
	rule := mustRule(t, leaky.Bucket, 5, 5*time.Second)
	full, _ := rule.Take(0, t0, 5)
	one, _ := rule.Take(0, t0, 1)
	for _, c := range []struct {
		name      string
		word      leaky.Word
		units     int64
		remaining int64
	}{
		{"refund above full", one, 5, 5},
		{"refund what was taken", one, 1, 5},
		{"part", full, 2, 2},
		{"none", full, 0, 0},
		{"negative", full, -3, 0},
		{"huge", full, math.MaxInt64, 5},
		{"an empty bucket", 0, 3, 5},
	} {
		w := rule.Lower(c.word, t0, c.units)
		if w > c.word {
			t.Errorf("%s: raised the word", c.name)
		}
		if res := rule.Look(w, t0, 1); res.Remaining != c.remaining {
			t.Errorf("%s: remaining %d, want %d", c.name, res.Remaining, c.remaining)
		}
	}
}

func TestQuota(t *testing.T) {
	rule := mustRule(t, leaky.Quota, 3, 5*time.Minute)
	var w leaky.Word
	steps := []struct {
		at   time.Duration
		cost int64
		want leaky.Result
	}{
		{0, 1, leaky.Result{Allowed: true, Remaining: 2, ResetAfter: 5 * time.Minute}},
		{time.Minute, 1, leaky.Result{Allowed: true, Remaining: 1, ResetAfter: 4 * time.Minute}},
		{2 * time.Minute, 2, leaky.Result{Remaining: 1, RetryAfter: 3 * time.Minute, ResetAfter: 3 * time.Minute}},
		{2 * time.Minute, 1, leaky.Result{Allowed: true, ResetAfter: 3 * time.Minute}},
		{5*time.Minute - time.Microsecond, 1, leaky.Result{RetryAfter: time.Microsecond, ResetAfter: time.Microsecond}},
		{5 * time.Minute, 1, leaky.Result{Allowed: true, Remaining: 2, ResetAfter: 5 * time.Minute}},
	}
	for i, s := range steps {
		var got leaky.Result
		if w, got = rule.Take(w, t0+int64(s.at), s.cost); got != s.want {
			t.Errorf("step %d at %s: %+v, want %+v", i, s.at, got, s.want)
		}
	}
}

func TestLockout(t *testing.T) {
	rule := mustRule(t, leaky.Lockout, 5, 15*time.Minute)
	minute := int64(time.Minute)
	var w leaky.Word
	fail := func(at int64) (res leaky.Result) {
		w, res = rule.Take(w, t0+at, 1)
		return res
	}
	for i := range int64(4) {
		if res := fail(i * minute); !res.Allowed || res.Remaining != 4-i || res.ResetAfter != 15*time.Minute {
			t.Fatalf("failure %d: %+v", i+1, res)
		}
	}
	if res := rule.Look(w, t0+3*minute, 1); !res.Allowed || res.Remaining != 1 || res.RetryAfter != 0 {
		t.Fatalf("four failures: %+v", res)
	}
	fail(4 * minute)
	if res := rule.Look(w, t0+4*minute, 1); res.Allowed || res.RetryAfter != 15*time.Minute {
		t.Fatalf("five failures: %+v", res)
	}
	// A sixth, said while blocked, extends.
	if res := fail(10 * minute); res.Allowed || res.RetryAfter != 15*time.Minute {
		t.Fatalf("sixth failure: %+v", res)
	}
	if res := rule.Look(w, t0+24*minute, 1); res.Allowed || res.RetryAfter != time.Minute {
		t.Fatalf("a minute before the end: %+v", res)
	}
	if res := rule.Look(w, t0+25*minute, 1); !res.Allowed || res.Remaining != 5 || res.ResetAfter != 0 {
		t.Fatalf("after the block: %+v", res)
	}
	// Failures are forgotten a window after the most recent one.
	w = 0
	fail(0)
	fail(14 * minute)
	if res := rule.Look(w, t0+28*minute, 1); res.Remaining != 3 {
		t.Fatalf("14 minutes after the second failure: %+v", res)
	}
	if res := rule.Look(w, t0+29*minute, 1); res.Remaining != 5 {
		t.Fatalf("15 minutes after the second failure: %+v", res)
	}
}

func TestLowerCount(t *testing.T) {
	for _, kind := range []leaky.Kind{leaky.Quota, leaky.Lockout} {
		rule := mustRule(t, kind, 5, time.Minute)
		var w leaky.Word
		for range 5 {
			w, _ = rule.Take(w, t0, 1)
		}
		if res := rule.Look(rule.Lower(w, t0, 2), t0, 1); !res.Allowed || res.Remaining != 2 {
			t.Errorf("%s, two given back: %+v", kind, res)
		}
		if got := rule.Lower(w, t0, 5); got != 0 {
			t.Errorf("%s, cleared: word %d", kind, got)
		}
		if got := rule.Lower(w, t0, 0); got != w {
			t.Errorf("%s, none given back: word %d, was %d", kind, got, w)
		}
	}
}

// Words only rise under take, whatever the clock reads, so the maximum of two
// copies is the newer one.
func TestWordsOnlyRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule, window := drawRule(t)
		now := t0
		var word leaky.Word
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.Int64Range(-window, window).Draw(t, "step")
			next, res := rule.Take(word, now, rapid.Int64Range(0, rule.Limit()+1).Draw(t, "cost"))
			if next < word || leaky.Merge(word, next) != next || leaky.Merge(next, word) != next {
				t.Fatalf("take lowered %d to %d", word, next)
			}
			if res.Remaining < 0 || res.Remaining > rule.Limit() || res.RetryAfter < 0 || res.ResetAfter < res.RetryAfter {
				t.Fatalf("%+v", res)
			}
			word = next
		}
	})
}

// A table that drops expired words answers like one that keeps them.
func TestExpiryChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule, window := drawRule(t)
		now := t0
		var kept, dropped leaky.Word
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.Int64Range(0, window+window/2).Draw(t, "step")
			if leaky.Expired(dropped, now) {
				dropped = 0
			}
			cost := rapid.Int64Range(0, rule.Limit()+1).Draw(t, "cost")
			var a, b leaky.Result
			kept, a = rule.Take(kept, now, cost)
			dropped, b = rule.Take(dropped, now, cost)
			if a != b {
				t.Fatalf("kept answers %+v, dropped %+v", a, b)
			}
		}
	})
}

func drawRule(t *rapid.T) (rule leaky.Rule, window int64) {
	kind := rapid.SampledFrom([]leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout}).Draw(t, "kind")
	limit := rapid.Int64Range(1, leaky.MaxCount).Draw(t, "limit")
	window = rapid.Int64Range(int64(leaky.MinWindow), int64(leaky.MaxWindow)).Draw(t, "window")
	return mustRule(t, kind, limit, time.Duration(window)), window
}

// One unit per window, polled at steps that divide it.
func TestBucketOfOneKeepsItsRate(t *testing.T) {
	rule := mustRule(t, leaky.Bucket, 1, 5*time.Second)
	var word leaky.Word
	admitted := 0
	for at := int64(0); at <= 100*second; at += second / 4 {
		var res leaky.Result
		if word, res = rule.Take(word, t0+at, 1); res.Allowed {
			admitted++
		}
	}
	if admitted != 21 {
		t.Fatalf("admitted %d in 100 s, want 21", admitted)
	}
}
