package snapshot_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cluster/snapshot"
	"weir/leaky"
)

// small returns the bytes of a snapshot of three words.
func small(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small")
	save(t, path, words{
		{0, 1}:     leaky.Word(t0 + 1),
		{1020, 2}:  leaky.Word(t0 + hour + 5),
		{17, 1e15}: leaky.Word(t0 + int64(leaky.MaxWindow)),
	})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != 44+3*20+32 {
		t.Fatalf("%d bytes, want 136", len(b))
	}
	return b
}

// sealed returns b with the digest that makes it whole.
func sealed(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b[:len(b):len(b)], sum[:]...)
}

// wantRefused loads b from a file: nothing may be yielded, and the error must
// wrap want, say reason and name the path.
func wantRefused(t *testing.T, path string, b []byte, m snapshot.Mark, want error, reason string) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := snapshot.Load(path, m, saved, func(partition uint32, fingerprint uint64, word leaky.Word) {
		t.Errorf("yielded %d, %x, %d", partition, fingerprint, word)
	})
	if !errors.Is(err, want) || loaded != (snapshot.Loaded{}) {
		t.Fatalf("%+v, %v, want %v", loaded, err, want)
	}
	if !strings.HasPrefix(err.Error(), "snapshot: load "+path+": ") || !strings.Contains(err.Error(), reason) {
		t.Fatalf("%q does not say %q", err, reason)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(b) {
		t.Fatalf("the file has changed: %v", err)
	}
}

func TestTruncatedAnywhere(t *testing.T) {
	whole, path := small(t), filepath.Join(t.TempDir(), "words")
	for n := range len(whole) {
		wantRefused(t, path, whole[:n], mark, snapshot.ErrDamaged, "")
	}
}

func TestAnyBitFlipped(t *testing.T) {
	whole, path := small(t), filepath.Join(t.TempDir(), "words")
	for i := range len(whole) * 8 {
		b := append([]byte(nil), whole...)
		b[i/8] ^= 1 << (i % 8)
		wantRefused(t, path, b, mark, snapshot.ErrDamaged, "")
	}
}

func TestTrailingBytes(t *testing.T) {
	whole, path := small(t), filepath.Join(t.TempDir(), "words")
	for _, more := range [][]byte{{0}, whole[44:64], whole[len(whole)-32:], whole} {
		wantRefused(t, path, append(whole[:len(whole):len(whole)], more...), mark, snapshot.ErrDamaged, "")
	}
}

func TestSomethingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	wantRefused(t, path, nil, mark, snapshot.ErrDamaged, "0 bytes")
	wantRefused(t, path, []byte("weirsnap"), mark, snapshot.ErrDamaged, "8 bytes")
	wantRefused(t, path, make([]byte, 1000), mark, snapshot.ErrDamaged, "it is something else")
	wantRefused(t, path, sealed([]byte(strings.Repeat("weirsnop", 20))), mark, snapshot.ErrDamaged, "it is something else")
	if _, err := snapshot.Load(filepath.Dir(path), mark, saved, nil); !errors.Is(err, snapshot.ErrDamaged) {
		t.Errorf("a directory: %v", err)
	}
}

func TestOfAnotherVersion(t *testing.T) {
	whole, path := small(t), filepath.Join(t.TempDir(), "words")
	for _, c := range []struct {
		version uint32
		reason  string
	}{
		{0, "the file is of version 0, this node reads 1"},
		{2, "the file is of version 2, this node reads 1"},
		{1 << 31, "the file is of version 2147483648, this node reads 1"},
	} {
		b := append([]byte(nil), whole[:len(whole)-32]...)
		binary.BigEndian.PutUint32(b[8:], c.version)
		wantRefused(t, path, sealed(b), mark, snapshot.ErrVersion, c.reason)
		// What follows the number may be anything in another version.
		wantRefused(t, path, sealed(append(b, "more"...)), mark, snapshot.ErrVersion, c.reason)
		// A damaged file says nothing of its version.
		wantRefused(t, path, append(b, whole[len(whole)-32:]...), mark, snapshot.ErrDamaged, "digest")
	}
}

func TestOfAnotherCluster(t *testing.T) {
	whole, path := small(t), filepath.Join(t.TempDir(), "words")
	key, format, partitions := mark, mark, mark
	key.HashKey, format.Format, partitions.Partitions = 9, 2, 1022
	wantRefused(t, path, whole, key, snapshot.ErrForeign, "another hash key")
	wantRefused(t, path, whole, format, snapshot.ErrForeign, "it is of ring format 1, this node has 2")
	wantRefused(t, path, whole, partitions, snapshot.ErrForeign, "it has 1021 partitions, this node 1022")
	flipped := append([]byte(nil), whole...)
	flipped[70] ^= 1
	wantRefused(t, path, flipped, key, snapshot.ErrDamaged, "digest")
}

// A valid digest does not make words of what none can be.
func TestWholeButImpossible(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	for _, c := range []struct {
		name   string
		offset int
		value  uint64
		reason string
	}{
		{"partition", 44 + 20, 1021 << 32, "partition 1021 is not below 1021"},
		{"fingerprint", 44 + 24, 0, "a fingerprint of 0 in partition"},
		{"word of zero", 44 + 32, 0, "word 0 at clock 1700000000000000000"},
		{"negative word", 44 + 32, 1 << 63, "word -9223372036854775808 at clock"},
		{"ended word", 44 + 32, uint64(t0), "word 1700000000000000000 at clock 1700000000000000000"},
		{"word too far", 44 + 32, uint64(t0 + int64(leaky.MaxWindow) + hour + 1), "word 1731626000000000001 at clock"},
		{"furthest word", 44 + 32, 1<<63 - 1, "word 9223372036854775807 at clock"},
		{"deciding clock", 28, 1 << 63, "clock out of range: deciding -9223372036854775808"},
		{"deciding clock too late", 28, 1 << 62, "clock out of range: deciding 4611686018427387904"},
		{"wall clock", 36, 1<<64 - 1, "clock out of range: deciding 1700000000000000000, wall -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole := small(t)
			b := whole[:len(whole)-32]
			binary.BigEndian.PutUint64(b[c.offset:], c.value)
			wantRefused(t, path, sealed(b), mark, snapshot.ErrDamaged, c.reason)
		})
	}
	whole := small(t)
	wantRefused(t, path, sealed(whole[:len(whole)-33]), mark, snapshot.ErrDamaged, "19 bytes of a word")
}

// The clocks of the caller are looked at before the file is.
func TestLoadAtNoTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	save(t, path, words{{7, 8}: leaky.Word(t0 + 9)})
	for _, now := range []snapshot.Clock{clock(-1, w0), clock(1<<62, w0), clock(t0, -1), clock(t0, 1<<62)} {
		got, loaded, err := load(t, path, now)
		if err == nil || errors.Is(err, snapshot.ErrDamaged) || !strings.Contains(err.Error(), "clock out of range") {
			t.Errorf("%+v: %v", now, err)
		}
		if len(got) != 0 || loaded != (snapshot.Loaded{}) {
			t.Errorf("%+v: %v, %+v", now, got, loaded)
		}
	}
}
