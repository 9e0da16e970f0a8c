package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logged is the node's log in virtual time, with the seconds since its start
// instead of the time.
type logged struct {
	*slog.Logger
	t     *testing.T
	began time.Time
	out   bytes.Buffer
}

func logging(t *testing.T, test func(*testing.T, *logged)) {
	synctest.Test(t, func(t *testing.T) {
		l := &logged{t: t, began: time.Now()}
		l.Logger = newLogger(&l.out, "text", slog.LevelInfo)
		test(t, l)
	})
}

// lines returns what was written since it was called last.
func (l *logged) lines() []string {
	l.t.Helper()
	var lines []string
	for line := range strings.Lines(l.out.String()) {
		stamp, rest, _ := strings.Cut(line, " ")
		at, err := time.Parse(time.RFC3339, strings.TrimPrefix(stamp, "time="))
		if err != nil {
			l.t.Error(err)
		}
		lines = append(lines, fmt.Sprintf("%v %s", at.Sub(l.began), strings.TrimSuffix(rest, "\n")))
	}
	l.out.Reset()
	return lines
}

func (l *logged) want(lines ...string) {
	l.t.Helper()
	same(l.t, "log", strings.Join(l.lines(), "\n"), strings.Join(lines, "\n"))
}

// strangers warn one after the other, from a host and a port of their own each.
func (l *logged) strangers(message string, from, to int) {
	for i := from; i < to; i++ {
		l.Warn(message, "peer", fmt.Sprintf("10.0.%d.%d:%d", i/256, i%256, 1024+i))
	}
}

// One line a minute for each message and host; what is no warning is not held
// back.
func TestLogOncePerCause(t *testing.T) {
	logging(t, func(t *testing.T, l *logged) {
		all := func() {
			for _, peer := range []string{"10.0.0.1:1024", "10.0.0.1:1025", "10.0.0.2:1024", "[::1]:1024", "[::1]:1025", "::1", "n1", "n1"} {
				l.Warn("no hello", "peer", peer, "error", "EOF")
			}
			l.Error("bad frame", "peer", "10.0.0.1:1026")
			l.Error("bad frame", "peer", "10.0.0.1:1027")
			l.Warn("alone", "address", "a:1")
			l.Warn("alone", "address", "a:2")
			l.Info("alone")
			l.Info("alone")
			l.Debug("alone")
		}
		all()
		l.want(
			`0s level=WARN msg="no hello" peer=10.0.0.1:1024 error=EOF`,
			`0s level=WARN msg="no hello" peer=10.0.0.2:1024 error=EOF`,
			`0s level=WARN msg="no hello" peer=[::1]:1024 error=EOF`,
			`0s level=WARN msg="no hello" peer=n1 error=EOF`,
			`0s level=ERROR msg="bad frame" peer=10.0.0.1:1026`,
			"0s level=WARN msg=alone address=a:1",
			"0s level=INFO msg=alone",
			"0s level=INFO msg=alone",
		)
		time.Sleep(time.Minute - time.Millisecond)
		all()
		l.want("59.999s level=INFO msg=alone", "59.999s level=INFO msg=alone")
		time.Sleep(time.Millisecond)
		all()
		l.want(
			`1m0s level=WARN msg="no hello" peer=10.0.0.1:1024 error=EOF left_out=3`,
			`1m0s level=WARN msg="no hello" peer=10.0.0.2:1024 error=EOF left_out=1`,
			`1m0s level=WARN msg="no hello" peer=[::1]:1024 error=EOF left_out=5`,
			`1m0s level=WARN msg="no hello" peer=n1 error=EOF left_out=3`,
			`1m0s level=ERROR msg="bad frame" peer=10.0.0.1:1026 left_out=3`,
			"1m0s level=WARN msg=alone address=a:1 left_out=3",
			"1m0s level=INFO msg=alone",
			"1m0s level=INFO msg=alone",
		)
		time.Sleep(2 * time.Minute)
		l.Warn("no hello", "peer", "10.0.0.2:1")
		l.Warn("no hello", "peer", "10.0.0.1:1")
		l.want(
			`3m0s level=WARN msg="no hello" peer=10.0.0.2:1`,
			`3m0s level=WARN msg="no hello" peer=10.0.0.1:1 left_out=1`,
		)
	})
}

// However many hosts there are, the log and the memory for it are bounded, and
// every line is said or counted; what is not about a host is said all the same.
func TestLogOfAFlood(t *testing.T) {
	logging(t, func(t *testing.T, l *logged) {
		l.strangers("no hello", 0, 1)
		l.strangers("no hello", 0, 1)
		l.strangers("no hello", 0, 1)
		time.Sleep(time.Second)
		l.strangers("no hello", 1, 1000)
		lines := l.lines()
		if len(lines) != maxCauses+1 {
			t.Fatalf("%d lines", len(lines))
		}
		same(t, "last of its own", lines[255], `1s level=WARN msg="no hello" peer=10.0.0.255:1279`)
		same(t, "for all others", lines[256], `1s level=WARN msg="no hello" peer=10.0.1.0:1280`)
		l.strangers("bad frame", 0, 1000)
		l.Warn("alone")
		l.want(`1s level=WARN msg="bad frame" peer=10.0.0.0:1024`, "1s level=WARN msg=alone")

		kept := func() int { return len(l.Handler().(*throttle).tallies.of) }
		same(t, "remembered", fmt.Sprint(kept()), fmt.Sprint(maxCauses+3))

		// A minute later all hosts are free again, beside the three messages.
		// What was left out of the first counts for its message.
		time.Sleep(time.Minute)
		l.strangers("no hello", 3000, 3300)
		lines = l.lines()
		if len(lines) != maxCauses-3+1 {
			t.Fatalf("%d lines", len(lines))
		}
		same(t, "for all others", lines[253], `1m1s level=WARN msg="no hello" peer=10.0.12.181:4277 left_out=745`)
		l.strangers("bad frame", 0, 1)
		l.want(`1m1s level=WARN msg="bad frame" peer=10.0.0.0:1024 left_out=999`)

		same(t, "remembered", fmt.Sprint(kept()), fmt.Sprint(maxCauses))
	})
}

// A logger made from the node's is throttled with it.
func TestLogWith(t *testing.T) {
	logging(t, func(t *testing.T, l *logged) {
		peer := l.With("peer", "10.0.0.1:1024")
		l.Warn("no hello", "peer", "10.0.0.1:1")
		peer.Warn("no hello")
		peer.With("a", 1).WithGroup("g").Warn("no hello", "b", 2)
		peer.Warn("no hello", "peer", "10.0.0.2:1") // about another one
		l.want(
			`0s level=WARN msg="no hello" peer=10.0.0.1:1`,
			`0s level=WARN msg="no hello" peer=10.0.0.1:1024 peer=10.0.0.2:1`,
		)
		time.Sleep(time.Minute)
		peer.With("a", 1).WithGroup("g").Warn("no hello", "b", 2)
		l.want(`1m0s level=WARN msg="no hello" peer=10.0.0.1:1024 a=1 g.b=2 g.left_out=2`)
	})
}

// Of lines that come at once, one is said and the others are counted.
func TestLogAtOnce(t *testing.T) {
	logging(t, func(t *testing.T, l *logged) {
		var talkers sync.WaitGroup
		for range 8 {
			talkers.Go(func() { l.strangers("no hello", 0, 1); l.strangers("no hello", 0, 1) })
		}
		talkers.Wait()
		l.want(`0s level=WARN msg="no hello" peer=10.0.0.0:1024`)
		time.Sleep(time.Minute)
		l.strangers("no hello", 0, 1)
		l.want(`1m0s level=WARN msg="no hello" peer=10.0.0.0:1024 left_out=15`)
	})
}

// The flags choose how lines look, and which there are.
func TestLogFormatAndLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := newLogger(&out, "json", slog.LevelError)
		log.Warn("not said")
		log.Error("down", "peer", "n1")
		log.Error("down", "peer", "n1")
		time.Sleep(time.Minute)
		log.Error("down", "peer", "n1")
		var got []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, ",") // behind the time
			got = append(got, rest)
		}
		same(t, "log", strings.Join(got, ""), `"level":"ERROR","msg":"down","peer":"n1"}
"level":"ERROR","msg":"down","peer":"n1","left_out":1}
`)
	})
}
