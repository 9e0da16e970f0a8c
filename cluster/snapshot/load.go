package snapshot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"weir/leaky"
)

// Load reads the snapshot at path and calls add for every word that is still
// live, moved to the deciding clock at now. It verifies all of the file first
// and calls nothing if that fails; should the file change under its hands after
// that, add has been called when the error comes. It changes no file. Memory
// does not depend on the file.
//
// The error wraps ErrDamaged, ErrVersion or ErrForeign, or that of reading:
// fs.ErrNotExist if there is no file.
func Load(path string, mark Mark, now Clock, add func(partition uint32, fingerprint uint64, word leaky.Word)) (Loaded, error) {
	loaded, err := load(path, mark, now, add)
	if err != nil {
		return Loaded{}, fmt.Errorf("snapshot: load %s: %w", path, err)
	}
	return loaded, nil
}

func load(path string, mark Mark, now Clock, add func(uint32, uint64, leaky.Word)) (Loaded, error) {
	if err := now.check(); err != nil {
		return Loaded{}, err
	}
	// Opening a pipe would wait for a writer.
	info, err := os.Stat(path)
	if err != nil {
		return Loaded{}, err
	}
	if !info.Mode().IsRegular() {
		return Loaded{}, damaged("not a regular file: %s", info.Mode())
	}
	f, err := os.Open(path)
	if err != nil {
		return Loaded{}, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return Loaded{}, err
	}
	file, err := readHead(f, info.Size())
	if err != nil {
		return Loaded{}, err
	}
	if err := file.verify(mark); err != nil {
		return Loaded{}, err
	}
	return file.yield(now, add)
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// file is an open snapshot. Its head and its digest are read once.
type file struct {
	r       io.ReaderAt
	bodyEnd int64
	raw     [headSize]byte
	head    head
	digest  [sha256.Size]byte
}

func readHead(r io.ReaderAt, size int64) (*file, error) {
	if size < int64(headSize+sha256.Size) {
		return nil, damaged("%d bytes", size)
	}
	f := &file{r: r, bodyEnd: size - sha256.Size}
	if err := f.readAt(f.raw[:], 0); err != nil {
		return nil, err
	}
	if string(f.raw[:len(magic)]) != magic {
		return nil, damaged("it is something else")
	}
	if err := f.readAt(f.digest[:], f.bodyEnd); err != nil {
		return nil, err
	}
	f.head = decodeHead(f.raw[:])
	return f, nil
}

// readAt fills b. That the file has become shorter is damage.
func (f *file) readAt(b []byte, offset int64) error {
	n, err := f.r.ReadAt(b, offset)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return damaged("it ends at byte %d", offset+int64(n))
	}
	return err
}

// blocks calls each for all that lies between the head and the digest, cut at
// multiples of recordSize, and compares the digest in the end.
func (f *file) blocks(each func(block []byte) error) error {
	digest := sha256.New()
	digest.Write(f.raw[:])
	buffer := make([]byte, blockSize)
	for offset := int64(headSize); offset < f.bodyEnd; {
		block := buffer[:min(blockSize, f.bodyEnd-offset)]
		if err := f.readAt(block, offset); err != nil {
			return err
		}
		digest.Write(block)
		if err := each(block); err != nil {
			return err
		}
		offset += int64(len(block))
	}
	if [sha256.Size]byte(digest.Sum(nil)) != f.digest {
		return damaged("its digest is not that of its content")
	}
	return nil
}

// verify reads all of the file. What another version or another cluster wrote
// is told as such only if it is whole.
func (f *file) verify(mark Mark) error {
	var fault error
	err := f.blocks(func(block []byte) error {
		if fault == nil {
			fault = f.check(block)
		}
		return nil
	})
	if err != nil {
		return err
	}
	h := f.head
	switch {
	case h.version != version:
		return fmt.Errorf("%w: the file is of version %d, this node reads %d", ErrVersion, h.version, version)
	case h.mark.HashKey != mark.HashKey:
		return fmt.Errorf("%w: its keys are hashed with another hash key", ErrForeign)
	case h.mark.Format != mark.Format:
		return fmt.Errorf("%w: it is of ring format %d, this node has %d", ErrForeign, h.mark.Format, mark.Format)
	case h.mark.Partitions != mark.Partitions:
		return fmt.Errorf("%w: it has %d partitions, this node %d", ErrForeign, h.mark.Partitions, mark.Partitions)
	}
	if err := h.at.check(); err != nil {
		return damaged("%v", err)
	}
	return fault
}

// check returns what no save would have written. The clocks may be out of
// range still.
func (f *file) check(block []byte) error {
	if len(block)%recordSize != 0 {
		return damaged("%d bytes of a word", len(block)%recordSize)
	}
	for ; len(block) > 0; block = block[recordSize:] {
		r := decodeRecord(block)
		if err := r.checkKey(f.head.mark); err != nil {
			return damaged("%v", err)
		}
		if at := f.head.at.Deciding; leaky.Expired(r.Word, at) || int64(r.Word) > at+furthest {
			return damaged("word %d at clock %d", r.Word, at)
		}
	}
	return nil
}

// yield reads a verified file once more, and each block is checked again.
func (f *file) yield(now Clock, add func(uint32, uint64, leaky.Word)) (Loaded, error) {
	at := f.head.at
	passed := max(0, now.Wall-at.Wall)
	gone := at.Deciding + passed // the deciding clock at saving, were it running still
	shift := ceilTick(now.Deciding - gone)
	loaded := Loaded{Saved: time.Unix(0, at.Wall), Passed: time.Duration(passed)}
	err := f.blocks(func(block []byte) error {
		if err := f.check(block); err != nil {
			return err
		}
		for ; len(block) > 0; block = block[recordSize:] {
			if r := decodeRecord(block); !leaky.Expired(r.Word, gone) {
				add(r.partition, r.Fingerprint, r.Word+leaky.Word(shift))
				loaded.Words++
			}
		}
		return nil
	})
	return loaded, err
}

// ceilTick rounds up to whole ticks, negative lengths too.
func ceilTick(ns int64) int64 {
	if ns > 0 {
		ns += tick - 1
	}
	return ns / tick * tick
}
