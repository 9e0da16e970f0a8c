package httpfront

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/ring"
)

const counted = `version: 1
global: {limit: 3, window: 1s}
bypass_flag: FREE
buckets:
  "plain": {limit: 2, window: 10s}
  "things::thing_id": {limit: 1, window: 1m, exempt_from_global: true}
  "mail": {limit: 1, window: 1d, keyed_by: email}
routes:
  GET /plain: ["plain"]
  GET /things/:thing_id: ["things::thing_id"]
  POST /mail: ["plain", "mail"]
  GET /none: []
`

// scrape returns the lines of /metrics that begin with one of the names, in
// their order.
func (n *node) scrape(names ...string) string {
	n.t.Helper()
	r := n.send("GET", n.admin+"/metrics", "")
	same(n.t, "/metrics", r.status, 200)
	var out []string
	for line := range strings.Lines(r.body) {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(line, name) }) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// Everything that is known before the first request is there from the start, so
// that rates can be taken of it.
func TestMetricsAtTheStart(t *testing.T) {
	n := start(t, setup{rules: counted})
	same(t, "weir's own", n.scrape("weir_"), `weir_calls_total{path="backup"} 0
weir_calls_total{path="forwarded"} 0
weir_calls_total{path="local"} 0
weir_circuit_open 0
weir_decision_duration_seconds_bucket{le="2.5e-05"} 0
weir_decision_duration_seconds_bucket{le="5e-05"} 0
weir_decision_duration_seconds_bucket{le="0.0001"} 0
weir_decision_duration_seconds_bucket{le="0.00025"} 0
weir_decision_duration_seconds_bucket{le="0.0005"} 0
weir_decision_duration_seconds_bucket{le="0.001"} 0
weir_decision_duration_seconds_bucket{le="0.0025"} 0
weir_decision_duration_seconds_bucket{le="0.005"} 0
weir_decision_duration_seconds_bucket{le="0.01"} 0
weir_decision_duration_seconds_bucket{le="0.025"} 0
weir_decision_duration_seconds_bucket{le="0.05"} 0
weir_decision_duration_seconds_bucket{le="0.1"} 0
weir_decision_duration_seconds_bucket{le="0.25"} 0
weir_decision_duration_seconds_bucket{le="+Inf"} 0
weir_decision_duration_seconds_sum 0
weir_decision_duration_seconds_count 0
weir_decisions_total{bucket="global",outcome="allowed"} 0
weir_decisions_total{bucket="global",outcome="refused"} 0
weir_decisions_total{bucket="mail",outcome="allowed"} 0
weir_decisions_total{bucket="mail",outcome="refused"} 0
weir_decisions_total{bucket="plain",outcome="allowed"} 0
weir_decisions_total{bucket="plain",outcome="refused"} 0
weir_decisions_total{bucket="things::thing_id",outcome="allowed"} 0
weir_decisions_total{bucket="things::thing_id",outcome="refused"} 0
weir_degraded_total{reason="failover"} 0
weir_degraded_total{reason="not_owner"} 0
weir_degraded_total{reason="overloaded"} 0
weir_degraded_total{reason="timeout"} 0
weir_degraded_total{reason="unavailable"} 0
weir_handoff_keys_total 0
weir_handoff_partitions{state="given"} 0
weir_handoff_partitions{state="moving"} 0
weir_handoff_partitions{state="taken"} 0
weir_live_buckets 0
weir_members{state="active"} 1
weir_members{state="failed"} 0
weir_members{state="joining"} 0
weir_members{state="leaving"} 0
weir_partitions{role="backup"} 0
weir_partitions{role="owner"} 1021
weir_partitions{role="unreplicated"} 1021
weir_policy_info{hash="fe98cd284c93da1b"} 1
weir_replication_lag_seconds 0
weir_replication_messages_total{outcome="dropped"} 0
weir_replication_messages_total{outcome="received"} 0
weir_replication_messages_total{outcome="sent"} 0
weir_rpc_errors_total{kind="canceled"} 0
weir_rpc_errors_total{kind="internal"} 0
weir_rpc_errors_total{kind="invalid"} 0
weir_rpc_errors_total{kind="overloaded"} 0
weir_rpc_errors_total{kind="refused"} 0
weir_rpc_errors_total{kind="timeout"} 0
weir_rpc_errors_total{kind="unavailable"} 0
weir_rpc_errors_total{kind="wrong_peer"} 0
weir_unreplicated_admitted 0
`)
	for _, name := range []string{"go_goroutines ", "process_cpu_seconds_total "} {
		if n.scrape(name) == "" {
			t.Errorf("%s is missing", name)
		}
	}
}

// What is evaluated for a decision counts: each bucket for itself, up to the
// first refusal. Looks, bad requests and what is decided without a bucket do not.
func TestMetricsCountDecisions(t *testing.T) {
	n := start(t, setup{rules: counted})
	plain := `{"route":"GET /plain","caller":{"account":"1"}}`
	thing := `{"route":"GET /things/:thing_id","params":{"thing_id":"7"},"caller":{"account":"1"}}`
	mail := func(account string) string {
		return `{"route":"POST /mail","email":"a@example.org","caller":{"account":"` + account + `"}}`
	}
	for _, body := range []string{
		plain, plain, // global and plain allowed
		plain,                           // global allowed, plain refused
		plain,                           // global refused
		"[" + plain + "," + plain + "]", // and twice more
		thing,                           // allowed, without global
		thing,                           // refused
		mail("2"),                       // global, plain and mail allowed
		mail("3"),                       // global and plain allowed, mail refused
		`{"route":"POST /mail","caller":{"account":"4"}}`, // without address: global and plain allowed
		peek(plain), "[" + peek(plain) + "," + peek(thing) + "]", peek(mail("2")), // nothing but calls: five stages
		`{"route":"GET /none","caller":{"account":"1"}}`,                                     // nothing
		`{"route":"GET /plain","caller":{"account":"1","flags":["FREE"]}}`,                   // nothing
		`{"route":"GET /plain"}`,                                                             // 403: nothing
		`[{"route":"GET /plain","caller":{"account":"5"}},{"rout":1},{"route":"GET /nope"}]`, // global and plain allowed, once
	} {
		n.decide(body)
	}
	for _, body := range []string{`{"route":"GET /nope","caller":{"account":"1"}}`, `{"buckets":["plain"],"caller":1}`, `[]`, `x`} {
		same(t, body, n.send("POST", n.api+"/v1/decide", body).status, 400)
	}
	same(t, "decisions", n.scrape("weir_decisions_total", "weir_decision_duration_seconds_count", "weir_calls_total"),
		`weir_calls_total{path="backup"} 0
weir_calls_total{path="forwarded"} 0
weir_calls_total{path="local"} 19
weir_decision_duration_seconds_count 21
weir_decisions_total{bucket="global",outcome="allowed"} 7
weir_decisions_total{bucket="global",outcome="refused"} 3
weir_decisions_total{bucket="mail",outcome="allowed"} 1
weir_decisions_total{bucket="mail",outcome="refused"} 1
weir_decisions_total{bucket="plain",outcome="allowed"} 6
weir_decisions_total{bucket="plain",outcome="refused"} 1
weir_decisions_total{bucket="things::thing_id",outcome="allowed"} 1
weir_decisions_total{bucket="things::thing_id",outcome="refused"} 1
`)
	// Account 1 has three buckets, accounts 2 to 5 two each, and the address one.
	same(t, "live", n.scrape("weir_live_buckets"), "weir_live_buckets 12\n")
}

func TestMetricsCountAnswers(t *testing.T) {
	n := start(t, setup{rules: counted})
	for _, ask := range []struct {
		method, url, body string
		status            int
	}{
		{"POST", n.api + "/v1/decide", `{"route":"GET /plain","caller":{"account":"1"}}`, 200},
		{"POST", n.api + "/v1/decide", `{"route":"GET /plain"}`, 200}, // a decision, if a 403
		{"POST", n.api + "/v1/decide", `{"rout":1}`, 400},
		{"POST", n.api + "/v1/decide", "[" + strings.Repeat("1,", 1000) + "1]", 413},
		{"GET", n.api + "/v1/decide", "", 405},
		{"GET", n.api + "/metrics", "", 404},
		{"GET", n.api + "/nope", "", 404},
		{"GET", n.admin + "/nope", "", 404},
		{"PUT", n.admin + "/healthz", "", 405},
		{"GET", n.api + "/healthz", "", 200},
		{"HEAD", n.api + "/healthz", "", 200},
		{"GET", n.admin + "/healthz", "", 200},
		{"GET", n.admin + "/readyz", "", 200},
		{"GET", n.admin + "/v1/cluster", "", 200},
		{"GET", n.admin + "/debug/pprof/", "", 200},
		{"GET", n.admin + "/debug/pprof/heap?seconds=x", "", 400},
		{"GET", n.admin + "/metrics", "", 200},
	} {
		same(t, ask.method+" "+ask.url, n.send(ask.method, ask.url, ask.body).status, ask.status)
	}
	c := dial(t, n.api)
	c.write("\x00 / HTTP/1.1\r\n\r\n")
	same(t, "unreadable", c.read().status, 400)
	n.front.Drain()
	same(t, "draining", n.send("GET", n.api+"/readyz", "").status, 503)

	same(t, "answers", n.scrape("weir_http_requests_total"), `weir_http_requests_total{code="200",endpoint="/debug/pprof/"} 1
weir_http_requests_total{code="200",endpoint="/healthz"} 3
weir_http_requests_total{code="200",endpoint="/metrics"} 1
weir_http_requests_total{code="200",endpoint="/readyz"} 1
weir_http_requests_total{code="200",endpoint="/v1/cluster"} 1
weir_http_requests_total{code="200",endpoint="/v1/decide"} 2
weir_http_requests_total{code="400",endpoint="/debug/pprof/heap"} 1
weir_http_requests_total{code="400",endpoint="/v1/decide"} 1
weir_http_requests_total{code="400",endpoint="none"} 1
weir_http_requests_total{code="404",endpoint="none"} 3
weir_http_requests_total{code="405",endpoint="none"} 2
weir_http_requests_total{code="413",endpoint="/v1/decide"} 1
weir_http_requests_total{code="503",endpoint="/readyz"} 1
`)
}

func TestMetricsOfMembers(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		n, _ := w.start("n1", oneBucket,
			member("n1", ring.Active), member("n2", ring.Active), member("n3", ring.Joining),
			member("n4", ring.Leaving), member("n5", ring.Failed), member("n6", ring.Failed))
		same(t, "members", n.scrape("weir_members"), `weir_members{state="active"} 2
weir_members{state="failed"} 2
weir_members{state="joining"} 1
weir_members{state="leaving"} 1
`)
		// What one of two owns, the other backs up.
		var backup, owner int
		const form = "weir_partitions{role=\"backup\"} %d\nweir_partitions{role=\"owner\"} %d\nweir_partitions{role=\"unreplicated\"} 0\n"
		if _, err := fmt.Sscanf(n.scrape("weir_partitions"), form, &backup, &owner); err != nil {
			t.Fatal(err)
		}
		same(t, "partitions of two", owner+backup, 1021)
		if min(owner, backup) < 1021-639 {
			t.Errorf("owner of %d, backup of %d: beyond the bounded load", owner, backup)
		}
		// Each of n2, n3 and n4 is asked for its clock at the start, and then by
		// this. Nobody is there.
		same(t, "rpc errors before", n.scrape(`weir_rpc_errors_total{kind="unavailable"}`), "weir_rpc_errors_total{kind=\"unavailable\"} 3\n")
		n.send("GET", n.admin+"/v1/cluster", "")
		same(t, "rpc errors", n.scrape(`weir_rpc_errors_total{kind="unavailable"}`), "weir_rpc_errors_total{kind=\"unavailable\"} 6\n")
		time.Sleep(time.Second)
		same(t, "circuits", n.scrape("weir_circuit_open"), "weir_circuit_open 3\n")
	})
}

// A policy without global bucket has no such series.
func TestMetricsWithoutGlobalBucket(t *testing.T) {
	n := start(t, setup{rules: oneBucket})
	n.decide(question)
	same(t, "decisions", n.scrape("weir_decisions_total"), `weir_decisions_total{bucket="plain",outcome="allowed"} 1
weir_decisions_total{bucket="plain",outcome="refused"} 0
`)
}

// Whatever callers send, no label takes it.
func TestMetricsHoldNothingOfCallers(t *testing.T) {
	n := start(t, setup{rules: counted + "allowances: {login: {r: {kind: bucket, key: [email, ticket, phone], limit: 1, window: 1s}}}\n"})
	const marker = "mArKeR"
	for _, subject := range []string{marker, marker + " ", "\\u0000" + marker} { // the second is refused
		n.send("POST", n.api+"/v1/allowances/login", `{"subject":{"email":"`+subject+`","ticket":"`+marker+`","phone":"`+marker+`"}}`)
		n.send("POST", n.api+"/v1/allowances/login", `{"action":"`+subject+`","subject":{"`+subject+`":1}}`)
		n.send("POST", n.api+"/v1/allowances/"+marker, `{}`)
	}
	for _, body := range []string{
		`{"route":"GET /` + marker + `","caller":{"account":"1"}}`,
		`{"buckets":["` + marker + `"],"caller":{"account":"1"}}`,
		`{"` + marker + `":1}`,
		`{"route":"GET /plain","caller":{"account":"` + marker + `","credential":"bearer","application":"` + marker + `","flags":["` + marker + `"]}}`,
		`{"route":"GET /things/:thing_id","params":{"thing_id":"` + marker + `","` + marker + `":"1"},"caller":{"account":"1"}}`,
		`{"route":"POST /mail","email":"` + marker + `@example.org","locale":"` + marker + `","accept_language":"` + marker + `","caller":{"account":"1"}}`,
		`{"route":"GET /plain","when":["` + marker + `"],"caller":{"account":"1"}}`,
	} {
		n.send("POST", n.api+"/v1/decide?"+marker, body)
	}
	for _, address := range []string{n.api, n.admin} {
		n.send("GET", address+"/"+marker, "")
		n.send(strings.ToUpper(marker), address+"/healthz", "")
		n.send(strings.ToUpper(marker), address+"/"+marker, "")
		c := dial(t, address)
		c.write("GET /" + marker + " HTTP/1.1\r\nHost: " + marker + "\r\n" + marker + ": " + marker + "\r\n\r\n")
		same(t, "raw", c.read().status, http.StatusNotFound)
		c = dial(t, address)
		c.write(marker + "\r\n\r\n")
		same(t, "unreadable", c.read().status, http.StatusBadRequest)
	}
	if body := n.send("GET", n.admin+"/metrics", "").body; strings.Contains(strings.ToLower(body), strings.ToLower(marker)) {
		t.Errorf("a label holds what a caller sent:\n%s", body)
	}
	if log := n.log.String(); strings.Contains(strings.ToLower(log), strings.ToLower(marker)) {
		t.Errorf("the log holds what a caller sent:\n%s", log)
	}
}
