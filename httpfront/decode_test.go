package httpfront

import (
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

const decodeRules = `
version: 1
global: {limit: 1000000, window: 1s}
buckets:
  "a": {limit: 1000000, window: 1s}
  "b::id": {limit: 1000000, window: 1s}
  "m": {limit: 1000000, window: 1s, keyed_by: email}
routes:
  GET /a: ["a"]
  GET /b/:id: ["b::id", "a?more", "m"]
`

// A bad body is told by the member at fault and what would be right.
func TestBadBodies(t *testing.T) {
	n := newFront(t, setup{rules: decodeRules})
	n.front.SetReady()
	for _, c := range []struct{ body, field, detail string }{
		{``, "", "malformed JSON at byte 0: unexpected end"},
		{`{`, "", "malformed JSON at byte 1: unexpected end"},
		{`{"route":`, "route", "malformed JSON at byte 9: unexpected end"},
		{`null`, "route", "give a route, or buckets"},
		{`7`, "", "a JSON object is wanted, not a number"},
		{`"x"`, "", "a JSON object is wanted, not a string"},
		{`{"colour":1}`, "colour", "unknown member"},
		{`{"Route":"GET /a"}`, "Route", "unknown member"},
		{`{"caller":{"colour":1}}`, "caller.colour", "unknown member"},
		{`{"route":7}`, "route", "a string is wanted, not a number"},
		{`{"route":["GET /a"]}`, "route", "a string is wanted, not an array"},
		{`{"peek":"yes"}`, "peek", "true or false is wanted, not a string"},
		{`{"buckets":"a"}`, "buckets", "an array is wanted, not a string"},
		{`{"buckets":["a",7]}`, "buckets[1]", "a string is wanted, not a number"},
		{`{"params":[]}`, "params", "an object is wanted, not an array"},
		{`{"params":{"id":42}}`, "params.id", "a string is wanted, not a number"},
		{`{"caller":{"flags":[[]]}}`, "caller.flags[0]", "a string is wanted, not an array"},
		{`{"route":"GET /a","route":"GET /a"}`, "route", "the member is given twice"},
		{`{"params":{"id":"1","id":"2"}}`, "params.id", "the member is given twice"},
		{`{"route":"GET /a"} x`, "", "malformed JSON at byte 19: invalid character 'x' after top-level value"},
		{`[{"route":"GET /a"}] x`, "", "malformed JSON at byte 21: invalid character 'x' at start of value"},
		{`[{"route":"GET /a"}][]`, "", "something follows the JSON text"},
		{`[]`, "", "an empty array asks nothing"},
	} {
		a := n.front.decide(&request{context: t.Context(), body: []byte(c.body)})
		var p struct {
			Status        int
			Detail, Field string
		}
		if err := json.Unmarshal(a.body, &p); err != nil {
			t.Fatalf("%s: %v in %s", c.body, err, a.body)
		}
		if a.status != http.StatusBadRequest || p.Status != a.status || p.Field != c.field || p.Detail != c.detail {
			t.Errorf("%s: %d, field %q, detail %q; want 400, %q, %q", c.body, a.status, p.Field, p.Detail, c.field, c.detail)
		}
	}
}

// FuzzDecide sends any body: the answer is JSON, a bad request is never a
// decision, an array gets as many answers as it has elements, and memory stays
// in proportion to the body.
func FuzzDecide(f *testing.F) {
	for _, seed := range []string{
		`{"route":"GET /a","caller":{"account":"1"}}`,
		`{"route":"GET /b/:id","params":{"id":"42"},"when":["more"],"email":"a@b.c","caller":{"ip":"2001:db8::1"}}`,
		`{"buckets":["a","b::id"],"params":{"id":"42"},"caller":{"account":"1","credential":"bearer","application":"x","bot":true,"flags":["F"]}}`,
		`{"route":"GET /a","peek":true,"locale":"pt-BR","accept_language":"pt;q=0.8, *;q=0"}`,
		`{"route":"GET /a","test":{"enforce":true,"global_limit":3}}`,
		`[{"route":"GET /a"},{"route":"GET /nope"},7,null,"x",[],{"route":"GET /a","peek":true}]`,
		`[` + strings.Repeat(`{},`, 1000) + `{}]`,
		`{"route":"GET /a","route":"GET /a"}`,
		`{"route":"GET /a","caller":{"account":"` + strings.Repeat("x", 300) + `"}}`,
		`{"route":"GET /b/:id","params":{"id":"` + "\xff\xfe" + `"}}`,
		`{"route":"GET /b/:id","params":{"id":"\u0000"}}`,
		`{"route":"GET /b/:id","params":{"id":"\ud800"}}`,
		"{\"route\":\"GET /a\x00\"}",
		`{"test":{"global_limit":1e400}}`, `{"test":{"global_limit":1.5}}`,
		`{"test":{"global_limit":99999999999999999999999999}}`,
		strings.Repeat(`[`, 20_000), strings.Repeat(`{"a":`, 20_000), strings.Repeat(`{"caller":`, 10_000),
		``, ` `, `[]`, `[ ]`, `{}`, `null`, `[1,]`, `[1 2]`, "\xef\xbb\xbf{}", `{"route":"GET /a"}{"route":"GET /a"}`,
	} {
		f.Add([]byte(seed))
	}
	n := newFront(f, setup{rules: decodeRules})
	n.front.SetReady()
	f.Fuzz(func(t *testing.T, body []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := n.front.decide(&request{context: t.Context(), body: body})
		runtime.ReadMemStats(&after)
		// The answers of a thousand elements outweigh the shortest of them.
		if used, most := after.TotalAlloc-before.TotalAlloc, uint64(8<<20+64*len(body)); used > most {
			t.Errorf("%d bytes of body allocate %d, at most %d", len(body), used, most)
		}
		if !json.Valid(a.body) {
			t.Fatalf("the answer is no JSON: %q", a.body)
		}
		switch a.status {
		case http.StatusOK:
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			if strings.Contains(string(a.body), `"allowed"`) {
				t.Errorf("HTTP %d with a decision: %s", a.status, a.body)
			}
			return
		default:
			t.Fatalf("HTTP %d: %s", a.status, a.body)
		}
		var asked, answers []json.RawMessage
		if json.Unmarshal(body, &asked) == nil && asked != nil {
			if err := json.Unmarshal(a.body, &answers); err != nil || len(answers) != len(asked) {
				t.Errorf("%d requests, %d answers, %v", len(asked), len(answers), err)
			}
		}
	})
}
