package httpfront

import (
	"context"
	"maps"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
)

// listener is a set of the ports that an endpoint is served on.
type listener uint8

const (
	onAPI listener = 1 << iota
	onAdmin
)

// role is what a caller must be to use an endpoint once tokens are in force.
type role uint8

const (
	roleNone role = iota + 1 // anybody
	roleDecide
	roleMetrics
	roleAdmin
)

// request is what a handler sees of an HTTP request.
type request struct {
	context         context.Context
	contentType     string
	contentEncoding string
	body            []byte // valid until the handler returns
	name            string // the last segment of the path, where that is a parameter
}

// answer is what a handler has written.
type answer struct {
	status      int
	contentType string
	headers     []header // beside Content-Type
	body        []byte
}

type header struct{ name, value string }

// endpoint is one row of the table that both listeners are built from.
type endpoint struct {
	method   string
	path     string // its last segment may be a parameter in braces
	listener listener
	role     role
	handle   func(*request) answer // nil if raw serves it
	raw      http.Handler          // for libraries that speak net/http; admin listener only
}

// endpoints returns the table of everything that is served. GET serves HEAD.
func (f *Front) endpoints() []endpoint {
	return []endpoint{
		{method: http.MethodPost, path: "/v1/decide", listener: onAPI, role: roleDecide, handle: f.deciding(f.decide)},
		{method: http.MethodPost, path: "/v1/allowances/{operation}", listener: onAPI, role: roleDecide, handle: f.deciding(f.allowance)},
		{method: http.MethodGet, path: "/healthz", listener: onAPI | onAdmin, role: roleNone, handle: f.healthz},
		{method: http.MethodGet, path: "/readyz", listener: onAPI | onAdmin, role: roleNone, handle: f.readyz},
		{method: http.MethodGet, path: "/metrics", listener: onAdmin, role: roleMetrics, raw: f.metrics.handler()},
		{method: http.MethodGet, path: "/v1/cluster", listener: onAdmin, role: roleAdmin, handle: f.describeCluster},
		{method: http.MethodGet, path: "/debug/pprof/", listener: onAdmin, role: roleAdmin, raw: http.HandlerFunc(pprof.Index)},
		{method: http.MethodGet, path: "/debug/pprof/allocs", listener: onAdmin, role: roleAdmin, raw: pprof.Handler("allocs")},
		{method: http.MethodGet, path: "/debug/pprof/block", listener: onAdmin, role: roleAdmin, raw: pprof.Handler("block")},
		{method: http.MethodGet, path: "/debug/pprof/goroutine", listener: onAdmin, role: roleAdmin, raw: pprof.Handler("goroutine")},
		{method: http.MethodGet, path: "/debug/pprof/heap", listener: onAdmin, role: roleAdmin, raw: pprof.Handler("heap")},
		{method: http.MethodGet, path: "/debug/pprof/mutex", listener: onAdmin, role: roleAdmin, raw: pprof.Handler("mutex")},
		{method: http.MethodGet, path: "/debug/pprof/threadcreate", listener: onAdmin, role: roleAdmin, raw: pprof.Handler("threadcreate")},
		{method: http.MethodGet, path: "/debug/pprof/cmdline", listener: onAdmin, role: roleAdmin, raw: http.HandlerFunc(pprof.Cmdline)},
		{method: http.MethodGet, path: "/debug/pprof/profile", listener: onAdmin, role: roleAdmin, raw: http.HandlerFunc(pprof.Profile)},
		{method: http.MethodGet, path: "/debug/pprof/symbol", listener: onAdmin, role: roleAdmin, raw: http.HandlerFunc(pprof.Symbol)},
		{method: http.MethodGet, path: "/debug/pprof/trace", listener: onAdmin, role: roleAdmin, raw: http.HandlerFunc(pprof.Trace)},
	}
}

// router finds the endpoint for a method and a path of one listener.
type router map[string]map[string]endpoint // path, then method

// parameter stands for a path's last segment if that is a parameter.
const parameter = "{}"

func newRouter(endpoints []endpoint, on listener) router {
	r := make(router)
	for _, e := range endpoints {
		if e.listener&on == 0 {
			continue
		}
		path := e.path
		if before, _, found := strings.Cut(path, "{"); found {
			path = before + parameter
		}
		if r[path] == nil {
			r[path] = make(map[string]endpoint)
		}
		r[path][e.method] = e
	}
	return r
}

// find returns the endpoint, with what stands for its path's parameter, or the
// problem to answer if there is none.
func (r router) find(method, path string) (endpoint, string, *problem) {
	name := ""
	methods, ok := r[path]
	if !ok {
		last := strings.LastIndexByte(path, '/') + 1
		name = path[last:]
		methods, ok = r[path[:last]+parameter]
	}
	if !ok {
		return endpoint{}, "", &problem{status: http.StatusNotFound, detail: "there is nothing at this path"}
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	e, ok := methods[method]
	if !ok {
		allowed := slices.Collect(maps.Keys(methods))
		if _, ok := methods[http.MethodGet]; ok {
			allowed = append(allowed, http.MethodHead)
		}
		slices.Sort(allowed)
		return endpoint{}, "", &problem{
			status:  http.StatusMethodNotAllowed,
			detail:  "this path has another method",
			headers: []header{{"Allow", strings.Join(allowed, ", ")}},
		}
	}
	return e, name, nil
}
