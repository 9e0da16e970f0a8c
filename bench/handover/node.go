package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// addresses is where one node listens.
type addresses struct{ http, admin, gossip, rpc string }

// freeAddresses chooses ports for n nodes. Somebody may take one before its node
// does; that node then says so and ends.
func freeAddresses(n int) ([]addresses, error) {
	var held []interface{ Close() error }
	defer func() {
		for _, h := range held {
			h.Close()
		}
	}()
	hold := func() (string, error) {
		for range 20 {
			stream, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return "", fmt.Errorf("choosing ports: %w", err)
			}
			held = append(held, stream)
			address := stream.Addr().String()
			packets, err := net.ListenPacket("udp", address) // gossip uses both
			if err == nil {
				held = append(held, packets)
				return address, nil
			}
		}
		return "", fmt.Errorf("choosing ports: none is free for both TCP and UDP")
	}
	chosen := make([]addresses, n)
	for i := range chosen {
		a := &chosen[i]
		for _, field := range []*string{&a.http, &a.admin, &a.gossip, &a.rpc} {
			var err error
			if *field, err = hold(); err != nil {
				return nil, err
			}
		}
	}
	return chosen, nil
}

// node is one process.
type node struct {
	name    string
	at      addresses
	process *exec.Cmd
	output  output
	exited  chan struct{}

	// Valid once the channels are closed.
	readyAt  time.Time
	exitedAt time.Time

	keys int64 // sent to others, when it was last asked
}

// output keeps the end of what a process writes, and notices its ready line.
type output struct {
	mu    sync.Mutex
	text  []byte
	ready chan struct{}
	seen  func()
}

const outputKept = 16 << 10

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if o.seen != nil && bytes.Contains(o.text, []byte(" ready http=")) {
		o.seen()
		o.seen = nil
		close(o.ready)
	}
	if over := len(o.text) - outputKept; over > 0 {
		o.text = slices.Delete(o.text, 0, over)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// startNode starts a process. It is in a group of its own, so that a Ctrl-C
// reaches this program alone.
func startNode(binary, name string, at addresses, args ...string) (*node, error) {
	n := &node{name: name, at: at, exited: make(chan struct{})}
	n.output.ready = make(chan struct{})
	n.output.seen = func() { n.readyAt = time.Now() }
	n.process = exec.Command(binary, append([]string{"serve", "--name", name, "--log-level", "warn",
		"--http", at.http, "--admin", at.admin, "--gossip", at.gossip, "--rpc", at.rpc}, args...)...)
	n.process.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WEIR_") })
	n.process.Stdout, n.process.Stderr = &n.output, &n.output
	n.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := n.process.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(n.exited)
		n.process.Wait() // its status is read from ProcessState
		n.exitedAt = time.Now()
	}()
	return n, nil
}

func (n *node) isReady() bool { return closed(n.output.ready) }
func (n *node) isGone() bool  { return closed(n.exited) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ended is the error of a node that should have gone on.
func (n *node) ended() error {
	return fmt.Errorf("%s has ended: %v: %s", n.name, n.process.ProcessState, n.output.String())
}

func (n *node) kill() {
	n.process.Process.Kill()
	<-n.exited
}
