package snapshot_test

import (
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cluster/snapshot"
	"weir/leaky"
)

// entries is a sequence of words in one partition, in order.
func entries(partition uint32, list ...snapshot.Entry) iter.Seq2[uint32, snapshot.Entry] {
	return func(yield func(uint32, snapshot.Entry) bool) {
		for _, e := range list {
			if !yield(partition, e) {
				return
			}
		}
	}
}

// A save that fails says where and why, leaves nothing behind, and leaves what
// was there.
func TestFailedSaves(t *testing.T) {
	good := snapshot.Entry{Fingerprint: 1, Word: leaky.Word(t0 + hour)}
	for _, c := range []struct {
		name   string
		path   string // in the directory
		at     snapshot.Clock
		words  iter.Seq2[uint32, snapshot.Entry]
		reason string
	}{
		{"no directory", "none/words", saved, entries(1, good), "no such file or directory"},
		{"no directory, no name", "none/", saved, entries(1, good), "no such file or directory"},
		{"below a file", "old/words", saved, entries(1, good), "not a directory"},
		{"a directory", "taken", saved, entries(1, good), "not a regular file: drwx"},
		{"a name too long", strings.Repeat("n", 256), saved, entries(1, good), "file name too long"},
		{"fingerprint", "old", saved, entries(3, good, snapshot.Entry{Word: leaky.Word(t0 + 1)}), "a fingerprint of 0 in partition 3"},
		{"partition", "old", saved, entries(1021, good), "partition 1021 is not below 1021"},
		{"deciding clock", "old", clock(-1, w0), entries(1, good), "clock out of range: deciding -1, wall 1600000000000000000"},
		{"wall clock", "old", clock(t0, 1<<62), entries(1, good), "clock out of range: deciding 1700000000000000000, wall 4611686018427387904"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			old := words{{7, 8}: leaky.Word(t0 + 9)}
			save(t, filepath.Join(dir, "old"), old)
			if err := os.Mkdir(filepath.Join(dir, "taken"), 0o755); err != nil {
				t.Fatal(err)
			}
			path := dir + "/" + c.path
			n, err := snapshot.Save(path, mark, c.at, c.words)
			if err == nil || n != 0 {
				t.Fatalf("saved %d words, %v", n, err)
			}
			if !strings.HasPrefix(err.Error(), "snapshot: save "+path+": ") || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%q does not say %q", err, c.reason)
			}
			wantFiles(t, dir, "old", "taken")
			wantFiles(t, filepath.Join(dir, "taken"))
			if got, _ := mustLoad(t, filepath.Join(dir, "old"), saved); !maps.Equal(got, old) {
				t.Errorf("the old file holds %v, want %v", got, old)
			}
		})
	}
}

// A sequence that panics leaves nothing behind either.
func TestSaveOfASequenceThatPanics(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "words")
	old := words{{7, 8}: leaky.Word(t0 + 9)}
	save(t, path, old)
	func() {
		defer func() {
			if got := recover(); got != "broken" {
				t.Errorf("recovered %v", got)
			}
		}()
		_, _ = snapshot.Save(path, mark, saved, func(yield func(uint32, snapshot.Entry) bool) {
			yield(1, snapshot.Entry{Fingerprint: 1, Word: leaky.Word(t0 + 1)})
			panic("broken")
		})
	}()
	wantFiles(t, dir, "words")
	if got, _ := mustLoad(t, path, saved); !maps.Equal(got, old) {
		t.Errorf("the file holds %v, want %v", got, old)
	}
}

// While a save runs, the old words are what a load finds.
func TestOldFileStaysUntilTheSaveIsDone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	old := words{{7, 8}: leaky.Word(t0 + 9)}
	save(t, path, old)
	_, err := snapshot.Save(path, mark, saved, func(yield func(uint32, snapshot.Entry) bool) {
		for i := range uint64(10_000) { // several blocks
			if !yield(1, snapshot.Entry{Fingerprint: i + 1, Word: leaky.Word(t0 + hour)}) {
				return
			}
		}
		if got, _ := mustLoad(t, path, saved); !maps.Equal(got, old) {
			t.Errorf("the file holds %v, want %v", got, old)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := mustLoad(t, path, saved); len(got) != 10_000 {
		t.Errorf("%d words, want 10000", len(got))
	}
}

// Only what an earlier save of the same file left behind long ago is removed.
func TestAbandonedTemporaryFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{
		".words.123.tmp":      2 * time.Hour, // the only one to go
		".words.4294967295":   2 * time.Hour,
		".words..tmp":         2 * time.Hour,
		".words.12x.tmp":      2 * time.Hour,
		".words.other.12.tmp": 2 * time.Hour,
		".words.124.tmp":      time.Minute,
		".word.123.tmp":       2 * time.Hour,
		"words.123.tmp":       2 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("weirsnap"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	old := filepath.Join(dir, ".words.5.tmp")
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, now.Add(-2*time.Hour), now.Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(dir, "words"), words{{7, 8}: leaky.Word(t0 + 9)})
	wantFiles(t, dir, ".word.123.tmp", ".words..tmp", ".words.124.tmp", ".words.12x.tmp",
		".words.4294967295", ".words.5.tmp", ".words.other.12.tmp", "words", "words.123.tmp")
}

// A name with a star in it is a name like any other.
func TestNameWithAStar(t *testing.T) {
	dir := t.TempDir()
	save(t, filepath.Join(dir, "a*b"), words{{7, 8}: leaky.Word(t0 + 9)})
	wantFiles(t, dir, "a*b")
}

// Who saves over a link replaces the link, not what it names.
func TestSaveOverALink(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "words"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	save(t, path, words{{7, 8}: leaky.Word(t0 + 9)})
	if got, err := os.ReadFile(other); err != nil || string(got) != "precious" {
		t.Errorf("the linked file holds %q, %v", got, err)
	}
	if got, _ := mustLoad(t, path, saved); len(got) != 1 {
		t.Errorf("%d words, want 1", len(got))
	}
}

// Two saves at once: one of them comes last, and is whole.
func TestConcurrentSaves(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "words")
	one, two := words{}, words{}
	for i := range uint64(5_000) {
		one[key{1, i + 1}] = leaky.Word(t0 + hour)
		two[key{2, i + 1}] = leaky.Word(t0 + 2*hour)
	}
	failed := make(chan error)
	for _, w := range []words{one, two} {
		go func() {
			var err error
			for range 20 {
				_, again := snapshot.Save(path, mark, saved, w.all())
				err = errors.Join(err, again)
			}
			failed <- err
		}()
	}
	if err := errors.Join(<-failed, <-failed); err != nil {
		t.Fatal(err)
	}
	if got, _ := mustLoad(t, path, saved); !maps.Equal(got, one) && !maps.Equal(got, two) {
		t.Errorf("%d words of neither", len(got))
	}
	wantFiles(t, dir, "words")
}

func TestLoadOfNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	got, loaded, err := load(t, path, saved)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if errors.Is(err, snapshot.ErrDamaged) || len(got) != 0 || loaded != (snapshot.Loaded{}) {
		t.Errorf("%v, %+v, %v", got, loaded, err)
	}
}
