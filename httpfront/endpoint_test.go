package httpfront

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const oneBucket = "version: 1\nbuckets: {plain: {limit: 2, window: 10s}}\nroutes: {GET /plain: [plain]}\n"

// served is everything that is served: method, path, listeners, role.
var served = []string{
	"POST /v1/decide api decide",
	"POST /v1/allowances/{operation} api decide",
	"GET /healthz api+admin none",
	"GET /readyz api+admin none",
	"GET /metrics admin metrics",
	"GET /v1/cluster admin admin",
	"GET /debug/pprof/ admin admin",
	"GET /debug/pprof/allocs admin admin",
	"GET /debug/pprof/block admin admin",
	"GET /debug/pprof/goroutine admin admin",
	"GET /debug/pprof/heap admin admin",
	"GET /debug/pprof/mutex admin admin",
	"GET /debug/pprof/threadcreate admin admin",
	"GET /debug/pprof/cmdline admin admin",
	"GET /debug/pprof/profile admin admin",
	"GET /debug/pprof/symbol admin admin",
	"GET /debug/pprof/trace admin admin",
}

func TestTableOfEndpoints(t *testing.T) {
	listeners := map[listener]string{onAPI: "api", onAdmin: "admin", onAPI | onAdmin: "api+admin"}
	roles := map[role]string{roleNone: "none", roleDecide: "decide", roleMetrics: "metrics", roleAdmin: "admin"}
	var got []string
	for _, e := range newFront(t, setup{rules: oneBucket}).front.endpoints() {
		got = append(got, fmt.Sprintf("%s %s %s %s", e.method, e.path, listeners[e.listener], roles[e.role]))
		if (e.handle == nil) == (e.raw == nil) {
			t.Errorf("%s: it takes exactly one of handle and raw", e.path)
		}
		if e.raw != nil && e.listener != onAdmin {
			t.Errorf("%s: only the admin listener speaks net/http", e.path)
		}
	}
	same(t, "endpoints", strings.Join(got, "\n"), strings.Join(served, "\n"))
}

// Each endpoint answers on its listeners and nowhere else, to its method and no
// other.
func TestWhereEndpointsAnswer(t *testing.T) {
	n := start(t, setup{rules: oneBucket + "allowances: {\"greet\": {r: {kind: bucket, key: account, limit: 9, window: 9s}}}\n"})
	const (
		nothing = `{"type":"about:blank","title":"Not Found","status":404,"detail":"there is nothing at this path"}`
		another = `{"type":"about:blank","title":"Method Not Allowed","status":405,"detail":"this path has another method"}`
	)
	for _, row := range served {
		field := strings.Fields(row)
		method, path := field[0], field[1]
		body, ask := "", path
		switch path {
		case "/v1/decide":
			body = `{"route":"GET /plain","caller":{"account":"1"}}`
		case "/v1/allowances/{operation}":
			ask, body = "/v1/allowances/greet", `{"subject":{"account":"1"}}`
		case "/debug/pprof/profile":
			ask += "?seconds=1"
		case "/debug/pprof/trace":
			ask += "?seconds=0.001"
		}
		for name, address := range map[string]string{"api": n.api, "admin": n.admin} {
			what := method + " " + path + " on " + name
			if !strings.Contains("+"+field[2]+"+", "+"+name+"+") {
				r := n.send(method, address+ask, body)
				same(t, what, r.status, 404)
				same(t, what, r.body, nothing)
				same(t, what, r.header.Get("Content-Type"), "application/problem+json")
				continue
			}
			if r := n.send(method, address+ask, body); r.status != 200 {
				t.Errorf("%s: HTTP %d %.200s", what, r.status, r.body)
			}
			for _, other := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"} {
				if other == method || other == "HEAD" && method == "GET" {
					continue
				}
				r := n.send(other, address+path, "")
				allow := method
				if method == "GET" {
					allow = "GET, HEAD"
				}
				same(t, other+" "+path, r.status, 405)
				same(t, other+" "+path, strings.Join(r.header["Allow"], "|"), allow)
				same(t, other+" "+path, r.header.Get("Content-Type"), "application/problem+json")
				if other != "HEAD" {
					same(t, other+" "+path, r.body, another)
				}
			}
		}
	}
}

// HEAD is a GET whose answer ends behind its headers.
func TestHead(t *testing.T) {
	n := start(t, setup{rules: oneBucket})
	for _, at := range []struct{ address, path, length string }{
		{n.api, "/healthz", "3"}, {n.api, "/readyz", "6"}, {n.admin, "/healthz", "3"}, {n.admin, "/readyz", "6"},
	} {
		c := dial(t, at.address)
		// A second request on the connection finds no stray body before its answer.
		for range 2 {
			c.write("HEAD " + at.path + " HTTP/1.1\r\nHost: x\r\n\r\n")
			resp, err := http.ReadResponse(c.reader, &http.Request{Method: "HEAD"})
			if err != nil {
				t.Fatal(err)
			}
			same(t, at.path, resp.StatusCode, 200)
			same(t, at.path, resp.Header.Get("Content-Length"), at.length)
			same(t, at.path, resp.Header.Get("Content-Type"), "text/plain; charset=utf-8")
		}
	}
	for _, path := range []string{"/metrics", "/v1/cluster", "/debug/pprof/"} {
		r := n.send("HEAD", n.admin+path, "")
		same(t, path, r.status, 200)
		same(t, path, r.body, "")
	}
	r := n.send("HEAD", n.api+"/nope", "")
	same(t, "no such path", r.status, 404)
	same(t, "no such path", r.body, "")
}

// Other spellings of a path are other paths, or that very one; they are never
// served by the wrong listener.
func TestSpellingsOfPaths(t *testing.T) {
	n := start(t, setup{rules: oneBucket})
	for _, path := range []string{
		"/", "/v1", "/v1/decide/", "/V1/decide", "/healthz/", "/metrics", "//metrics", "/%6detrics", "/healthz/../metrics",
		"/v1/cluster", "/healthz%00", "/healthz;x", "/debug/pprof/heap", "/healthz/..%2fmetrics", "/v1/%2e%2e/debug/pprof/",
	} {
		c := dial(t, n.api)
		c.write("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
		r := c.read()
		if r.status != 404 && r.status != 400 || !strings.HasPrefix(r.body, `{"type":"about:blank"`) {
			t.Errorf("%s: HTTP %d %s", path, r.status, r.body)
		}
	}
	same(t, "query", n.send("GET", n.api+"/healthz?a=1", "").status, 200)
	same(t, "query on admin", n.send("GET", n.admin+"/healthz?a=1", "").status, 200)
}
