package httpfront

import (
	"strings"
	"testing"
)

const question = `{"route":"GET /plain","caller":{"account":"1"}}`

func unready(detail string) string {
	return `{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"` + detail + `"}`
}

// checkUnready wants a problem that tells to come back and looks like no decision.
func checkUnready(t *testing.T, what string, r reply, detail string) {
	t.Helper()
	same(t, what, r.status, 503)
	same(t, what, r.body, unready(detail))
	same(t, what, r.header.Get("Content-Type"), "application/problem+json")
	same(t, what, strings.Join(r.header["Retry-After"], "|"), "1")
}

func TestBeforeReady(t *testing.T) {
	n := start(t, setup{rules: oneBucket, notReady: true})
	for _, address := range []string{n.api, n.admin} {
		checkUnready(t, "readyz", n.send("GET", address+"/readyz", ""), "joining")
		r := n.send("GET", address+"/healthz", "")
		same(t, "healthz", r.status, 200)
		same(t, "healthz", r.body, "ok\n")
		same(t, "healthz", r.closes, false)
	}
	for _, body := range []string{question, "[" + question + "]", strings.TrimSuffix(question, "}") + `,"peek":true}`, "", "x"} {
		checkUnready(t, body, n.send("POST", n.api+"/v1/decide", body), "this node is not ready to decide")
	}

	n.front.SetReady()
	for _, address := range []string{n.api, n.admin} {
		r := n.send("GET", address+"/readyz", "")
		same(t, "readyz", r.status, 200)
		same(t, "readyz", r.body, "ready\n")
		same(t, "readyz", r.header.Get("Retry-After"), "")
	}
	// Nothing had been taken.
	same(t, "decided", n.decide(question),
		`{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[{"bucket":"plain","allowed":true,"limit":2,"remaining":1,"retry_after":0,"reset_after":5}]}`)
}

func TestDraining(t *testing.T) {
	n := start(t, setup{rules: oneBucket})
	// A connection from before ends behind its next answer, a new one behind
	// its first.
	before := map[string]*connection{}
	for _, address := range []string{n.api, n.admin} {
		before[address] = dial(t, address)
		before[address].write("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
		r := before[address].read()
		same(t, "before", r.status, 200)
		same(t, "before", r.closes, false)
	}
	n.front.Drain()
	n.front.SetReady() // changes nothing any more
	for address, c := range before {
		for _, c := range []*connection{c, dial(t, address)} {
			c.write("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
			r := c.read()
			checkUnready(t, "readyz", r, "draining")
			if !r.closes || !c.ended() {
				t.Error("the connection goes on")
			}
		}
		r := n.send("GET", address+"/healthz", "")
		same(t, "healthz", r.status, 200)
		same(t, "healthz", r.closes, true)
	}
	r := n.send("POST", n.api+"/v1/decide", question)
	same(t, "decided", r.status, 200)
	same(t, "decided", r.closes, true)
	same(t, "decided", r.body,
		`{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[{"bucket":"plain","allowed":true,"limit":2,"remaining":1,"retry_after":0,"reset_after":5}]}`)
	for path, status := range map[string]int{"/metrics": 200, "/v1/cluster": 200, "/debug/pprof/": 200, "/nope": 404} {
		r := n.send("GET", n.admin+path, "")
		same(t, path, r.status, status)
		same(t, path, r.closes, true)
	}
}

// A node that stops before it has ever been ready decides nothing meanwhile: it
// knows no owners yet.
func TestDrainingBeforeReady(t *testing.T) {
	n := start(t, setup{rules: oneBucket, notReady: true})
	n.front.Drain()
	r := n.send("POST", n.api+"/v1/decide", question)
	checkUnready(t, "decide", r, "this node is not ready to decide")
	same(t, "decide", r.closes, true)
	checkUnready(t, "readyz", n.send("GET", n.api+"/readyz", ""), "draining")
}
