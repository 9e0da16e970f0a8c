package httpfront

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// clusterInfo is the answer of GET /v1/cluster.
type clusterInfo struct {
	Name    string       `json:"name"`            // of the node that answers
	Label   string       `json:"label"`           // of the cluster
	Epoch   string       `json:"epoch"`           // digest of the View, in hex; equal on nodes that agree
	Lag     float64      `json:"replication_lag"` // seconds: age of the oldest change that its backup does not know of
	Moves   transferInfo `json:"transfers"`
	Members []memberInfo `json:"members"`
}

// transferInfo is what moves from this node to others, and has since it started.
type transferInfo struct {
	Moving int   `json:"moving"` // partitions being copied or handed over
	Given  int64 `json:"given"`  // partitions handed over
	Taken  int64 `json:"taken"`  // partitions taken over from a failed node
	Keys   int64 `json:"keys"`   // buckets sent for all that
}

type memberInfo struct {
	Name        string `json:"name"`
	State       string `json:"state"`
	HTTP        string `json:"http"`
	Admin       string `json:"admin"`
	RPC         string `json:"rpc"`
	Version     string `json:"version"`
	Owned       int    `json:"owned"`
	Backed      int    `json:"backed"`
	Circuit     string `json:"circuit"`      // "open" if the member is silent or slow, and its backups are asked at once
	LiveBuckets *int64 `json:"live_buckets"` // null if the member could not be asked
	Policy      string `json:"policy"`
}

// describeCluster serves GET /v1/cluster: what this node knows of the cluster.
func (f *Front) describeCluster(r *request) answer {
	view := f.cluster.View()
	live := f.cluster.LiveBucketsOfAll(r.context)
	info := clusterInfo{Name: f.self().Name, Label: f.label, Epoch: fmt.Sprintf("%016x", view.Epoch()), Members: []memberInfo{}}
	now, stats := f.cluster.Replication(), f.cluster.Stats()
	info.Lag = now.Lag.Seconds()
	info.Moves = transferInfo{
		Moving: now.Building, Given: stats.HandedOver.Load(),
		Taken: stats.TakenOver.Load(), Keys: stats.KeysMoved.Load(),
	}
	for _, m := range view.Members() {
		member := memberInfo{
			Name: m.Name, State: m.State.String(),
			HTTP: m.HTTP, Admin: m.Admin, RPC: m.RPC,
			Version: m.Version, Policy: m.Policy,
			Owned: view.Owned(m.Name), Backed: f.backed(m.Name),
			Circuit: "closed",
		}
		if f.cluster.Circuit(m.Name) {
			member.Circuit = "open"
		}
		if n, ok := live[m.Name]; ok {
			member.LiveBuckets = &n
		}
		info.Members = append(info.Members, member)
	}
	body, err := json.Marshal(info, jsontext.WithIndent("  "))
	if err != nil {
		return (&problem{status: http.StatusInternalServerError, detail: "the answer could not be written"}).answer()
	}
	return answer{status: http.StatusOK, contentType: typeJSON, body: append(body, '\n')}
}

// backed returns how many partitions the member is to keep the copy of.
func (f *Front) backed(name string) int {
	return f.cluster.View().Backed(name) * f.cluster.Replicas()
}
