//go:build netns

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"testing"
	"time"
)

// namespaces is a network of its own for each node, joined by a bridge that this
// process reaches too. It needs root.
type namespaces struct {
	t  *testing.T
	id string
	a  int
}

func newNamespaces(t *testing.T, nodes int) *namespaces {
	t.Helper()
	n := &namespaces{t: t, a: 1 + rand.IntN(250)}
	n.id = fmt.Sprintf("w%d", n.a)
	n.ip("link", "add", n.id, "type", "bridge")
	t.Cleanup(func() { n.ip("link", "del", n.id) })
	n.ip("addr", "add", fmt.Sprintf("10.213.%d.254/24", n.a), "dev", n.id)
	n.ip("link", "set", n.id, "up")
	for node := 1; node <= nodes; node++ {
		space, outer := n.space(node), fmt.Sprintf("%so%d", n.id, node)
		n.ip("netns", "add", space)
		t.Cleanup(func() { n.ip("netns", "del", space) })
		n.ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
		n.ip("link", "set", outer, "master", n.id, "up")
		n.ip("-n", space, "addr", "add", n.host(node)+"/24", "dev", "eth0")
		n.ip("-n", space, "link", "set", "eth0", "up")
		n.ip("-n", space, "link", "set", "lo", "up")
	}
	return n
}

func (n *namespaces) space(node int) string { return fmt.Sprintf("%sn%d", n.id, node) }
func (n *namespaces) host(node int) string  { return fmt.Sprintf("10.213.%d.%d", n.a, node) }

func (n *namespaces) at(node, port int) string { return fmt.Sprintf("%s:%d", n.host(node), port) }

func (n *namespaces) flags(node int, more ...string) []string {
	return append([]string{
		"--http", n.at(node, 8080), "--admin", n.at(node, 8081), "--gossip", n.at(node, 7946), "--rpc", n.at(node, 7947), "--insecure",
	}, more...)
}

func (n *namespaces) run(command ...string) {
	n.t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		n.t.Errorf("%v: %v: %s", command, err, out)
	}
}

func (n *namespaces) ip(args ...string) { n.t.Helper(); n.run(append([]string{"ip"}, args...)...) }

// drop adds or deletes the rules by which a node loses every packet from the
// others, and they lose its.
func (n *namespaces) drop(add bool, node int, others ...int) {
	n.t.Helper()
	action := "-D"
	if add {
		action = "-A"
	}
	for _, other := range others {
		n.run("ip", "netns", "exec", n.space(node), "iptables", "-w", action, "INPUT", "-s", n.host(other), "-j", "DROP")
		n.run("ip", "netns", "exec", n.space(node), "iptables", "-w", action, "OUTPUT", "-d", n.host(other), "-j", "DROP")
	}
}

// A network that splits two against one for 20 seconds, with packets that are
// really lost. Each side goes on by itself; healed, they are one cluster again
// within seconds, and exact.
func TestSplit(t *testing.T) {
	n := newNamespaces(t, 3)
	f := newFleet(t, 0)
	f.net = n
	f.where = func(node int) []string { return []string{"ip", "netns", "exec", n.space(node)} }
	for node := 1; node <= 3; node++ {
		f.start(node)
	}
	const hot, all = 100, 2_000
	f.spend(hot, all, 3)
	f.spend(0, hot, fleetLimit)
	eventually(t, "backups know", func() bool { return f.copied(1, 2, 3) })
	n.drop(true, 3, 1, 2)
	split := time.Now()
	stop := f.hammer(4, 0, hot)
	eventually(t, "each side sees the other dead", func() bool { return f.agree(2, 1, 2) && f.agree(1, 3) })
	t.Logf("each side is alone after %s", time.Since(split).Round(time.Millisecond))
	lone := f.hide(3) // it cannot know what it has no copy of
	f.expect("during the split, at the larger side", hot, all, fleetLimit-3)
	f.mu.Lock()
	f.daemons[3] = lone
	f.mu.Unlock()
	rest := time.NewTimer(time.Until(split.Add(20 * time.Second)))
	<-rest.C
	n.drop(false, 3, 1, 2)
	healed := time.Now()
	eventually(t, "members are complete again", func() bool { return f.agree(3, 1, 2, 3) })
	whole := time.Since(healed)
	t.Logf("one cluster %s after healing", whole.Round(time.Millisecond))
	if whole > 50*time.Second {
		t.Errorf("members are complete after %s, ten times what is promised is 50 s", whole)
	}
	seen := stop()
	seen.log(t, "split")
	// All were exhausted before, so whatever is admitted is too much.
	for item, extra := range seen.admitted {
		if extra > fleetLimit {
			t.Errorf("item %d: %d admitted beyond the limit; the one further side may admit %d", item, extra, fleetLimit)
		}
	}
	f.expect("afterwards", hot, all, fleetLimit-3)
	f.expect("hammered", 0, hot, 0)
	http.DefaultClient.CloseIdleConnections()
}
