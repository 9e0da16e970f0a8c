package httpfront

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// problemText is a problem as it is written out.
type problemText struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field"`
}

// A bad body is told by the member at fault and what would be right.
func TestBadBodies(t *testing.T) {
	n := newFront(t, setup{rules: fuzzRules})
	nested := func(depth int) string { return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth) }
	for _, c := range []struct{ body, field, detail string }{
		// Not JSON.
		{``, "", "malformed JSON at byte 0: unexpected end"},
		{` `, "", "malformed JSON at byte 1: unexpected end"},
		{`x`, "", "malformed JSON at byte 0: invalid character 'x' at start of value"},
		{`{`, "", "malformed JSON at byte 1: unexpected end"},
		{`{"route"`, "route", "malformed JSON at byte 8: unexpected end"},
		{`{"route":`, "route", "malformed JSON at byte 9: unexpected end"},
		{`{"route":"a`, "route", "malformed JSON at byte 11: unexpected end"},
		{`{"caller":{"ip":"a"`, "caller", "malformed JSON at byte 19: unexpected end"},
		{`{"route":"a",}`, "", "malformed JSON at byte 12: invalid character ',' at start of value"},
		{`{"route" "a"}`, "route", `malformed JSON at byte 9: invalid character '"' after object name (expecting ':')`},
		{`{route:1}`, "", "malformed JSON at byte 1: invalid character 'r' at start of value"},
		{`{"route":"a"/**/}`, "", "malformed JSON at byte 12: invalid character '/' after object value (expecting ',' or '}')"},
		{`{"peek":tru}`, "peek", "malformed JSON at byte 11: invalid character '}' in literal true (expecting 'e')"},
		{"\xef\xbb\xbf{}", "", `malformed JSON at byte 0: invalid character '\ufeff' at start of value`},
		{"{\"route\":\"\x01\"}", "route", `malformed JSON at byte 10: invalid character '\x01' in string (expecting non-control character)`},
		{"{\"route\":\"\xff\"}", "route", "malformed JSON at byte 10: invalid UTF-8"},
		{"{\"params\":{\"\xff\":\"1\"}}", "params", "malformed JSON at byte 12: invalid UTF-8"},
		{`{"route":"\x"}`, "route", "malformed JSON at byte 10: invalid escape sequence `\\x` in string"},
		{`{"route":"GET /a"} x`, "", "malformed JSON at byte 19: invalid character 'x' after top-level value"},
		{`{"route":"GET /a"}{}`, "", "malformed JSON at byte 18: invalid character '{' after top-level value"},
		{`{"params":` + nested(20_000) + `}`, "params.a.a.a.a.a.a.a…", "malformed JSON at byte 50005: exceeded max depth"},

		// Not the JSON that is wanted.
		{`null`, "route", "give a route, or buckets"},
		{`7`, "", "a JSON object is wanted, not a number"},
		{`"x"`, "", "a JSON object is wanted, not a string"},
		{`true`, "", "a JSON object is wanted, not a boolean"},
		{`{"colour":1}`, "colour", "unknown member"},
		{`{"colour":{"a":[1]}}`, "colour", "unknown member"},
		{`{"Route":"GET /a"}`, "Route", "unknown member"},
		{`{"caller":{"colour":1}}`, "caller.colour", "unknown member"},
		{`{"test":{"colour":1}}`, "test.colour", "unknown member"},
		{`{"route":"a","route":"b"}`, "route", "the member is given twice"},
		{`{"caller":{"ip":"a","ip":"b"}}`, "caller.ip", "the member is given twice"},
		{`{"params":{"a":"1","\u0061":"2"}}`, "params.a", "the member is given twice"},
		{`{"route":7}`, "route", "a string is wanted, not a number"},
		{`{"route":["GET /a"]}`, "route", "a string is wanted, not an array"},
		{`{"route":{}}`, "route", "a string is wanted, not an object"},
		{`{"route":false}`, "route", "a string is wanted, not a boolean"},
		{`{"peek":"yes"}`, "peek", "true or false is wanted, not a string"},
		{`{"peek":1}`, "peek", "true or false is wanted, not a number"},
		{`{"buckets":"a"}`, "buckets", "an array is wanted, not a string"},
		{`{"buckets":[` + strings.Repeat(`"a",`, 1024) + `7]}`, "buckets", "more than 1024 elements"},
		{`{"buckets":[` + strings.Repeat(`"a",`, 1023) + `"a"]}`, "buckets", "1024 buckets, at most 64"},
		{`{"caller":{"flags":[` + strings.Repeat(`"",`, 1024) + `""]}}`, "caller.flags", "more than 1024 elements"},
		{`{"buckets":["a",7]}`, "buckets[1]", "a string is wanted, not a number"},
		{`{"when":{}}`, "when", "an array is wanted, not an object"},
		{`{"params":[]}`, "params", "an object is wanted, not an array"},
		{`{"params":{"id":42}}`, "params.id", "a string is wanted, not a number"},
		{`{"params":{"a.b/c~d":5}}`, "params.a.b/c~d", "a string is wanted, not a number"},
		{`{"params":{"` + strings.Repeat("x", 600) + `":5}}`, "params…", "a string is wanted, not a number"},
		{`{"params":` + nested(20) + `}`, "params.a", "a string is wanted, not an object"},
		{`{"caller":[]}`, "caller", "an object is wanted, not an array"},
		{`{"caller":{"credential":5}}`, "caller.credential", "a string is wanted, not a number"},
		{`{"caller":{"bot":"x"}}`, "caller.bot", "true or false is wanted, not a string"},
		{`{"caller":{"flags":["x",[]]}}`, "caller.flags[1]", "a string is wanted, not an array"},
		{`{"test":5}`, "test", "an object is wanted, not a number"},
		{`{"test":{"global_limit":1.5}}`, "test.global_limit", "an integer is wanted, not 1.5"},
		{`{"test":{"global_limit":1e3}}`, "test.global_limit", "an integer is wanted, not 1e3"},
		{`{"test":{"global_limit":"3"}}`, "test.global_limit", "an integer is wanted, not a string"},
		{`{"test":{"global_limit":` + strings.Repeat("9", 41) + `}}`, "test.global_limit", "an integer is wanted, not a number"},

		// JSON that the policy does not know.
		{`{}`, "route", "give a route, or buckets"},
		{`{"buckets":[]}`, "buckets", "name at least one bucket"},
		{`{"route":"GET /a","buckets":["a"]}`, "buckets", "give route or buckets, not both"},
		{`{"route":"GET /\"x"}`, "route", `unknown route "GET /\"x"`},
		{`{"buckets":["nope"]}`, "buckets", `unknown bucket "nope"`},
		{`{"route":"GET /b/:id"}`, "params.id", `missing; the bucket "b::id" of this route is counted for each`},

		// Arrays.
		{`[`, "", "malformed JSON at byte 1: unexpected end"},
		{`[1,`, "", "malformed JSON at byte 3: unexpected end"},
		{`[1,]`, "", "malformed JSON at byte 2: invalid character ',' at start of value"},
		{`[1 2]`, "", "malformed JSON at byte 3: invalid character '2' after array element (expecting ',' or ']')"},
		{`[}`, "", "malformed JSON at byte 1: invalid character '}' at start of value"},
		{`[{"route":"GET /a"}] x`, "", "malformed JSON at byte 21: invalid character 'x' at start of value"},
		{`[{"route":"GET /a"}]]`, "", "malformed JSON at byte 20: invalid character ']' at start of value"},
		{`[{"route":"GET /a"}][]`, "", "something follows the JSON text"},
		{` [{"route":"GET /a"}] null`, "", "something follows the JSON text"},
		{`[]`, "", "an empty array asks nothing"},
		{strings.Repeat("[", 20_000), "", "malformed JSON at byte 10000: exceeded max depth"},
	} {
		a := n.front.decide(&request{context: t.Context(), body: []byte(c.body)})
		p := parse[problemText](t, string(a.body))
		want := problemText{"about:blank", "Bad Request", 400, c.detail, c.field}
		if a.status != http.StatusBadRequest || p != want {
			t.Errorf("%.80q: HTTP %d\n got %+v\nwant %+v", c.body, a.status, p, want)
		}
	}
	long := n.front.decide(&request{context: t.Context(), body: []byte(elements(1001, "{}"))})
	same(t, "1,001 elements", long.status, 413)
	same(t, "1,001 elements", string(long.body),
		`{"type":"about:blank","title":"Request Entity Too Large","status":413,"detail":"more than 1000 requests in one array"}`)
}

// A bad element says what a body of its own would have said.
func TestBadElements(t *testing.T) {
	n := newFront(t, setup{rules: fuzzRules})
	a := n.front.decide(&request{context: t.Context(), body: []byte(
		"[7, {\"colour\":1}, {\"route\":\"\xff\"}, {\"peek\":1,\"peek\":1}, [], null, {\"caller\":{\"flags\":[7]},\"route\":\"GET /a\"}]")})
	same(t, "status", a.status, 200)
	problem := func(detail, field string) string {
		text := `{"error":{"type":"about:blank","title":"Bad Request","status":400,"detail":"` + detail + `"`
		if field != "" {
			text += `,"field":"` + field + `"`
		}
		return text + "}}"
	}
	same(t, "answers", string(a.body), "["+strings.Join([]string{
		problem("a JSON object is wanted, not a number", ""),
		problem("unknown member", "colour"),
		problem("malformed JSON at byte 10: invalid UTF-8", "route"),
		problem("true or false is wanted, not a number", "peek"),
		problem("a JSON object is wanted, not an array", ""),
		problem("give a route, or buckets", "route"),
		problem("a string is wanted, not a number", "caller.flags[0]"),
	}, ",")+"]")
}

func TestFieldPath(t *testing.T) {
	for pointer, want := range map[jsontext.Pointer]string{
		"":                     "",
		"/caller":              "caller",
		"/caller/flags/2":      "caller.flags[2]",
		"/caller/flags/12/3":   "caller.flags[12][3]",
		"/params/a~1b~0c":      "params.a/b~c",
		"/params/1a":           "params.1a",
		"/params/-1":           "params.-1",
		"/a/b/c/d/e/f/g/h":     "a.b.c.d.e.f.g.h",
		"/a/b/c/d/e/f/g/h/i":   "a.b.c.d.e.f.g.h…",
		"/a/b/c/d/e/f/g/h/i/j": "a.b.c.d.e.f.g.h…",
		jsontext.Pointer("/" + strings.Repeat("x", 512)):   strings.Repeat("x", 512),
		jsontext.Pointer("/" + strings.Repeat("x", 513)):   "…",
		jsontext.Pointer("/a/" + strings.Repeat("x", 512)): "a…",
	} {
		same(t, string(pointer), fieldPath(pointer), want)
	}
}
