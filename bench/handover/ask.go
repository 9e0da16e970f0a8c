package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
)

// decision is the part of an answer that is looked at.
type decision struct {
	Allowed  bool `json:"allowed"`
	Degraded bool `json:"degraded"`
	Buckets  []struct {
		Remaining int `json:"remaining"`
	} `json:"buckets"`
}

func appendRequest(b []byte, item int, peek bool) []byte {
	b = append(b, `{"route":"GET /items/:id","params":{"id":"`...)
	b = strconv.AppendInt(b, int64(item), 10)
	b = append(b, `"},"caller":{"account":"`...)
	b = strconv.AppendInt(b, int64(item), 10)
	b = append(b, `"},"peek":`...)
	b = strconv.AppendBool(b, peek)
	return append(b, '}')
}

// decide takes a unit of the item.
func (f *fleet) decide(ctx context.Context, n *node, item int) (decision, error) {
	var d decision
	err := f.post(ctx, n, appendRequest(nil, item, false), &d)
	if err == nil && len(d.Buckets) != 1 {
		err = fmt.Errorf("%s answers with %d buckets, want 1", n.name, len(d.Buckets))
	}
	return d, err
}

// decideAll takes a unit of every item, or looks at them.
func (f *fleet) decideAll(ctx context.Context, n *node, items []int, peek bool) ([]decision, error) {
	body := make([]byte, 0, 100*len(items))
	for i, item := range items {
		body = append(body, "[,"[min(i, 1)])
		body = appendRequest(body, item, peek)
	}
	var all []decision
	if err := f.post(ctx, n, append(body, ']'), &all); err != nil {
		return nil, err
	}
	if len(all) != len(items) {
		return nil, fmt.Errorf("%s gives %d answers to %d requests", n.name, len(all), len(items))
	}
	for _, d := range all {
		if len(d.Buckets) != 1 {
			return nil, fmt.Errorf("%s answers with %d buckets, want 1", n.name, len(d.Buckets))
		}
	}
	return all, nil
}

func (f *fleet) post(ctx context.Context, n *node, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.at.http+"/v1/decide", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	return f.do(n, request, into)
}

func (f *fleet) do(n *node, request *http.Request, into any) error {
	response, err := f.client.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", n.name, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("asking %s: %w", n.name, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers HTTP %d: %.200s", n.name, response.StatusCode, text)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s answers %.200s: %w", n.name, text, err)
	}
	return nil
}

// isReady asks as a load balancer does.
func (f *fleet) isReady(ctx context.Context, n *node) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.at.http+"/readyz", nil)
	return err == nil && f.do(n, request, nil) == nil
}

// clusterInfo is the part of GET /v1/cluster that is looked at.
type clusterInfo struct {
	Epoch     string `json:"epoch"`
	Transfers struct {
		Moving int   `json:"moving"`
		Keys   int64 `json:"keys"` // weir_handoff_keys_total of the metrics
	} `json:"transfers"`
	Members []struct {
		State string `json:"state"`
	} `json:"members"`
}

// overview is what all nodes say of the cluster.
type overview struct {
	known  bool // all have answered
	agreed bool // on its members
	active int  // members, by the last one's View
	moving int  // partitions
}

// poll asks all nodes at once, and notes what each has sent.
func (f *fleet) poll(ctx context.Context) overview {
	answers := make([]clusterInfo, len(f.nodes))
	errs := make([]error, len(f.nodes))
	var asking sync.WaitGroup
	for i, n := range f.nodes {
		asking.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.at.admin+"/v1/cluster", nil)
			if err == nil {
				err = f.do(n, request, &answers[i])
			}
			errs[i] = err
		})
	}
	asking.Wait()
	all := overview{known: true, agreed: true}
	for i, a := range answers {
		if errs[i] != nil {
			all.known = false
			continue
		}
		f.nodes[i].keys = a.Transfers.Keys
		all.moving += a.Transfers.Moving
		all.agreed = all.agreed && a.Epoch == answers[0].Epoch
		all.active = 0
		for _, m := range a.Members {
			if m.State == "active" {
				all.active++
			}
		}
	}
	return all
}
