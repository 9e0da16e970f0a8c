package main

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Sixty-four clients over three nodes and one key, on the real clock: what is
// admitted is the limit and what drained meanwhile, to the unit.
func TestExactUnderConcurrency(t *testing.T) {
	const (
		limit    = 1000
		window   = 10 * time.Second // so long that a machine that stalls does not let the bucket run empty
		interval = int64(window) / limit
		clients  = 64
		lasting  = 5 * time.Second
	)
	rules := customPolicy(t, fmt.Sprintf("version: 1\nglobal: {limit: 50, window: 1s}\n"+
		"buckets: {hot: {limit: %d, window: %s, exempt_from_global: true}}\nroutes: {GET /hot: [hot]}\n", limit, window))
	c := startCluster(t, 3, rules, nil)

	var admitted, failed atomic.Int64
	var firstAnswer, lastAnswer atomic.Int64
	var lastSend atomic.Int64
	firstAnswer.Store(int64(lasting))
	var wg sync.WaitGroup
	begin := time.Now()
	for range clients {
		wg.Go(func() {
			for time.Since(begin) < lasting {
				storeMax(&lastSend, int64(time.Since(begin)))
				status, answer := c.post("application/json", `{"route":"GET /hot","caller":{"account":"hot"}}`)
				at := int64(time.Since(begin))
				storeMin(&firstAnswer, at)
				storeMax(&lastAnswer, at)
				a := parse[answered](t, answer)
				if status != http.StatusOK || a.Degraded {
					failed.Add(1)
				} else if a.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if failed.Load() > 0 {
		t.Fatalf("%d calls failed or were degraded", failed.Load())
	}
	most := limit + lastAnswer.Load()/interval
	least := limit + (lastSend.Load()-firstAnswer.Load())/interval - 1
	t.Logf("admitted %d, between %d and %d", admitted.Load(), least, most)
	if n := admitted.Load(); n > most || n < least {
		t.Fatalf("admitted %d, want %d to %d", n, least, most)
	}
}

func storeMin(v *atomic.Int64, n int64) {
	for {
		old := v.Load()
		if n >= old || v.CompareAndSwap(old, n) {
			return
		}
	}
}

func storeMax(v *atomic.Int64, n int64) {
	for {
		old := v.Load()
		if n <= old || v.CompareAndSwap(old, n) {
			return
		}
	}
}
