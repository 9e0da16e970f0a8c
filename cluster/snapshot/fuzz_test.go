package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"testing"

	"weir/leaky"
)

const t0 = 1_700_000_000_000_000_000

var testMark = Mark{HashKey: 7, Format: 1, Partitions: 1021}

// encoded returns the bytes of a snapshot of the words, all in partition 3.
func encoded(t testing.TB, list ...leaky.Word) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := write(&b, testMark, Clock{Deciding: t0, Wall: t0}, func(yield func(uint32, Entry) bool) {
		for i, w := range list {
			if !yield(3, Entry{Fingerprint: uint64(i + 1), Word: w}) {
				return
			}
		}
	})
	if err != nil || n != len(list) {
		t.Fatalf("wrote %d of %d words: %v", n, len(list), err)
	}
	return b.Bytes()
}

// read loads from memory and returns what is yielded.
func read(r io.ReaderAt, size int64, now Clock) (got []record, loaded Loaded, err error) {
	f, err := readHead(r, size)
	if err != nil {
		return nil, Loaded{}, err
	}
	if err := f.verify(testMark); err != nil {
		return nil, Loaded{}, err
	}
	loaded, err = f.yield(now, func(partition uint32, fingerprint uint64, word leaky.Word) {
		got = append(got, record{partition, Entry{fingerprint, word}})
	})
	return got, loaded, err
}

// Any bytes, as they are and under a digest that makes them whole, are either
// refused by a sentinel or yield words that can be.
func FuzzLoad(f *testing.F) {
	for _, b := range [][]byte{encoded(f), encoded(f, t0+1), encoded(f, t0+5_000_000_002, t0+2_000_000_000, t0+1)} {
		f.Add(b, int64(t0), int64(t0))
		f.Add(b[:len(b)-sha256.Size], int64(t0), int64(t0))
		f.Add(b[:len(b)-sha256.Size], int64(0), int64(t0+1_000_000_000))
		f.Add(b[:len(b)-sha256.Size], int64(lastClock), int64(0))
	}
	f.Add([]byte(magic), int64(0), int64(0))
	f.Add([]byte{}, int64(-1), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, deciding, wall int64) {
		now := Clock{Deciding: deciding, Wall: wall}
		if now.check() != nil {
			now = Clock{Deciding: deciding & lastClock, Wall: wall & lastClock}
		}
		sum := sha256.Sum256(b)
		for _, b := range [][]byte{b, append(b[:len(b):len(b)], sum[:]...)} {
			got, loaded, err := read(bytes.NewReader(b), int64(len(b)), now)
			if err != nil {
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrForeign) {
					t.Fatalf("no sentinel: %v", err)
				}
				if got != nil {
					t.Fatalf("yielded %v before %v", got, err)
				}
				continue
			}
			if most := (len(b) - 76) / 20; loaded.Words != len(got) || len(got) > most || loaded.Passed < 0 {
				t.Fatalf("%+v, %d words of %d", loaded, len(got), most)
			}
			for _, r := range got {
				rest := int64(r.Word) - now.Deciding
				if r.partition >= testMark.Partitions || r.Fingerprint == 0 || rest <= 0 || rest > furthest+tick {
					t.Fatalf("%+v at %d", r, now.Deciding)
				}
			}
		}
	})
}

// changing is a file whose content is another one from the n-th read on.
type changing struct {
	first, then *bytes.Reader
	left        int
}

func (c *changing) ReadAt(b []byte, offset int64) (int, error) {
	if c.left--; c.left < 0 {
		return c.then.ReadAt(b, offset)
	}
	return c.first.ReadAt(b, offset)
}

// A file that is written to between the two passes is not taken for whole: one
// read each for the head, the digest, and the words of both passes.
func TestFileThatChangesUnderALoad(t *testing.T) {
	before, after := encoded(t, t0+5, t0+7), encoded(t, t0+5, t0+9)
	for reads := 2; reads <= 4; reads++ {
		r := &changing{bytes.NewReader(before), bytes.NewReader(after), reads}
		_, _, err := read(r, int64(len(before)), Clock{Deciding: t0, Wall: t0})
		if want := reads < 4; want != errors.Is(err, ErrDamaged) {
			t.Errorf("changed after %d reads: %v", reads, err)
		}
	}
	// Cut off, or with words that cannot be: nothing is yielded.
	impossible := bytes.Clone(before)
	clear(impossible[headSize : headSize+recordSize])
	for _, then := range [][]byte{before[:headSize+5], impossible} {
		r := &changing{bytes.NewReader(before), bytes.NewReader(then), 3}
		got, _, err := read(r, int64(len(before)), Clock{Deciding: t0, Wall: t0})
		if !errors.Is(err, ErrDamaged) || got != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// One impossible word among several blocks of good ones: wherever it is, none
// is yielded.
func TestNothingIsYieldedBeforeAllIsVerified(t *testing.T) {
	const n = 7_000
	list := make([]leaky.Word, n)
	for i := range list {
		list[i] = t0 + 1
	}
	whole := encoded(t, list...)
	for _, i := range []int{0, 1, n / 2, n - 1} {
		b := bytes.Clone(whole[:len(whole)-sha256.Size])
		clear(b[headSize+i*recordSize+4:][:8]) // its fingerprint
		sum := sha256.Sum256(b)
		b = append(b, sum[:]...)
		got, _, err := read(bytes.NewReader(b), int64(len(b)), Clock{Deciding: t0, Wall: t0})
		if !errors.Is(err, ErrDamaged) || got != nil {
			t.Errorf("word %d: yielded %d words, %v", i, len(got), err)
		}
	}
}

// broken is a disk that cannot be read or written.
type broken struct{}

var errBroken = errors.New("input/output error")

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errBroken }
func (broken) Write([]byte) (int, error)         { return 0, errBroken }

// An error of the disk is not damage, and ends a save at once.
func TestErrorsOfTheDisk(t *testing.T) {
	if _, _, err := read(broken{}, 1000, Clock{}); !errors.Is(err, errBroken) || errors.Is(err, ErrDamaged) {
		t.Errorf("read: %v", err)
	}
	yielded := 0
	_, err := write(broken{}, testMark, Clock{Deciding: t0}, func(yield func(uint32, Entry) bool) {
		for yield(1, Entry{Fingerprint: 1, Word: t0 + 1}) {
			yielded++
		}
	})
	// The first block holds the head of 44 bytes and 3197 words.
	if !errors.Is(err, errBroken) || yielded != 3197 {
		t.Errorf("write: %v after %d words", err, yielded)
	}
}

// Rounding is up for times that have yet to come and for those that have gone.
func TestCeilTick(t *testing.T) {
	for ns, want := range map[int64]int64{
		0: 0, 1: 1000, 999: 1000, 1000: 1000, 1001: 2000,
		-1: 0, -999: 0, -1000: -1000, -1001: -1000, -2000: -2000,
	} {
		if got := ceilTick(ns); got != want {
			t.Errorf("%d: %d, want %d", ns, got, want)
		}
	}
}
