package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/cluster"
	"weir/ring"
)

// A node that is closed leaves without anybody noticing: callers of the others
// get every decision, and none of them sees a member die.
func TestCloseLeavesTheCluster(t *testing.T) {
	c := startCluster(t, 3, defaultPolicy(t), nil)
	leaver := c.nodes[2]
	stays := &testCluster{t: t, nodes: c.nodes[:2], http: c.http}

	done := make(chan struct{})
	var callers sync.WaitGroup
	var mu sync.Mutex
	var failures []string
	for caller := range 4 {
		callers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				status, answer := stays.post("application/json",
					fmt.Sprintf(`{"route":"GET /users/@me","caller":{"account":"%d","credential":"bot"}}`, caller*1_000_000+i))
				var a answered
				if err := json.Unmarshal([]byte(answer), &a); err != nil || status != http.StatusOK || !a.Allowed {
					mu.Lock()
					failures = append(failures, fmt.Sprintf("%d %s", status, answer))
					mu.Unlock()
				}
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := leaver.Close(ctx)
	close(done)
	callers.Wait()
	if err != nil {
		t.Errorf("Close: %v", err)
	}
	if len(failures) > 0 {
		t.Errorf("%d failures, such as %s", len(failures), failures[0])
	}
	for i, node := range stays.nodes {
		eventually(t, "it is gone from the views", func() bool { return len(node.cluster.View().Members()) == 2 })
		for _, m := range node.cluster.View().Members() {
			if m.State != ring.Active {
				t.Errorf("node %d sees %s as %s", i, m.Name, m.State)
			}
		}
		// Until both have heard of the leaver they may disagree on an owner.
		for _, reason := range []cluster.Reason{cluster.ReasonUnavailable, cluster.ReasonTimeout, cluster.ReasonOverloaded} {
			if n := node.cluster.Stats().Degraded[reason].Load(); n > 0 {
				t.Errorf("node %d: %d stages degraded: %s", i, n, reason)
			}
		}
	}
	c.nodes = c.nodes[:2]
}

// While a node drains it answers still, and sends its callers elsewhere.
func TestDraining(t *testing.T) {
	c := startCluster(t, 1, defaultPolicy(t), newStoppedClock())
	node := c.nodes[0]
	node.config.DrainDelay = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error, 1)
	go func() { closed <- node.Close(ctx) }()
	url := "http://" + node.Self().HTTP
	eventually(t, "it is unready", func() bool {
		resp, err := c.http.Get(url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	resp, err := c.http.Post(url+"/v1/decide", "application/json", strings.NewReader(`{"route":"GET /users/@me","caller":{"ip":"192.0.2.1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("a decision while draining: HTTP %d, Connection: close is %t", resp.StatusCode, resp.Close)
	}
	cancel() // the operator has no more patience
	err = <-closed
	if err == nil {
		t.Error("a stop that was cut off says nothing of it")
	}
	if again := node.Close(t.Context()); again != err {
		t.Errorf("the second Close: %v, want %v", again, err)
	}
	c.nodes = nil
}
