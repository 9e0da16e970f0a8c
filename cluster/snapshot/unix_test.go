//go:build unix

package snapshot_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"weir/cluster/snapshot"
	"weir/leaky"
)

// Whatever the process grants by default, and whatever the old file granted.
func TestFileIsForItsOwnerOnly(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "words")
	for range 2 {
		save(t, path, words{{7, 8}: leaky.Word(t0 + 9)})
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode(); got != 0o600 {
			t.Errorf("mode %s, want -rw-------", got)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// A pipe that nobody writes to is told of at once, and not replaced.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := load(t, path, saved); !errors.Is(err, snapshot.ErrDamaged) {
		t.Errorf("load: %v", err)
	}
	if _, err := snapshot.Save(path, mark, saved, words{}.all()); err == nil {
		t.Error("saved over a pipe")
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("%v, %v", info, err)
	}
}
