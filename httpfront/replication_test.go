package httpfront

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/ring"
)

// moves is what the metrics of replication and moves say, but for those that
// are zero.
func (n *node) moves() string {
	n.t.Helper()
	var out []string
	for line := range strings.Lines(n.scrape("weir_calls_total", "weir_circuit_open", "weir_degraded_total",
		"weir_handoff_keys_total", "weir_handoff_partitions", "weir_replication_lag_seconds", "weir_unreplicated_admitted")) {
		if line = strings.TrimSpace(line); !strings.HasSuffix(line, " 0") {
			out = append(out, strings.TrimPrefix(line, "weir_"))
		}
	}
	return strings.Join(out, "\n")
}

// transfers shows what /v1/cluster says of the same, and of each member its
// circuit and its buckets.
func (n *node) transfers() string {
	n.t.Helper()
	d := n.describe()
	out := fmt.Sprintf("lag=%v moving=%d given=%d taken=%d keys=%d", d.Lag, d.Moves.Moving, d.Moves.Given, d.Moves.Taken, d.Moves.Keys)
	for _, m := range d.Members {
		live, err := json.Marshal(m.LiveBuckets)
		if err != nil {
			n.t.Fatal(err)
		}
		out += fmt.Sprintf(" %s=%s,%s", m.Name, m.Circuit, live)
	}
	return out
}

// plainSays is what a decision of oneBucket's bucket says by what is left.
func plainSays(remaining int, degraded bool) string {
	return fmt.Sprintf(`{"allowed":true,"headers":{},"effects":[],"degraded":%t,"buckets":[`+
		`{"bucket":"plain","allowed":true,"limit":2,"remaining":%d,"retry_after":0,"reset_after":%d}]}`, degraded, remaining, 5*(2-remaining))
}

const plainRefused = `{"allowed":false,"status":429,"headers":{"Retry-After":"5","X-RateLimit-Scope":"user","X-RateLimit-Limit":"2","X-RateLimit-Remaining":"0",` +
	`"X-RateLimit-Reset":"1767225610","X-RateLimit-Reset-After":"10","X-RateLimit-Bucket":"a116c9ed46d62077"},` +
	`"body":{"code":"RATE_LIMITED","message":"` + english + `","global":false,"retry_after":5},"effects":[],"degraded":false,` +
	`"buckets":[{"bucket":"plain","allowed":false,"limit":2,"remaining":0,"retry_after":5,"reset_after":10}]}`

// What a node has admitted shows until its backup knows of it, and for how long
// that has been so: since the beat before. Its own member row needs no call; n2's
// takes two hops.
func TestLagIsTold(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		n1, n2 := w.pair(oneBucket)
		near := n1.account("n1")
		for _, step := range []struct {
			name      string
			do        func()
			moves     string
			backup    string // what n2 says of itself
			transfers string
		}{
			{"at rest", func() {}, "", "", "lag=0 moving=0 given=0 taken=0 keys=0 n1=closed,0 n2=closed,0"},
			{
				"before the beat", func() { w.afterBeat(); n1.decide(plainOf(near, "")) },
				"calls_total{path=\"local\"} 1\nreplication_lag_seconds 0.015\nunreplicated_admitted 1", "",
				"lag=0.017 moving=0 given=0 taken=0 keys=0 n1=closed,1 n2=closed,0",
			},
			{
				"after it", w.afterBeat,
				`calls_total{path="local"} 1`, "",
				"lag=0 moving=0 given=0 taken=0 keys=0 n1=closed,1 n2=closed,0",
			},
			{
				// A look and a refusal admit nothing.
				"cut off", func() {
					w.afterBeat()
					w.net.Cut("n1", "n2")
					n1.decide(peek(plainOf(near, "")))
					n1.decide(plainOf(near, ""))
					same(t, "the third", n1.decide(plainOf(near, "")), plainRefused)
					time.Sleep(time.Second)
				},
				"calls_total{path=\"local\"} 4\ncircuit_open 1\nreplication_lag_seconds 1.015\nunreplicated_admitted 1", "circuit_open 1",
				"lag=1.115 moving=0 given=0 taken=0 keys=0 n1=closed,1 n2=open,null", // n2 is waited for
			},
			{
				"healed", func() { w.net.Heal("n1", "n2"); time.Sleep(2 * time.Second); w.afterBeat() },
				`calls_total{path="local"} 4`, "",
				"lag=0 moving=0 given=0 taken=0 keys=0 n1=closed,1 n2=closed,0",
			},
		} {
			step.do()
			same(t, step.name, n1.moves(), step.moves)
			same(t, step.name+", of its backup", n2.moves(), step.backup)
			same(t, step.name, n1.transfers(), step.transfers)
		}
	})
}

// The backup of an owner that died answers in its place, with its counts, and
// says once of each partition that it has just taken over.
func TestFailoverIsTold(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		n1, _ := w.pair(oneBucket)
		far := n1.account("n2")
		same(t, "before", n1.decide(plainOf(far, "")), plainSays(1, false))
		w.afterBeat()
		w.net.Crash("n2")
		names := []string{"weir_calls_total", "weir_circuit_open", "weir_degraded_total", `weir_handoff_partitions{state="taken"}`, `weir_handoff_partitions{state="given"}`}
		for _, step := range []struct{ name, answer, says string }{
			{"the first asks in vain", plainSays(0, true), "backup=1 forwarded=2 local=0"},
			{"the next goes to the backup at once", plainRefused, "backup=2 forwarded=2 local=1"},
			{"and so on", plainRefused, "backup=3 forwarded=2 local=2"},
		} {
			same(t, step.name, n1.decide(plainOf(far, "")), step.answer)
			var backup, forwarded, local int
			if _, err := fmt.Sscanf(step.says, "backup=%d forwarded=%d local=%d", &backup, &forwarded, &local); err != nil {
				t.Fatal(err)
			}
			same(t, step.name, n1.scrape(names...), fmt.Sprintf(`weir_calls_total{path="backup"} %d
weir_calls_total{path="forwarded"} %d
weir_calls_total{path="local"} %d
weir_circuit_open 1
weir_degraded_total{reason="failover"} 1
weir_degraded_total{reason="not_owner"} 0
weir_degraded_total{reason="overloaded"} 0
weir_degraded_total{reason="timeout"} 0
weir_degraded_total{reason="unavailable"} 0
weir_handoff_partitions{state="given"} 0
weir_handoff_partitions{state="taken"} 1
`, backup, forwarded, local))
		}
		d := n1.describe()
		same(t, "taken", d.Moves.Taken, 1)
		same(t, "given", d.Moves.Given, 0)
		same(t, "n1", d.Members[0].Circuit, "closed")
		same(t, "n2", d.Members[1].Circuit, "open")
	})
}

// A member that joins is given what is its own, each bucket once, and nothing is
// refilled.
func TestHandoverIsTold(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		m1, m2 := member("n1", ring.Active), member("n2", ring.Active)
		n1, view := w.start("n1", oneBucket, m1)
		w.settle(n1)
		for i := range 40 {
			n1.decide(plainOf(fmt.Sprint(i), ""))
		}
		same(t, "alone", n1.moves(), "calls_total{path=\"local\"} 40\nunreplicated_admitted 40")
		n2, _ := w.start("n2", oneBucket, m1, m2)
		view.set(m1, m2)
		// What is n2's is to be given; of the rest n2 is the backup.
		same(t, "under way", n1.moves(), "calls_total{path=\"local\"} 40\nhandoff_partitions{state=\"moving\"} 1021\nreplication_lag_seconds 0.015\nunreplicated_admitted 40")
		w.settle(n1, n2)
		owned := n2.cluster.View().Owned("n2")
		same(t, "given", n1.moves(), fmt.Sprintf("calls_total{path=\"local\"} 40\nhandoff_keys_total 40\nhandoff_partitions{state=\"given\"} %d", owned))
		same(t, "who was given", n2.moves(), "")
		there := n2.cluster.LiveBuckets()
		if there == 0 || there == 40 {
			t.Fatalf("n2 holds %d buckets of 40", there)
		}
		same(t, "all that there is", n1.transfers(), fmt.Sprintf("lag=0 moving=0 given=%d taken=0 keys=40 n1=closed,%d n2=closed,%d", owned, 40-there, there))
		same(t, "all that there is", n2.transfers(), fmt.Sprintf("lag=0 moving=0 given=0 taken=0 keys=0 n1=closed,%d n2=closed,%d", 40-there, there))
		for i := range 40 {
			same(t, "nothing is refilled", n1.decide(plainOf(fmt.Sprint(i), "")), plainSays(0, false))
		}
		same(t, "where they are", n1.scrape("weir_calls_total"), fmt.Sprintf(`weir_calls_total{path="backup"} 0
weir_calls_total{path="forwarded"} %d
weir_calls_total{path="local"} %d
`, there, 80-there))
	})
}
