package main

import (
	"fmt"
	"io"
)

// checkPolicy says whether a policy file is good, and everything that is wrong
// with it if not.
func checkPolicy(file string, stdout, stderr io.Writer) int {
	p, warnings, err := loadPolicy(file)
	for _, w := range warnings {
		fmt.Fprintf(stderr, "%s:%d: warning: %s\n", w.File, w.Line, w.Text)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	fmt.Fprintf(stdout, "%s: good: buckets %d, routes %d, hash %s\n", file, len(p.Buckets), len(p.Routes), p.Hash())
	return exitOK
}

// showPolicy prints the policy that a node started with the same --policy would
// load.
func showPolicy(file string, stdout, stderr io.Writer) int {
	p, _, err := loadPolicy(file)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	if _, err := stdout.Write(p.Source()); err != nil {
		fmt.Fprintln(stderr, "weir:", err)
		return exitFailed
	}
	return exitOK
}
