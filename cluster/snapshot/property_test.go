package snapshot_test

import (
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/cluster/snapshot"
	"weir/leaky"
)

// Whatever was taken before the save, and however the clocks stand at the load,
// the loaded bucket never admits more than the one that had gone on, and never
// holds for more than a microsecond longer.
func TestLoadIsNeverMorePermissive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout}).Draw(t, "kind")
		limit := rapid.Int64Range(1, leaky.MaxCount).Draw(t, "limit")
		window := rapid.OneOf(
			rapid.Int64Range(int64(leaky.MinWindow), 2*int64(leaky.MinWindow)),
			rapid.Int64Range(int64(leaky.MinWindow), int64(leaky.MaxWindow)),
			rapid.Just(int64(leaky.MaxWindow)),
		).Draw(t, "window")
		rule, err := leaky.NewRule(kind, limit, time.Duration(window))
		if err != nil {
			t.Fatal(err)
		}
		instant := rapid.Int64Range(0, 2*t0)
		at := clock(instant.Draw(t, "deciding"), instant.Draw(t, "wall"))
		word := leaky.Word(0)
		for now := at.Deciding; ; {
			word, _ = rule.Take(word, now, rapid.Int64Range(1, limit).Draw(t, "cost"))
			if now = now - rapid.Int64Range(0, window/2).Draw(t, "earlier"); now < 0 || rapid.Bool().Draw(t, "enough") {
				break
			}
		}
		n, err := snapshot.Save(path, mark, at, entries(5, snapshot.Entry{Fingerprint: 6, Word: word}))
		if err != nil || n != 1 {
			t.Fatalf("saved %d: %v", n, err)
		}

		// Around the word's end, or anywhere in the window, or before the save.
		passed := rapid.OneOf(
			rapid.Int64Range(0, 3000),
			rapid.Int64Range(0, window),
			rapid.Map(rapid.Int64Range(-3000, 3000), func(d int64) int64 { return int64(word) - at.Deciding + d }),
			rapid.Int64Range(-at.Wall, 0),
		).Draw(t, "passed")
		now := clock(instant.Draw(t, "deciding now"), max(0, at.Wall+passed))
		passed = max(0, now.Wall-at.Wall)
		if rapid.Bool().Draw(t, "same clock") {
			now.Deciding = at.Deciding + passed
		}
		back := leaky.Word(0)
		loaded, err := snapshot.Load(path, mark, now, func(_ uint32, _ uint64, w leaky.Word) { back = w })
		if err != nil || int64(loaded.Passed) != passed {
			t.Fatalf("%v, passed %d, want %d", err, loaded.Passed, passed)
		}
		if lives := int64(word) > at.Deciding+passed; lives != (loaded.Words == 1) || lives == leaky.Expired(back, now.Deciding) {
			t.Fatalf("lives: %t, but %d words with %d at %d", lives, loaded.Words, back, now.Deciding)
		}
		if now.Deciding == at.Deciding+passed && back != 0 && back != word {
			t.Fatalf("%d came back as %d, though nothing was to be moved", word, back)
		}

		for range 4 {
			later := rapid.OneOf(rapid.Int64Range(0, 3000), rapid.Int64Range(0, window)).Draw(t, "later")
			cost := rapid.Int64Range(0, limit).Draw(t, "asked")
			want := rule.Look(word, at.Deciding+passed+later, cost)
			got := rule.Look(back, now.Deciding+later, cost)
			if got.Allowed && !want.Allowed || got.Remaining > want.Remaining ||
				got.ResetAfter < want.ResetAfter || got.ResetAfter > want.ResetAfter+time.Microsecond ||
				!got.Allowed && got.RetryAfter < want.RetryAfter {
				t.Fatalf("%s: %+v where the bucket that went on says %+v", kind, got, want)
			}
		}
	})
}
