package main

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// table writes one line for each figure.
type table struct{ w io.Writer }

func (t table) line(when, what, value, unit string) {
	fmt.Fprintln(t.w, strings.TrimRight(fmt.Sprintf("%-18s %-36s %12s  %s", when, what, value, unit), " "))
}

func (t table) head(o options) {
	fmt.Fprintf(t.w, "%d nodes, %d keys, %d callers, %s at rest; nodes and callers share %d CPUs\n\n",
		fleetSize, o.keys, o.callers, o.length, runtime.NumCPU())
	t.line("when", "what", "value", "unit")
}

func (t table) foot() {
	fmt.Fprint(t.w, `
 * a ratio of two figures of this machine: the one kind of figure to compare
   with those of another.
** all that the loopback interface received during the move, less what it
   received in as long a time at rest, for each bucket sent from node to node. It
   holds the fingerprints and words of buckets, the messages that move partitions,
   the gossip of the member that comes or goes, and all headers and acknowledgements
   of TCP and IP; and whatever other programs on this machine sent over loopback
   more than they did at rest. A bucket that is sent to two nodes counts twice.
`)
}

// move writes what moved and for how long.
func (t table) move(when, done string, m move, keys int) {
	t.line(when, done, seconds(m.done), "s")
	t.line(when, "to settled", seconds(m.took), "s")
	t.line(when, "of it, with partitions on the move", seconds(m.moving), "s")
	t.line(when, "keys moved", count(m.keys), "")
	t.line(when, "keys moved / keys", ratio(float64(m.keys), float64(keys)), "*")
	t.line(when, "keys moved per second to settled", count(int64(float64(m.keys)/m.took.Seconds())), "1/s")
}

var quantiles = []struct {
	name       string
	ofThousand int
}{{"p50", 500}, {"p99", 990}, {"p99.9", 999}}

func (t table) quantiles(when string, took []time.Duration) {
	for _, q := range quantiles {
		t.line(when, "decision, "+q.name, millis(quantile(took, q.ofThousand)), "ms")
	}
}

func (t table) ratios(when string, took, rest []time.Duration) {
	for _, q := range quantiles {
		t.line(when, "decision, "+q.name+" / at rest",
			ratio(float64(quantile(took, q.ofThousand)), float64(quantile(rest, q.ofThousand))), "*")
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

func millis(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()*1e3) }

func decimal(v float64) string { return fmt.Sprintf("%.1f", v) }

func count[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// ratio of something to nothing says nothing.
func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// both shows the measurements that a figure is the mean of.
func both(each []float64) string {
	text := make([]string, len(each))
	for i, v := range each {
		text[i] = decimal(v)
	}
	return "(" + strings.Join(text, ", ") + ")"
}
