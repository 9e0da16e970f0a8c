package snapshot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/leaky"
)

// Temporary files are named .NAME.DIGITS.tmp beside the file they become. One
// that nobody has written to for abandoned is of a process that died.
const (
	temporarySuffix = ".tmp"
	abandoned       = time.Hour
)

// Save writes the words that are live at the deciding clock to path and returns
// how many those are. What was at path stays until all of the new file is on
// disk; after an error it is still there, unless the error is that the
// directory could not be synced after the rename. The file is for its owner
// only.
//
// The words, by partition, may come in any order. They are pulled while the
// file is written: a lock that the sequence holds is held over disk writes. One
// that lies further ahead than any rule could have put it is of a clock that is
// ahead, and is written as at most an hour over leaky.MaxWindow from now.
func Save(path string, mark Mark, at Clock, words iter.Seq2[uint32, Entry]) (n int, err error) {
	n, err = save(path, mark, at, words)
	if err != nil {
		return 0, fmt.Errorf("snapshot: save %s: %w", path, err)
	}
	return n, nil
}

func save(path string, mark Mark, at Clock, words iter.Seq2[uint32, Entry]) (n int, err error) {
	if err := at.check(); err != nil {
		return 0, err
	}
	// A rename would replace a device, and its error for a directory is obscure.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return 0, fmt.Errorf("not a regular file: %s", info.Mode())
	}
	dir, name := filepath.Dir(path), filepath.Base(path)
	removeAbandoned(dir, name)
	f, err := os.CreateTemp(dir, temporaryPrefix(name)+"*"+temporarySuffix) // mode 0600
	if err != nil {
		return 0, err
	}
	renamed := false
	defer func() { // also if the sequence panics
		if !renamed {
			_ = f.Close()
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	n, err = write(f, mark, at, words)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return 0, err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return 0, err
	}
	renamed = true
	return n, syncDirectory(dir)
}

// write writes all of a snapshot.
func write(w io.Writer, mark Mark, at Clock, words iter.Seq2[uint32, Entry]) (n int, err error) {
	digest := sha256.New()
	both := io.MultiWriter(w, digest)
	block := make([]byte, 0, blockSize)
	block = head{version, mark, at}.append(block)
	for partition, entry := range words {
		r := record{partition, entry}
		if err := r.checkKey(mark); err != nil {
			return 0, err
		}
		if leaky.Expired(r.Word, at.Deciding) {
			continue
		}
		r.Word = capped(r.Word, at.Deciding)
		if len(block)+recordSize > blockSize {
			if _, err := both.Write(block); err != nil {
				return 0, err
			}
			block = block[:0]
		}
		block = r.append(block)
		n++
	}
	if _, err := both.Write(block); err != nil {
		return 0, err
	}
	if _, err := w.Write(digest.Sum(nil)); err != nil {
		return 0, err
	}
	return n, nil
}

// capped returns the word, or the furthest one that has the same count.
func capped(w leaky.Word, now int64) leaky.Word {
	last := now + furthest
	if int64(w) <= last {
		return w
	}
	return leaky.Word((last/tick-1)*tick + int64(w)%tick)
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	return err
}

func temporaryPrefix(name string) string { return "." + name + "." }

// removeAbandoned removes what saves of the same file left behind when their
// process died. It spares young ones, since another save may be writing them.
// Whatever cannot be removed is in nobody's way.
func removeAbandoned(dir, name string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !isTemporary(e, name) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

func isTemporary(e fs.DirEntry, name string) bool {
	rest, ok := strings.CutPrefix(e.Name(), temporaryPrefix(name))
	digits, ends := strings.CutSuffix(rest, temporarySuffix)
	return ok && ends && e.Type().IsRegular() && digits != "" && strings.Trim(digits, "0123456789") == ""
}
