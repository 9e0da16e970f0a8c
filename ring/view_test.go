package ring_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dchest/siphash"
	"pgregory.net/rapid"

	"weir/ring"
)

func active(names ...string) []ring.Member {
	out := make([]ring.Member, len(names))
	for i, name := range names {
		out[i] = ring.Member{Name: name, Boot: 1, State: ring.Active}
	}
	return out
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("10.0.%d.%d:7946", i/250, i%250+1)
	}
	return out
}

// holders returns the names of the owner and the backup of every partition.
func holders(v *ring.View) (out [ring.Partitions][2]string) {
	for p := range uint32(ring.Partitions) {
		if i, ok := v.Owner(p); ok {
			out[p][0] = v.Members()[i].Name
		}
		if i, ok := v.Backup(p); ok {
			out[p][1] = v.Members()[i].Name
		}
	}
	return out
}

// Members come and go in any order: never a panic, the same owners and backups
// whichever way led there, and no member above the bounded load.
func TestViewDependsOnTheMembersAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := names(12)
		in := map[string]bool{pool[0]: true}
		for range rapid.IntRange(1, 2).Draw(t, "changes") {
			for range rapid.IntRange(1, 8).Draw(t, "joins") {
				in[rapid.SampledFrom(pool).Draw(t, "join")] = true
			}
			for range rapid.IntRange(0, 6).Draw(t, "leaves") {
				if name := rapid.SampledFrom(pool).Draw(t, "leave"); len(in) > 1 {
					delete(in, name)
				}
			}
			var members []string
			for name := range in { // in the map's order: any
				members = append(members, name)
			}
			v := ring.NewView(active(members...))
			slices.Sort(members)
			other := append(active(members...), ring.Member{Name: "x", State: ring.Joining},
				ring.Member{Name: "y", State: ring.Leaving}, ring.Member{Name: "z", State: ring.Failed}, active(members[0])[0])
			w := ring.NewView(other)
			if holders(v) != holders(w) || v.Epoch() != w.Epoch() {
				t.Fatalf("%d members: two orders, two views", len(members))
			}
			checkLoad(t, v, len(members))
		}
	})
}

func checkLoad(t interface{ Fatalf(string, ...any) }, v *ring.View, n int) {
	most := int(math.Ceil(1.25 * ring.Partitions / float64(n)))
	total := 0
	for _, m := range v.Members() {
		owned := v.Owned(m.Name)
		total += owned
		if owned > most || owned > 0 && m.State != ring.Active {
			t.Fatalf("of %d members, %s (%s) owns %d partitions, at most %d", n, m.Name, m.State, owned, most)
		}
	}
	if total != ring.Partitions {
		t.Fatalf("%d partitions are owned", total)
	}
}

// One to 128 members, joining one after another and leaving in another order.
func TestOneToManyMembers(t *testing.T) {
	all := names(128)
	at := map[int][ring.Partitions][2]string{}
	sizes := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 21, 32, 43, 64, 85, 107, 127, 128}
	for _, n := range sizes {
		v := ring.NewView(active(all[:n]...))
		checkLoad(t, v, n)
		at[n] = holders(v)
	}
	for _, n := range slices.Backward(sizes) {
		if n > 64 {
			continue // slow under the race detector, and nothing new
		}
		shuffled := slices.Clone(all[:n])
		rand.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if holders(ring.NewView(active(shuffled...))) != at[n] {
			t.Fatalf("%d members: another view on the way back", n)
		}
	}
}

// A partition's backup is who would own it if its owner were gone.
func TestBackupIsTheNextOwner(t *testing.T) {
	for _, n := range []int{2, 3, 5, 8, 16} {
		all := names(n)
		v := holders(ring.NewView(active(all...)))
		for i, gone := range all {
			rest := slices.Delete(slices.Clone(all), i, i+1)
			after := holders(ring.NewView(active(rest...)))
			for p := range v {
				if v[p][0] == gone && v[p][1] != after[p][0] {
					t.Fatalf("%d members: %s is gone, partition %d goes to %s, its backup is %s", n, gone, p, after[p][0], v[p][1])
				}
				if v[p][0] == v[p][1] {
					t.Fatalf("%d members: %s backs itself up", n, v[p][0])
				}
			}
		}
	}
}

func TestLonelyAndEmptyViews(t *testing.T) {
	empty := ring.NewView(nil)
	if _, ok := empty.Owner(0); ok {
		t.Error("nobody owns something")
	}
	one := ring.NewView(active("a"))
	if _, ok := one.Backup(0); ok || one.Owned("a") != ring.Partitions || one.Backed("a") != 0 {
		t.Errorf("alone: owns %d, backs %d", one.Owned("a"), one.Backed("a"))
	}
	if m, ok := one.Member("a"); !ok || m.Name != "a" {
		t.Errorf("%+v", m)
	}
	if _, ok := one.Member("b"); ok {
		t.Error("found who is not there")
	}
}

func TestEpochTellsRestartsApart(t *testing.T) {
	v := ring.NewView(active("a", "b"))
	again := active("a", "b")
	again[1].Boot = 2
	w := ring.NewView(again)
	if v.Epoch() == w.Epoch() {
		t.Error("a restart leaves the epoch")
	}
	if holders(v) != holders(w) {
		t.Error("a restart moves partitions")
	}
}

// The placement is a promise to nodes that run already: other owners need
// another Format.
func TestPlacementStaysAsItIs(t *testing.T) {
	v := ring.NewView(active("alpha", "beta", "gamma", "delta", "epsilon"))
	h := holders(v)
	digest := siphash.New(make([]byte, 16))
	for p := range h {
		fmt.Fprintf(digest, "%s,%s;", h[p][0], h[p][1])
	}
	if got := digest.Sum64(); ring.Format != 1 || got != 0x2f2b1e9456c662a2 {
		t.Fatalf("format %d places otherwise: digest %#x", ring.Format, got)
	}
}

// Sequential keys spread over the members as their partitions do: each member
// has its share within four standard deviations.
func TestSequentialKeysSpread(t *testing.T) {
	const keys = 10_000
	for _, n := range []int{1, 2, 3, 5, 10, 50, 128} {
		v := ring.NewView(active(names(n)...))
		count := make([]int, n)
		for i := range keys {
			h := siphash.Hash(1, 2, binary.AppendUvarint([]byte("account:"), uint64(i)))
			owner, ok := v.Owner(uint32(h % ring.Partitions))
			if !ok {
				t.Fatal("nobody owns a partition")
			}
			count[owner]++
		}
		for i, m := range v.Members() {
			expected := keys * float64(v.Owned(m.Name)) / ring.Partitions
			if diff := math.Abs(float64(count[i]) - expected); diff > 4*math.Sqrt(expected) {
				t.Errorf("%d members: %s has %d keys, its %d partitions' share is %.0f", n, m.Name, count[i], v.Owned(m.Name), expected)
			}
		}
	}
}

func BenchmarkNewView(b *testing.B) {
	for _, n := range []int{3, 50, 100} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			members := active(names(n)...)
			for b.Loop() {
				ring.NewView(members)
			}
		})
	}
}
