package leaky_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"

	"weir/leaky"
)

type vector struct {
	Name     string `json:"name"`
	Limit    int64  `json:"limit"`
	WindowMS int64  `json:"window_ms"`
	Steps    []struct {
		AtUS         int64 `json:"at_us"`
		Cost         int64 `json:"cost"`
		Allowed      bool  `json:"allowed"`
		Never        bool  `json:"never"`
		Remaining    int64 `json:"remaining"`
		RetryAfterMS int64 `json:"retry_after_ms"`
		ResetAfterMS int64 `json:"reset_after_ms"`
	} `json:"steps"`
}

// Every step of the published vectors, with the bucket started at an instant
// far from zero, as a node's clock is.
func TestVectors(t *testing.T) {
	f, err := os.Open("testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	var cases, steps int
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("line %d: %v", cases+1, err)
		}
		cases++
		rule := mustRule(t, leaky.Bucket, v.Limit, time.Duration(v.WindowMS)*time.Millisecond)
		const start = int64(1_700_000_000_000_000_000)
		var word leaky.Word
		for i, s := range v.Steps {
			steps++
			now := start + s.AtUS*1000
			look := rule.Look(word, now, s.Cost)
			next, got := rule.Take(word, now, s.Cost)
			want := leaky.Result{Allowed: s.Allowed, Never: s.Never, Remaining: s.Remaining,
				RetryAfter: time.Duration(s.RetryAfterMS), ResetAfter: time.Duration(s.ResetAfterMS)}
			rounded := got
			rounded.RetryAfter, rounded.ResetAfter = ceilMS(got.RetryAfter), ceilMS(got.ResetAfter)
			if rounded != want {
				t.Fatalf("%s step %d at %dµs cost %d: got %+v, want (ms) %+v", v.Name, i, s.AtUS, s.Cost, got, want)
			}
			if look.Allowed != got.Allowed || look.Never != got.Never || look.RetryAfter != got.RetryAfter {
				t.Fatalf("%s step %d: look said %+v, take %+v", v.Name, i, look, got)
			}
			if !got.Allowed && next != word {
				t.Fatalf("%s step %d: a refusal wrote %d over %d", v.Name, i, next, word)
			}
			word = next
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if cases != 149 || steps != 5017 {
		t.Fatalf("read %d cases with %d steps, want 149 with 5017", cases, steps)
	}
}

// ceilMS returns whole milliseconds, rounded up.
func ceilMS(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1) / time.Millisecond
}

func mustRule(t interface {
	Helper()
	Fatalf(string, ...any)
}, kind leaky.Kind, limit int64, window time.Duration) leaky.Rule {
	t.Helper()
	r, err := leaky.NewRule(kind, limit, window)
	if err != nil {
		t.Fatalf("NewRule(%s, %d, %s): %v", kind, limit, window, err)
	}
	return r
}
