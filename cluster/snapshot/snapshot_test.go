package snapshot_test

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/cluster/snapshot"
	"weir/leaky"
)

const (
	t0     = 1_700_000_000 * second // the deciding clock at saving
	w0     = 1_600_000_000 * second // the wall clock at saving
	second = int64(time.Second)
	hour   = int64(time.Hour)
)

var (
	mark  = snapshot.Mark{HashKey: 0x0102030405060708, Format: 1, Partitions: 1021}
	saved = snapshot.Clock{Deciding: t0, Wall: w0}
)

func clock(deciding, wall int64) snapshot.Clock {
	return snapshot.Clock{Deciding: deciding, Wall: wall}
}

// key is where a word belongs.
type key struct {
	partition   uint32
	fingerprint uint64
}

type words map[key]leaky.Word

func (w words) all() iter.Seq2[uint32, snapshot.Entry] {
	return func(yield func(uint32, snapshot.Entry) bool) {
		for k, word := range w {
			if !yield(k.partition, snapshot.Entry{Fingerprint: k.fingerprint, Word: word}) {
				return
			}
		}
	}
}

func save(t testing.TB, path string, w words) {
	t.Helper()
	n, err := snapshot.Save(path, mark, saved, w.all())
	if err != nil || n != len(w) {
		t.Fatalf("saved %d of %d words: %v", n, len(w), err)
	}
}

// load returns what a load yields, and fails if a key is yielded twice.
func load(t testing.TB, path string, now snapshot.Clock) (words, snapshot.Loaded, error) {
	t.Helper()
	got := words{}
	loaded, err := snapshot.Load(path, mark, now, func(partition uint32, fingerprint uint64, word leaky.Word) {
		if _, twice := got[key{partition, fingerprint}]; twice {
			t.Errorf("partition %d, fingerprint %x: yielded twice", partition, fingerprint)
		}
		got[key{partition, fingerprint}] = word
	})
	return got, loaded, err
}

func mustLoad(t testing.TB, path string, now snapshot.Clock) (words, snapshot.Loaded) {
	t.Helper()
	got, loaded, err := load(t, path, now)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Words != len(got) {
		t.Errorf("says %d words, yielded %d", loaded.Words, len(got))
	}
	return got, loaded
}

func mustRule(t testing.TB, kind leaky.Kind, limit int64, window time.Duration) leaky.Rule {
	t.Helper()
	r, err := leaky.NewRule(kind, limit, window)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Ensure that later versions of the program read what this one has written.
func TestBytesOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	save(t, path, words{{1020, 0xfffefdfcfbfaf9f8}: leaky.Word(t0 + 1)})
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.ReplaceAll("77656972736e6170 00000001"+ // weirsnap, version
		"00000001 000003fd 0102030405060708"+ // format, partitions, hash key
		"17979cfe362a0000 16345785d8a00000"+ // clocks
		"000003fc fffefdfcfbfaf9f8 17979cfe362a0001", " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(want)
	if want = append(want, sum[:]...); string(got) != string(want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

// Each kind after two of five in five seconds, by the clocks of three starts:
// the one that goes on, one of another epoch, and one that is no whole number
// of microseconds away.
func TestWordsOfAllKinds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	held := words{}
	for i, kind := range []leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout} {
		held[key{uint32(i), uint64(i + 1)}], _ = mustRule(t, kind, 5, 5*time.Second).Take(0, t0, 2)
	}
	save(t, path, held)
	for _, c := range []struct {
		name   string
		now    snapshot.Clock
		passed time.Duration
		bucket int64 // 2 s after saving; 0 if gone
		counts int64 // 5 s after saving, and the count
	}{
		{"at once", clock(t0, w0), 0, t0 + 2*second, t0 + 5*second + 2},
		{"the clock goes on", clock(t0+second, w0+second), time.Second, t0 + 2*second, t0 + 5*second + 2},
		{"another epoch", clock(7*second, w0+second), time.Second, 8 * second, 11*second + 2},
		{"from zero", clock(0, w0), 0, 2 * second, 5*second + 2},
		{"wall set back", clock(t0+9*second, w0-hour), 0, t0 + 11*second, t0 + 14*second + 2},
		{"wall set back to zero", clock(t0, 0), 0, t0 + 2*second, t0 + 5*second + 2},
		{"a nanosecond behind", clock(t0, w0+1), 1, t0 + 2*second, t0 + 5*second + 2},
		{"a microsecond behind", clock(t0, w0+1000), 1000, t0 + 2*second - 1000, t0 + 5*second - 1000 + 2},
		{"a nanosecond ahead", clock(t0+1, w0), 0, t0 + 2*second + 1000, t0 + 5*second + 1000 + 2},
		{"1001 ns ahead", clock(t0+1001, w0), 0, t0 + 2*second + 2000, t0 + 5*second + 2000 + 2},
		{"1001 ns behind", clock(t0, w0+1001), 1001, t0 + 2*second - 1000, t0 + 5*second - 1000 + 2},
		{"the bucket's last nanosecond", clock(t0, w0+2*second-1), 2*time.Second - 1, t0 + 1000, t0 + 3*second + 1000 + 2},
		{"the bucket is empty", clock(t0, w0+2*second), 2 * time.Second, 0, t0 + 3*second + 2},
		{"the counts' last nanosecond", clock(t0, w0+5*second+1), 5*time.Second + 1, 0, t0 + 2},
		{"all is gone", clock(t0, w0+5*second+2), 5*time.Second + 2, 0, 0},
		{"years later", clock(1<<62-1, 1<<62-1), 1<<62 - 1 - time.Duration(w0), 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := words{}
			if c.bucket != 0 {
				want[key{0, 1}] = leaky.Word(c.bucket)
			}
			if c.counts != 0 {
				want[key{1, 2}], want[key{2, 3}] = leaky.Word(c.counts), leaky.Word(c.counts)
			}
			got, loaded := mustLoad(t, path, c.now)
			if !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if loaded.Passed != c.passed || loaded.Saved.UnixNano() != w0 {
				t.Errorf("saved %d, passed %d, want %d and %d", loaded.Saved.UnixNano(), loaded.Passed, w0, c.passed)
			}
		})
	}
}

// The answers after a restart are those that the node would have given.
func TestAnswersAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	for _, c := range []struct {
		kind leaky.Kind
		want leaky.Result // 20 s into a window of 60 s of which all three are spent
	}{
		{leaky.Bucket, leaky.Result{Allowed: true, ResetAfter: 60 * time.Second}},
		{leaky.Quota, leaky.Result{RetryAfter: 40 * time.Second, ResetAfter: 40 * time.Second}},
		{leaky.Lockout, leaky.Result{RetryAfter: 60 * time.Second, ResetAfter: 60 * time.Second}},
	} {
		r := mustRule(t, c.kind, 3, time.Minute)
		word, _ := r.Take(0, t0, 3)
		save(t, path, words{{4, 5}: word})
		got, _ := mustLoad(t, path, clock(3*hour, w0+20*second))
		_, res := r.Take(got[key{4, 5}], 3*hour, 1)
		if res != c.want {
			t.Errorf("%s: %+v, want %+v", c.kind, res, c.want)
		}
	}
}

func TestEmptySnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	save(t, path, nil)
	got, loaded := mustLoad(t, path, clock(t0, w0+second))
	want := snapshot.Loaded{Saved: time.Unix(1_600_000_000, 0), Passed: time.Second}
	if len(got) != 0 || loaded != want {
		t.Errorf("%v, %+v, want none and %+v", got, loaded, want)
	}
}

// What has ended is not written, and what no rule could have made is written
// as the furthest that can be read back, with its count.
func TestSaveOfEndedAndOfImpossibleWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	year := int64(leaky.MaxWindow)
	held := words{
		{1, 1}: math.MinInt64, {1, 2}: 0, {1, 3}: leaky.Word(t0),
		{2, 1}: leaky.Word(t0 + 1),
		{2, 2}: leaky.Word(t0 + year + 1999),
		{2, 3}: leaky.Word(t0 + year + hour),
		{3, 1}: leaky.Word(t0 + year + hour + 1),
		{3, 2}: leaky.Word(t0 + 2*year + 999),
		{3, 3}: math.MaxInt64, // …807
	}
	n, err := snapshot.Save(path, mark, saved, held.all())
	if err != nil || n != 6 {
		t.Fatalf("saved %d, %v, want 6", n, err)
	}
	want := words{
		{2, 1}: leaky.Word(t0 + 1),
		{2, 2}: leaky.Word(t0 + year + 1999),
		{2, 3}: leaky.Word(t0 + year + hour),
		{3, 1}: leaky.Word(t0 + year + hour - 1000 + 1),
		{3, 2}: leaky.Word(t0 + year + hour - 1000 + 999),
		{3, 3}: leaky.Word(t0 + year + hour - 1000 + 807),
	}
	if got, _ := mustLoad(t, path, saved); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A hundred thousand words come back bit for bit, each once, in memory that has
// nothing to do with their number.
func TestManyWords(t *testing.T) {
	const n = 100_000
	path := filepath.Join(t.TempDir(), "words")
	held := make(words, n)
	for i := range uint64(n) {
		held[key{uint32(i % 1021), i*0x9e3779b97f4a7c15 + 1}] = leaky.Word(t0 + 1 + int64(i)*7919)
	}
	if len(held) != n {
		t.Fatalf("%d distinct keys", len(held))
	}
	save(t, path, held)
	if got, _ := mustLoad(t, path, saved); !maps.Equal(got, held) {
		t.Error("the words differ")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := snapshot.Load(path, mark, saved, func(uint32, uint64, leaky.Word) {}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("a load allocated %d bytes", got)
	}
}

// A load reads, and may so be done again.
func TestLoadLeavesTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "words")
	save(t, path, words{{1, 2}: leaky.Word(t0 + hour)})
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		mustLoad(t, path, saved)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file has changed: %v", err)
	}
	wantFiles(t, dir, "words")
}

// wantFiles compares the names of all that is in a directory.
func wantFiles(t testing.TB, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the directory holds %q, want %q", got, want)
	}
}
