package httpfront

import (
	"encoding/json"
	"fmt"
	"testing"

	"weir/cluster"
	"weir/ring"
)

// described is GET /v1/cluster as an operator's program reads it.
type described struct {
	Name    string      `json:"name"`
	Label   string      `json:"label"`
	Epoch   string      `json:"epoch"`
	Lag     float64     `json:"replication_lag"`
	Moves   transferRow `json:"transfers"`
	Members []memberRow `json:"members"`
}

type transferRow struct {
	Moving int   `json:"moving"`
	Given  int64 `json:"given"`
	Taken  int64 `json:"taken"`
	Keys   int64 `json:"keys"`
}

type memberRow struct {
	Name        string `json:"name"`
	State       string `json:"state"`
	HTTP        string `json:"http"`
	Admin       string `json:"admin"`
	RPC         string `json:"rpc"`
	Version     string `json:"version"`
	Owned       int    `json:"owned"`
	Backed      int    `json:"backed"`
	Circuit     string `json:"circuit"`
	LiveBuckets *int64 `json:"live_buckets"`
	Policy      string `json:"policy"`
}

func (n *node) describe() described {
	n.t.Helper()
	r := n.send("GET", n.admin+"/v1/cluster", "")
	same(n.t, "/v1/cluster", r.status, 200)
	same(n.t, "/v1/cluster", r.header.Get("Content-Type"), "application/json")
	return parse[described](n.t, r.body)
}

func TestClusterOfOne(t *testing.T) {
	n := start(t, setup{rules: oneBucket})
	const text = `{
  "name": "n1",
  "label": "test",
  "epoch": "%016x",
  "replication_lag": 0,
  "transfers": {
    "moving": 0,
    "given": 0,
    "taken": 0,
    "keys": 0
  },
  "members": [
    {
      "name": "n1",
      "state": "active",
      "http": "n1:8080",
      "admin": "n1:8081",
      "rpc": "n1:7947",
      "version": "v-n1",
      "owned": 1021,
      "backed": 0,
      "circuit": "closed",
      "live_buckets": %d,
      "policy": "policy-n1"
    }
  ]
}
`
	epoch := ring.NewView([]ring.Member{member("n1", ring.Active)}).Epoch()
	same(t, "before", n.send("GET", n.admin+"/v1/cluster", "").body, fmt.Sprintf(text, epoch, 0))
	n.decide(question)
	same(t, "after a decision", n.send("GET", n.admin+"/v1/cluster", "").body, fmt.Sprintf(text, epoch, 1))
}

// A member that answers says how many buckets it holds. One that does not, or
// is dead and not asked, shows null.
func TestClusterOfMany(t *testing.T) {
	members := []ring.Member{
		member("n5", ring.Failed), member("n4", ring.Leaving), member("n3", ring.Joining), member("n2", ring.Active), member("n1", ring.Active),
	}
	n := start(t, setup{
		rules: oneBucket, members: members, peers: []string{"n2", "n4"},
		change: func(c *cluster.Config) { c.Replicas = 1 },
	})
	n.decide(plainOf(n.account("n1"), ""))
	far := n.account("n2")
	n.decide("[" + plainOf(far, "") + "," + plainOf(far, `,"credential":"bot"`) + "]")

	got := n.describe()
	same(t, "name", got.Name, "n1")
	same(t, "label", got.Label, "test")
	same(t, "epoch", got.Epoch, fmt.Sprintf("%016x", ring.NewView(members).Epoch()))
	if len(got.Members) != 5 {
		t.Fatalf("%d members", len(got.Members))
	}
	owned, backed := 0, 0
	for i, want := range []struct {
		state   string
		live    string
		circuit string
	}{{"active", "1", "closed"}, {"active", "2", "closed"}, {"joining", "null", "open"}, {"leaving", "0", "closed"}, {"failed", "null", "closed"}} {
		m, name := got.Members[i], fmt.Sprintf("n%d", i+1)
		live, err := json.Marshal(m.LiveBuckets)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, string(live), want.live)
		owned, backed = owned+m.Owned, backed+m.Backed
		if active := want.state == "active"; (m.Owned > 0) != active || (m.Backed > 0) != active {
			t.Errorf("%s, %s, owns %d and backs %d", name, m.State, m.Owned, m.Backed)
		}
		m.Owned, m.Backed, m.LiveBuckets = 0, 0, nil
		same(t, name, m, memberRow{
			Name: name, State: want.state, HTTP: name + ":8080", Admin: name + ":8081", RPC: name + ":7947",
			Version: "v-" + name, Policy: "policy-" + name, Circuit: want.circuit,
		})
	}
	same(t, "owned", owned, 1021)
	same(t, "backed", backed, 1021)
	same(t, "of two, one backs what the other owns", got.Members[0].Owned, got.Members[1].Backed)
}

// Without replicas nobody backs anything.
func TestClusterWithoutReplicas(t *testing.T) {
	members := []ring.Member{member("n2", ring.Active), member("n1", ring.Active)}
	n := start(t, setup{rules: oneBucket, members: members, peers: []string{"n2"}})
	for _, m := range n.describe().Members {
		same(t, m.Name+" owns something", m.Owned > 0, true)
		same(t, m.Name+" backs", m.Backed, 0)
	}
}

// With no active member there is nobody to own anything.
func TestClusterOfNobody(t *testing.T) {
	n := start(t, setup{rules: oneBucket, members: []ring.Member{member("n1", ring.Joining)}})
	m := n.describe().Members[0]
	same(t, "state", m.State, "joining")
	same(t, "owned", m.Owned, 0)
	same(t, "backed", m.Backed, 0)
}

// The epoch has its sixteen digits also where the first of them are zeros.
func TestEpochWithLeadingZeros(t *testing.T) {
	m := member("n1", ring.Active)
	for ring.NewView([]ring.Member{m}).Epoch()>>60 != 0 {
		m.Boot++
	}
	got := start(t, setup{rules: oneBucket, members: []ring.Member{m}}).describe().Epoch
	if len(got) != 16 || got[0] != '0' {
		t.Errorf("epoch %s", got)
	}
}
