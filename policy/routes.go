package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	maxRouteBuckets = 16 // bounds the work of one decision
	maxPathBytes    = 2048
	maxSegments     = 64
)

func (r *reader) routes(v *yamlValue, declared declaredBuckets) {
	if v == nil || !r.isMapping(v, "routes", `GET /guilds/:guild_id: ["guild:read::guild_id"]`) {
		return
	}
	if len(v.entries) > maxEntries {
		r.add(v.line, "%d routes; a policy has at most %d", len(v.entries), maxEntries)
		return
	}
	shapes := map[string]yamlEntry{}
	for _, e := range r.distinct(v, "route", "the policy") {
		route, shape, err := parseRoute(e.name)
		if err != nil {
			r.add(e.line, "route %s: %v", inQuotes(e.name), err)
			continue
		}
		if first, twice := shapes[shape]; twice {
			r.add(e.line, "route %s matches what %s in line %d matches; keep one", inQuotes(e.name), inQuotes(first.name), first.line)
			continue
		}
		shapes[shape] = e
		r.routeBuckets(route, e, declared)
		r.policy.Routes = append(r.policy.Routes, route)
		r.policy.routeNamed[route.Name] = route
	}
}

// parseRoute takes a route's name apart. The shape is the name less what the
// parameters are called: two routes of one shape match the same requests.
func parseRoute(name string) (route *Route, shape string, err error) {
	const methods = "GET HEAD POST PUT PATCH DELETE OPTIONS"
	method, path, ok := strings.Cut(name, " ")
	if !ok || !slices.Contains(strings.Fields(methods), method) {
		return nil, "", fmt.Errorf("no known method in front; write one of %s, a space and the path", methods)
	}
	if !strings.HasPrefix(path, "/") {
		return nil, "", errors.New("the path does not begin with /; write one space after the method, then a path such as /guilds/:guild_id")
	}
	if len(path) > maxPathBytes || strings.Count(path, "/") > maxSegments {
		return nil, "", fmt.Errorf("the path is too long; write at most %d bytes and %d segments", maxPathBytes, maxSegments)
	}
	route = &Route{Name: name, Method: method, Path: path}
	segments := strings.Split(path[1:], "/")
	shapes := make([]string, len(segments))
	for i, segment := range segments {
		last := i == len(segments)-1
		shapes[i] = segment
		if parameter, ok := strings.CutPrefix(segment, ":"); ok {
			if !isName(parameter) {
				return nil, "", fmt.Errorf("malformed parameter %s; write letters, digits and _, such as :guild_id", inQuotes(segment))
			}
			if route.HasParam(parameter) {
				return nil, "", fmt.Errorf("the parameter %s twice; call one of them differently", inQuotes(segment))
			}
			route.Params = append(route.Params, parameter)
			shapes[i] = ":"
			continue
		}
		switch {
		case segment == "" && last, segment == "*" && last:
		case segment == "":
			return nil, "", errors.New("an empty segment; write one / between segments")
		case strings.Contains(segment, "*"):
			return nil, "", fmt.Errorf("a * in %s; it can only be the whole last segment, as in /dl/*", inQuotes(segment))
		case segment == "." || segment == "..":
			return nil, "", fmt.Errorf("the segment %s, which no request has; write the path that it leads to", inQuotes(segment))
		case strings.ContainsAny(segment, "{}"):
			return nil, "", fmt.Errorf("a brace in %s; write a parameter with a colon, such as :guild_id", inQuotes(segment))
		case strings.Contains(segment, "%"):
			return nil, "", fmt.Errorf("a %% in %s; write the character itself, for paths are matched decoded", inQuotes(segment))
		case !isWord(segment) || strings.ContainsAny(segment, "?#"):
			return nil, "", fmt.Errorf("malformed segment %s; write up to 256 bytes of printable characters without spaces, ? and #", inQuotes(segment))
		}
	}
	return route, method + " /" + strings.Join(shapes, "/"), nil
}

// routeBuckets reads the list of buckets that a route counts.
func (r *reader) routeBuckets(route *Route, e yamlEntry, declared declaredBuckets) {
	of := "route " + inQuotes(e.name)
	v := e.value
	if v.kind == yamlInvalid {
		return
	}
	if v.kind != yamlList {
		r.add(v.line, `%s: its buckets are %s; write a list such as ["guild:read::guild_id"], [] for none`, of, v.shown())
		return
	}
	if len(v.items) > maxRouteBuckets {
		r.add(v.line, "%s has %d buckets; a route has at most %d", of, len(v.items), maxRouteBuckets)
		return
	}
	counted := map[string]bool{}
	for _, item := range v.items {
		text, ok := r.text(item, "a bucket of "+of, `"guild:read::guild_id"`)
		if !ok {
			continue
		}
		name, condition, conditional := strings.Cut(text, "?")
		if conditional && !isCondition(condition) {
			r.add(item.line, "%s: malformed condition %s; write a small letter, then small letters, digits and _, such as ?group", of, inQuotes(condition))
			continue
		}
		if !declared.known[name] {
			r.unknownBucket(item.line, of, name, declared.names)
			continue
		}
		if counted[name] {
			r.add(item.line, "%s has the bucket %s twice; keep one", of, inQuotes(name))
			continue
		}
		counted[name] = true
		bucket := r.policy.bucketNamed[name]
		if bucket == nil {
			continue // declared, with an error of its own
		}
		route.Buckets = append(route.Buckets, RouteBucket{Bucket: bucket, Condition: condition})
		if conditional {
			r.policy.conditions[condition] = true
		}
		r.warnUnfilled(item.line, route, bucket)
	}
}

func (r *reader) unknownBucket(line int, of, name string, names []string) {
	right := "declare it under buckets"
	// Looking for the nearest name among thousands is slow, and only errors
	// that are shown profit from it.
	if r.suggested++; r.suggested <= maxProblems {
		if near, ok := nearest(name, names); ok {
			right = "did you mean " + inQuotes(near) + "?"
		}
	}
	r.add(line, "%s: no bucket is called %s; %s", of, inQuotes(name), right)
}

// warnUnfilled warns of placeholders that stay as they are declared: all values
// of the resource then share one allowance.
func (r *reader) warnUnfilled(line int, route *Route, b *Bucket) {
	var unfilled []string
	for _, name := range b.Placeholders {
		if !route.HasParam(name) {
			unfilled = append(unfilled, ":"+name)
		}
	}
	if len(unfilled) > 0 {
		list := strings.Join(unfilled, " and ")
		r.warnings.add(line, "route %s has no parameter %s for bucket %s, which stays unfilled; call a parameter of the path so, or drop it from the bucket's name",
			inQuotes(route.Name), list, inQuotes(b.Name))
	}
}

// isCondition reports whether s is a small letter, then small letters, digits
// and _.
func isCondition(s string) bool {
	return isName(s) && s[0] != '_' && s == strings.ToLower(s)
}
