package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc; Linux shows it so everywhere.
const tick = 10 * time.Millisecond

var errNoCPU = errors.New("no CPU times in /proc")

// cpu returns the CPU time that all nodes have used, in user and system mode.
func (f *fleet) cpu() (time.Duration, error) {
	var ticks int64
	for _, n := range f.nodes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.process.Process.Pid))
		if err != nil {
			if n.isGone() {
				return 0, n.ended()
			}
			return 0, fmt.Errorf("%w: %w", errNoCPU, err)
		}
		// The name of the program, in parentheses, may hold anything.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		const user, system = 14 - 3, 15 - 3
		if len(fields) <= system {
			return 0, fmt.Errorf("CPU time of %s: %q is too short", n.name, text)
		}
		for _, field := range []string{fields[user], fields[system]} {
			v, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("CPU time of %s: %w", n.name, err)
			}
			ticks += v
		}
	}
	return time.Duration(ticks) * tick, nil
}

// loopbackBytes returns what the loopback interface has received so far. It
// receives exactly what it sends.
func loopbackBytes() (int64, error) {
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return 0, fmt.Errorf("bytes on loopback: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		name, counters, _ := strings.Cut(line, ":")
		if fields := strings.Fields(counters); strings.TrimSpace(name) == "lo" && len(fields) > 0 {
			n, err := strconv.ParseInt(fields[0], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("bytes on loopback: %w", err)
			}
			return n, nil
		}
	}
	return 0, errors.New("bytes on loopback: /proc/net/dev has no lo")
}
