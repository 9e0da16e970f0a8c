// Command handover measures what a deploy costs: what moves when a node joins or
// leaves a cluster, how long that takes, and what callers notice of it. It also
// measures what backups cost. It starts nodes of its own on loopback and knows
// them by HTTP only.
//
//	go run ./bench/handover
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// The limit drains one unit in almost nine hours: what is counted stays.
const (
	limit = 1000
	rules = `version: 1
buckets: {"item::id": {limit: 1000, window: 366d, exempt_from_global: true}}
routes: {"GET /items/:id": ["item::id"]}
`
)

// options is what can be asked for.
type options struct {
	keys    int
	callers int
	length  time.Duration // of each measurement at rest
	weir    string        // the binary; built if empty
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE) // also of a pipe that nobody reads
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the program: 0 if all went well, 1 if not, 2 if it was called wrongly.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("handover", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.keys, "keys", 1_000_000, "`number` of buckets")
	flags.IntVar(&o.callers, "callers", 4, "`number` of callers that ask at the same time")
	flags.DurationVar(&o.length, "for", 10*time.Second, "`length` of each measurement at rest")
	flags.StringVar(&o.weir, "weir", "", "`path` of the binary to measure; built from ./cmd/node if not given")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0 || o.keys < 2 || o.callers < 1 || o.length <= 0:
		fmt.Fprintln(stderr, "handover: -keys is at least 2, -callers at least 1, -for above 0, and there are no arguments")
		return 2
	}
	found, err := measure(ctx, o, stdout)
	if err == nil {
		err = found.fault()
	}
	if err != nil {
		fmt.Fprintln(stderr, "handover:", err)
		return 1
	}
	return 0
}

// outcome is what the run is judged by.
type outcome struct {
	moved    int64 // keys
	sampled  int
	wrong    int // of the sample
	failed   int // calls
	degraded int // decisions
	failure  error
}

func (o *outcome) add(s seen) {
	o.failed += s.failed
	o.degraded += s.degraded
	o.failure = errors.Join(o.failure, s.failure)
}

func (o *outcome) fault() error {
	if o.wrong == 0 && o.failed == 0 && o.degraded == 0 {
		return nil
	}
	return errors.Join(fmt.Errorf("%d of %d buckets are wrong, %d calls failed and %d decisions were degraded, want none",
		o.wrong, o.sampled, o.failed, o.degraded), o.failure)
}

// measure does everything in order and writes each figure when it is known.
func measure(ctx context.Context, o options, out io.Writer) (outcome, error) {
	dir, err := os.MkdirTemp("", "handover")
	if err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(dir)
	policy := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(policy, []byte(rules), 0o600); err != nil {
		return outcome{}, err
	}
	if o.weir == "" {
		o.weir = filepath.Join(dir, "weir")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.weir, "weir/cmd/node")
		if text, err := build.CombinedOutput(); err != nil {
			return outcome{}, fmt.Errorf("building weir: %w: %s", err, text)
		}
	}
	b := &bench{options: o, policy: policy, table: table{out}}
	b.table.head(o)
	if err := b.deploys(ctx); err != nil {
		return b.found, err
	}
	if err := b.backups(ctx); err != nil {
		return b.found, err
	}
	b.table.foot()
	return b.found, nil
}

// pause waits, unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
