package httpfront

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

const fuzzRules = `version: 1
global: {limit: 50, window: 1s}
bypass_flag: FREE
buckets:
  "a": {limit: 2, window: 1s}
  "b::id": {limit: 1000000, window: 1s}
  "m": {limit: 1, window: 1s, keyed_by: email}
routes:
  GET /a: ["a"]
  GET /b/:id: ["b::id", "a?more", "m"]
  GET /none: []
`

// elements returns an array of so many times the text.
func elements(n int, text string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(text+",", n), ",") + "]"
}

var fuzzSeeds = []string{
	// What is right.
	`{"route":"GET /a","caller":{"account":"1"}}`,
	`{"route":"GET /none","caller":{"ip":"192.0.2.1"}}`,
	`{"route":"GET /a"}`,
	`{"route":"GET /b/:id","params":{"id":"42"},"when":["more"],"email":"a@b.c","caller":{"ip":"2001:db8::1%eth0"}}`,
	`{"buckets":["a","b::id"],"params":{"id":"42"},"caller":{"account":"1","credential":"bearer","application":"x","bot":true,"flags":["FREE"]}}`,
	`{"route":"GET /a","peek":true,"locale":"pt-BR","accept_language":"pt;q=0.8, *;q=0","caller":{"account":"1","credential":"bot"}}`,
	`{"route":null,"buckets":["a"],"params":null,"caller":{"account":"1","credential":null,"bot":null,"flags":null},"test":null}`,
	" \t\r\n{ \"route\" : \"GET /a\" , \"caller\" : { \"account\" : \"\\u0031\" } }\r\n",
	elements(3, `{"route":"GET /a","caller":{"account":"1"}}`),
	"\n[" + `{"route":"GET /a","caller":{"account":"1"}},{"route":"GET /nope"},7,null,"x",[],{"route":"GET /a","peek":true}` + "] ",
	elements(1000, `{}`), elements(1000, `0`), elements(1001, `0`), elements(1001, `{}`), elements(1000, `{`),
	elements(1000, `{"buckets":["a","a","a","a","a","a","a","a"],"caller":{"account":"1"}}`),
	elements(500, `{"buckets":["a"],"peek":true,"caller":{"account":"1"}},{"buckets":["a"],"caller":{"account":"1"}}`),
	`{"buckets":` + elements(64, `"a"`) + `,"caller":{"account":"1"}}`,
	`{"buckets":` + elements(65, `"a"`) + `,"caller":{"account":"1"}}`,
	`{"route":"GET /a","caller":{"account":"1","flags":` + elements(5000, `""`) + `}}`,

	// Members twice, unknown, or of another type. One that is called allowed
	// is named in a problem, which makes it no decision.
	`{"route":"GET /a","route":"GET /a"}`, `{"params":{"a":"1","\u0061":"2"}}`, `[{"peek":true,"peek":true}]`,
	`{"allowed":true}`, `{"caller":{"allowed":true}}`, `{"params":{"allowed":""},"route":"GET /a"}`, `{"route":"\"allowed\":true"}`,
	`[{"allowed":true}]`, `{"Route":"GET /a"}`, `{"":{}}`, `{"params":{"":""},"route":"GET /a"}`,
	`{"route":{"route":{"route":1}}}`, `{"caller":"1"}`, `{"caller":{"flags":[["x"]]}}`, `{"buckets":{}}`, `true`, `"x"`, `null`,

	// Bytes that are no text.
	"{\"route\":\"GET /a\xff\"}", "{\"\xff\":1}", "[\"\xff\",{\"\xfe\":\"\xc0\x80\"}]", "{\"route\":\"GET /a\x00\"}", "\x00", "[\x00]", "{\"route\"\x00:1}",
	`{"route":"GET /a\u0000"}`, `{"route":"GET /b/:id","params":{"id":"\u0000"},"caller":{"account":"\u0000"}}`,
	`{"route":"\ud800"}`, `{"route":"\ud800\u0041"}`, `{"route":"\udc00\ud800"}`, `["\ud800"]`, `{"route":"\x"}`, "\xef\xbb\xbf{}", "\u2028{}",

	// Numbers beyond what anybody counts.
	`{"test":{"global_limit":1e400}}`, `{"test":{"global_limit":1.5}}`, `{"test":{"global_limit":-0}}`, `{"test":{"global_limit":9223372036854775808}}`,
	`{"test":{"enforce":true,"global_limit":` + strings.Repeat("9", 10_000) + `}}`, `1e99999`, `[-1e-99999]`, `{"peek":01}`, `-`, `{"test":{"global_limit":NaN}}`,

	// Depth and length.
	strings.Repeat(`[`, 20_000), strings.Repeat(`{"a":`, 20_000), strings.Repeat(`{"caller":`, 20_000), strings.Repeat(`{"params":`, 9_999),
	elements(1, strings.Repeat(`[`, 9_990)+strings.Repeat(`]`, 9_990)),
	`{"` + strings.Repeat("x", 100_000) + `":1}`, `{"route":"` + strings.Repeat("x", 100_000) + `"}`, `{"route":"` + strings.Repeat(`\u0000`, 1000) + `"}`,
	`{"route":"GET /a","caller":{"account":"` + strings.Repeat("x", 300) + `"}}`, `{"route":"GET /a","accept_language":"` + strings.Repeat("a,", 20_000) + `"}`,
	`{"route":"GET /a","email":"` + strings.Repeat("@", 20_000) + `","caller":{"ip":"` + strings.Repeat("[", 20_000) + `"}}`,
	strings.Repeat(" ", 100_000), strings.Repeat("{}", 10_000),

	// Texts cut off and texts with more behind them.
	``, ` `, `[]`, `[ ]`, `{}`, `[1,]`, `[,1]`, `[1 2]`, `[1`, `[{"route":"GET /a"}`, `{`, `{"route"`, `{"route":`, `{"route":"GET`, `{"route":"GET /a"`, `{"peek":tru`,
	`{"route":"GET /a"}{"route":"GET /a"}`, `[{"route":"GET /a"}][]`, `[{"route":"GET /a"}]]`, `{"route":"GET /a"}]`, `[}`, `{]`, `nul`, `{"a":1}//`,
}

// FuzzDecide sends any body: the answer is JSON, an error is never a decision,
// an array gets as many answers as it has elements, and memory stays in
// proportion to what was sent.
func FuzzDecide(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add([]byte(seed))
	}
	// The front does not serve, so little else allocates while a body is decided.
	n := newFront(f, setup{rules: fuzzRules})
	n.cluster.Open(n.wires.listen(f, "n1"))
	f.Cleanup(func() { n.cluster.Close() })
	n.settle()
	decide := func(body []byte) answer {
		return n.front.decide(&request{context: context.Background(), contentType: "application/json", body: body})
	}
	decide([]byte(fuzzSeeds[0])) // what is made once is made
	f.Fuzz(func(t *testing.T, body []byte) {
		n.clock.ns.Add(int64(2 * time.Second)) // tables hold nothing of earlier bodies

		var a answer
		used, most := uint64(math.MaxUint64), ceiling(body)
		for try := 0; try < 3 && used > most; try++ { // the cluster's own work may fall in between
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a = decide(body)
			runtime.ReadMemStats(&after)
			used = min(used, after.TotalAlloc-before.TotalAlloc)
		}
		if used > most {
			t.Errorf("%d bytes of body allocate %d, at most %d", len(body), used, most)
		}
		if !json.Valid(a.body) {
			t.Fatalf("HTTP %d is no JSON: %.500q", a.status, a.body)
		}
		isArray := bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("["))
		switch {
		case a.status == http.StatusOK && isArray:
			if err := checkAnswers(body, a.body); err != nil {
				t.Errorf("%v: %.500s", err, a.body)
			}
		case a.status == http.StatusOK:
			if !json.Valid(body) || !isDecision(a.body) {
				t.Errorf("HTTP 200: %.500s", a.body)
			}
		case a.status == http.StatusBadRequest, a.status == http.StatusRequestEntityTooLarge && isArray:
			if !isProblem(a.body, a.status) || a.contentType != "application/problem+json" {
				t.Errorf("HTTP %d: %.500s", a.status, a.body)
			}
		default:
			t.Fatalf("HTTP %d: %.500s", a.status, a.body)
		}
	})
}

// ceiling is the most bytes that deciding the body may allocate. A bucket named
// in four bytes is answered with a hundred; an element may be one byte long.
func ceiling(body []byte) uint64 {
	asked := min(bytes.Count(body, []byte(","))+1, 1000)
	return 64<<10 + 2<<10*uint64(asked) + 256*uint64(len(body))
}

// checkAnswers reports what is wrong with the answers to an array.
func checkAnswers(body, answered []byte) error {
	var asked, answers []json.RawMessage
	if err := json.Unmarshal(body, &asked); err != nil {
		return fmt.Errorf("an array that is none is answered: %w", err)
	}
	if err := json.Unmarshal(answered, &answers); err != nil {
		return err
	}
	if len(answers) != len(asked) || len(asked) < 1 || len(asked) > 1000 {
		return fmt.Errorf("%d requests, %d answers", len(asked), len(answers))
	}
	for i, a := range answers {
		if isDecision(a) {
			continue
		}
		m := members(a)
		if len(m) != 1 || !isProblem(m["error"], http.StatusBadRequest) {
			return fmt.Errorf("answer %d is neither a decision nor an error", i)
		}
	}
	return nil
}

func isDecision(text []byte) bool {
	m := members(text)
	allowed, status := string(m["allowed"]), string(m["status"])
	return allowed == "true" && status == "" && m["body"] == nil && m["error"] == nil ||
		allowed == "false" && (status == "403" || status == "429") && m["body"] != nil && m["error"] == nil
}

func isProblem(text []byte, status int) bool {
	m := members(text)
	_, allowed := m["allowed"]
	return !allowed && string(m["type"]) == `"about:blank"` && string(m["status"]) == fmt.Sprint(status) && len(m["detail"]) > 2
}

// members returns those of a JSON object, nil if the text is none.
func members(text []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	return m
}
