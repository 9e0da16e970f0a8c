package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQuantile(t *testing.T) {
	upTo := func(n int) []time.Duration {
		list := make([]time.Duration, n)
		for i := range list {
			list[i] = time.Duration(i + 1)
		}
		return list
	}
	for _, c := range []struct {
		n, ofThousand int
		want          time.Duration
	}{
		{0, 500, 0},
		{1, 0, 1}, {1, 500, 1}, {1, 999, 1}, {1, 1000, 1},
		{2, 500, 1}, {2, 501, 2},
		{3, 500, 2},
		{10, 0, 1}, {10, 100, 1}, {10, 101, 2}, {10, 990, 10},
		{100, 500, 50}, {100, 990, 99}, {100, 999, 100},
		{1000, 500, 500}, {1000, 990, 990}, {1000, 999, 999}, {1000, 1000, 1000},
		{1001, 999, 1000},
		{2000, 999, 1998},
	} {
		if got := quantile(upTo(c.n), c.ofThousand); got != c.want {
			t.Errorf("quantile(1..%d, %d) is %d, want %d", c.n, c.ofThousand, got, c.want)
		}
	}
}

func TestWholeRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	found, err := measure(ctx, options{keys: 2000, callers: 4, length: 300 * time.Millisecond}, &out)
	t.Logf("\n%s", &out)
	if err != nil {
		t.Fatal(err)
	}
	if err := found.fault(); err != nil {
		t.Error(err)
	}
	if found.moved <= 0 || found.sampled != 1000 || found.wrong != 0 {
		t.Errorf("%d keys moved, %d of %d buckets wrong; want more than 0, 0 of 1000", found.moved, found.wrong, found.sampled)
	}
}

// A run that is stopped in its middle says so, and leaves nothing behind.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := &stopAt{line: "keys per second", stop: cancel}
	if _, err := measure(ctx, options{keys: 2000, callers: 4, length: 100 * time.Millisecond}, out); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v, want %v", err, context.Canceled)
	}
	if !out.stopped {
		t.Errorf("it has not written %q", out.line)
	}
}

// stopAt stops a run when it writes a certain line.
type stopAt struct {
	line    string
	stop    func()
	stopped bool
}

func (s *stopAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.line) {
		s.stopped = true
		s.stop()
	}
	return len(p), nil
}
