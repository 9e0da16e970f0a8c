// Command weir is a node of a distributed in-memory rate limiter.
//
// It only wires: flags become a Config, a Node is opened with it, and a signal
// closes it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"weir/policy"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1 // it ran, and something went wrong
	exitUsage  = 2 // it cannot start as asked: a flag, the policy, a port, the cluster
)

// version is set by the linker for releases.
var version string

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program, with its arguments and outputs as parameters.
func run(args []string, stdout, stderr io.Writer) int {
	command, flags, err := parseFlags(args, stdout)
	if err == nil {
		switch command {
		case "":
			return exitOK // --help has been written
		case "version":
			fmt.Fprintln(stdout, "weir", versionText())
			return exitOK
		case "policy check <file>":
			return checkPolicy(flags.Policy.Check.File, stdout, stderr)
		case "policy show":
			return showPolicy(flags.Policy.Show.Policy, stdout, stderr)
		default:
			return serve(flags.Serve, stdout, stderr)
		}
	}
	fmt.Fprintln(stderr, "weir:", err)
	return exitUsage
}

var errStoppedAtOnce = errors.New("stopped at once by a second signal")

// serve runs a node until a signal ends it.
func serve(flags serveFlags, stdout, stderr io.Writer) int {
	fail := func(status int, err error) int {
		fmt.Fprintln(stderr, "weir:", oneLine(err))
		return status
	}
	config, err := flags.config(stderr)
	if err != nil {
		return fail(exitUsage, err)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	// A terminal that goes away, or a habit of reloading, must not end a node.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	starting, cancel := context.WithCancel(context.Background())
	defer cancel()
	type opened struct {
		node *Node
		err  error
	}
	start := make(chan opened, 1)
	go func() {
		node, err := Open(starting, config)
		start <- opened{node, err}
	}()
	var node *Node
	select {
	case <-signals:
		cancel()
		select {
		case <-signals:
			return fail(exitFailed, errStoppedAtOnce)
		case o := <-start:
			switch {
			case o.node != nil:
				return stop(o.node, flags, signals, config.Log, fail)
			case !errors.Is(o.err, context.Canceled): // it would have failed without the signal
				return fail(exitUsage, o.err)
			}
		}
		return exitOK
	case o := <-start:
		if o.err != nil {
			return fail(exitUsage, o.err)
		}
		node = o.node
	}
	self := node.Self()
	fmt.Fprintf(stdout, "weir %s ready http=%s admin=%s gossip=%s rpc=%s\n", self.Name, self.HTTP, self.Admin, self.Gossip, self.RPC)
	for {
		select {
		case <-hangups:
			config.Log.Warn("SIGHUP: nothing can be reloaded yet; restart the node to change what it was started with")
		case <-signals:
			return stop(node, flags, signals, config.Log, fail)
		}
	}
}

// stop closes the node within the drain timeout. Another signal ends it at
// once.
func stop(node *Node, flags serveFlags, signals <-chan os.Signal, log *slog.Logger, fail func(int, error) int) int {
	log.Info("stopping")
	ctx, cancel := context.WithTimeout(context.Background(), flags.DrainTimeout)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- node.Close(ctx) }()
	select {
	case <-signals:
		return fail(exitFailed, errStoppedAtOnce)
	case err := <-closed:
		if err != nil {
			return fail(exitFailed, err)
		}
	}
	return exitOK
}

// loadPolicy returns the policy of the file, or the embedded one if file is
// empty, with what it warns of.
func loadPolicy(file string) (*policy.Policy, []policy.Problem, error) {
	if file == "" {
		p, err := policy.Default()
		return p, nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, fmt.Errorf("the policy cannot be read: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, policy.MaxSource+1)) // a device has no end
	if err != nil {
		return nil, nil, fmt.Errorf("the policy cannot be read: %w", err)
	}
	return policy.Parse(file, data)
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
