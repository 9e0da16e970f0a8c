package snapshot_test

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/cluster/snapshot"
	"weir/leaky"
)

// The environment of a process that saves until it is killed: where to, and
// whether it halts in the middle of a save.
const (
	endlessPath  = "WEIR_TEST_SAVE_ENDLESSLY"
	endlessHalts = "WEIR_TEST_HALT_IN_SAVE"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(endlessPath); path != "" {
		if err := saveEndlessly(path, os.Getenv(endlessHalts) != ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// generation is what the i-th save of a process holds: several blocks.
func generation(i uint32) words {
	w := words{}
	for f := range uint64(7_000) {
		w[key{i, f + 1}] = leaky.Word(t0 + hour + int64(i))
	}
	return w
}

// saveEndlessly saves generations 1 and 2 in turn. It writes a byte to its
// output after each save and within each. If it halts, that is in the second
// save, with more than a block written.
func saveEndlessly(path string, halts bool) error {
	generations := []words{generation(1), generation(2)}
	for i := 0; ; i++ {
		said := 0
		_, err := snapshot.Save(path, mark, saved, func(yield func(uint32, snapshot.Entry) bool) {
			for partition, entry := range generations[i%2].all() {
				if said++; said == 5_000 {
					fmt.Print("i")
					if halts && i == 1 {
						_, _ = io.Copy(io.Discard, os.Stdin) // until killed
						return
					}
				}
				if !yield(partition, entry) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
		fmt.Print("s")
	}
}

// A process killed at any moment of a save leaves a whole file, the old one if
// the save was not done, and nothing that is in the way of the next save.
func TestKilledWhileSaving(t *testing.T) {
	const kills = 30
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "words")
	zero, one, two := generation(0), generation(1), generation(2)
	for i := range kills {
		save(t, path, zero)
		halts := i%3 == 0
		bytes := 1 + i%4 // inside the first save, after it, inside the second, after that
		env := []string{endlessPath + "=" + path}
		if halts {
			bytes = 3
			env = append(env, endlessHalts+"=1")
		}
		before := len(temporaries(t, dir))
		killAfter(t, self, env, bytes)
		got, loaded, err := load(t, path, saved)
		switch {
		case err != nil:
			t.Fatalf("kill %d: %v", i, err)
		case halts && !maps.Equal(got, one):
			t.Fatalf("kill %d in the second save: %d words are not those of the first", i, loaded.Words)
		case bytes > 1 && maps.Equal(got, zero):
			t.Fatalf("kill %d after a save: it is lost", i)
		case !maps.Equal(got, zero) && !maps.Equal(got, one) && !maps.Equal(got, two):
			t.Fatalf("kill %d: %d words of no generation", i, loaded.Words)
		}
		if left := len(temporaries(t, dir)); halts && left != before+1 {
			t.Fatalf("kill %d was in no save: %d temporary files, %d before", i, left, before)
		}
	}
}

// killAfter starts the program and kills it once it has written so many bytes.
func killAfter(t *testing.T, program string, env []string, bytes int) {
	t.Helper()
	child := exec.Command(program)
	child.Env = append(os.Environ(), env...)
	var complaints strings.Builder
	child.Stderr = &complaints
	input, err := child.StdinPipe() // held open: a child that halts waits for its end
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadFull(output, make([]byte, bytes))
	if killed := child.Process.Kill(); err != nil || killed != nil {
		t.Errorf("read: %v, kill: %v", err, killed)
	}
	_ = child.Wait() // killed, or complained below
	if complaints.Len() > 0 {
		t.Fatal(complaints.String())
	}
}

// temporaries returns the names of the hidden files.
func temporaries(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, ".words.*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}
