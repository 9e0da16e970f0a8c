package cluster

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"weir/ring"
)

// One of sixteen crashes. Of its partitions the backups are the new owners and
// have everything already; the few that move between the living are handed over
// by those who hold them.
func TestCrashOfOneOfSixteen(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		nodes := make([]*full, 16)
		nodes[0] = w.full("n1", 1)
		var starting sync.WaitGroup
		for i := range nodes[1:] {
			starting.Go(func() { nodes[i+1] = w.full(fmt.Sprintf("n%d", i+2), 1, "n1") })
		}
		starting.Wait()
		w.awaitAll(16, nodes...)
		var clusters []*Cluster
		for _, n := range nodes {
			clusters = append(clusters, n.Cluster)
		}
		w.settle(clusters...)
		r := rule(t, 9, time.Hour)
		all := make([]Sequence, ring.Partitions)
		for p := range all {
			all[p] = one(check(uint32(p), 1, r))[0]
		}
		expect := func(what, want string) {
			t.Helper()
			for p, out := range nodes[1].Decide(t.Context(), all, take) {
				if got := says([]Outcome{out}); got != want {
					t.Fatalf("%s: partition %d: got %q, want %q", what, p, got, want)
				}
			}
		}
		expect("before", "+8")
		time.Sleep(100 * time.Millisecond) // so that the backups know

		before := nodes[0].View()
		given := handedOver(nodes...)
		dead := nodes[7]
		nodes = append(nodes[:7:7], nodes[8:]...)
		clusters = append(clusters[:7:7], clusters[8:]...)
		crashed := time.Now()
		w.crash(dead)
		w.awaitAll(15, nodes...)
		took := time.Since(crashed)
		t.Logf("all of fifteen agree after %s", took)
		if took > 3*time.Second {
			t.Errorf("the others agree after %s, more than 3 s", took)
		}
		w.settle(clusters...)
		expect("after", "+7")

		after := nodes[0].View()
		lost, moved := 0, 0
		for p := range uint32(ring.Partitions) {
			old, _ := before.Owner(p)
			now, _ := after.Owner(p)
			owner, was := after.Members()[now].Name, before.Members()[old].Name
			switch {
			case was == dead.self.Name:
				lost++
				if backup, _ := before.Backup(p); before.Members()[backup].Name != owner {
					t.Errorf("partition %d of the dead is %s's, its backup was %s", p, owner, before.Members()[backup].Name)
				}
			case was != owner:
				moved++
			}
		}
		taken := 0
		for _, n := range nodes {
			taken += int(n.Stats().TakenOver.Load())
			same(t, "degraded at "+n.self.Name, degraded(n.Cluster), "")
		}
		t.Logf("%d partitions taken over, %d moved between the living", lost, moved)
		same(t, "taken over", taken, lost)
		same(t, "handed over", handedOver(nodes...)+int(dead.Stats().HandedOver.Load())-given, moved)
	})
}
