package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field"`
}

// Bad bodies are problems that name the field, take nothing and harm nobody.
func TestBadBodies(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		good := `{"route":"GET /experiments","caller":{"account":"bad"}}`
		with := func(member string) string { return strings.TrimSuffix(good, "}") + "," + member + "}" }
		for _, bad := range []struct {
			name, body string
			status     int
			field      string
		}{
			{"empty", ``, 400, ""},
			{"blank", ` `, 400, ""},
			{"not JSON", `route=GET`, 400, ""},
			{"cut off", `{"route":"GET /exper`, 400, "route"},
			{"cut off in an object", `{"route":"GET /experiments","caller":{`, 400, "caller"},
			{"two texts", good + good, 400, ""},
			{"trailing garbage", good + `x`, 400, ""},
			{"a number", `5`, 400, ""},
			{"a string", `"x"`, 400, ""},
			{"null", `null`, 400, "route"},
			{"raw NUL", "{\"route\":\"GET /\x00\"}", 400, "route"},
			{"NUL in a route", `{"route":"GET /experiments\u0000","caller":{"account":"bad"}}`, 400, "route"},
			{"bad UTF-8", "{\"route\":\"GET /experiments\",\"caller\":{\"account\":\"\xff\"}}", 400, "caller.account"},
			{"lone surrogate", `{"route":"GET /experiments","caller":{"account":"\ud800"}}`, 400, "caller.account"},
			{"unknown member", with(`"rout":"x"`), 400, "rout"},
			{"unknown member of caller", `{"route":"GET /experiments","caller":{"acount":"bad"}}`, 400, "caller.acount"},
			{"other letter case", with(`"Peek":true`), 400, "Peek"},
			{"duplicate member", with(`"route":"GET /experiments"`), 400, "route"},
			{"duplicate parameter", with(`"params":{"a":"1","a":"2"}`), 400, "params.a"},
			{"wrong type: route", `{"route":5}`, 400, "route"},
			{"wrong type: peek", with(`"peek":"yes"`), 400, "peek"},
			{"wrong type: buckets", `{"buckets":"default"}`, 400, "buckets"},
			{"wrong type: flags", `{"route":"GET /experiments","caller":{"account":"bad","flags":["a",7]}}`, 400, "caller.flags[1]"},
			{"wrong type: params", with(`"params":{"a":1}`), 400, "params.a"},
			{"wrong type: caller", `{"route":"GET /experiments","caller":"bad"}`, 400, "caller"},
			{"neither route nor buckets", `{"caller":{"account":"bad"}}`, 400, "route"},
			{"both", with(`"buckets":["default"]`), 400, "buckets"},
			{"no bucket named", `{"buckets":[],"caller":{"account":"bad"}}`, 400, "buckets"},
			{"unknown bucket", `{"buckets":["defalt"],"caller":{"account":"bad"}}`, 400, "buckets"},
			{"unknown route", `{"route":"GET /experiment","caller":{"account":"bad"}}`, 400, "route"},
			{"unknown credential", `{"route":"GET /experiments","caller":{"account":"bad","credential":"cookie"}}`, 400, "caller.credential"},
			{"missing parameter", `{"route":"GET /guilds/:guild_id","caller":{"account":"bad"}}`, 400, "params.guild_id"},
			{"missing parameter of a bucket", `{"buckets":["guild:emoji:metadata::user_id"],"caller":{"account":"bad"}}`, 400, "params.user_id"},
			{"empty parameter", `{"route":"GET /guilds/:guild_id","params":{"guild_id":""},"caller":{"account":"bad"}}`, 400, "params.guild_id"},
			{"long account", `{"route":"GET /experiments","caller":{"account":"` + strings.Repeat("x", 300) + `"}}`, 400, "caller.account"},
			{"long application", `{"route":"GET /experiments","caller":{"account":"bad","application":"` + strings.Repeat("x", 257) + `"}}`, 400, "caller.application"},
			{"long parameter", `{"route":"GET /guilds/:guild_id","params":{"guild_id":"` + strings.Repeat("x", 257) + `"},"caller":{"account":"bad"}}`, 400, "params.guild_id"},
			{"test outside test mode", with(`"test":{"enforce":true}`), 400, "test"},
			{"fraction", with(`"test":{"enforce":true,"global_limit":1.5}`), 400, "test.global_limit"},
			{"exponent", with(`"test":{"enforce":true,"global_limit":1e3}`), 400, "test.global_limit"},
			{"beyond int64", with(`"test":{"enforce":true,"global_limit":9223372036854775808}`), 400, "test.global_limit"},
			{"empty array", `[]`, 400, ""},
			{"array cut off", `[` + good, 400, ""},
			{"array with a trailing comma", `[` + good + `,]`, 400, ""},
			{"text after an array", `[` + good + `]]`, 400, ""},
			{"1,001 elements", array(1001, good), 413, ""},
			{"deep", with(`"params":` + strings.Repeat(`{"a":`, 20_000) + `1` + strings.Repeat(`}`, 20_000)), 400, "params.a.a.a.a.a.a.a…"},
			{"deep array", strings.Repeat(`[`, 100_000), 400, ""},
		} {
			status, answer := c.post("application/json", bad.body)
			p := parse[problem](t, answer)
			if status != bad.status || p.Status != bad.status || p.Field != bad.field || p.Type != "about:blank" || p.Title == "" || p.Detail == "" {
				t.Errorf("%s: HTTP %d %s, want %d and field %q", bad.name, status, answer, bad.status, bad.field)
			}
			if strings.Contains(answer, "allowed") {
				t.Errorf("%s: an error looks like a decision: %s", bad.name, answer)
			}
		}
		same(t, "nothing is consumed", c.left(good), "global=50 default=60")
	})
}

func TestContentTypes(t *testing.T) {
	c := startCluster(t, 1, defaultPolicy(t), newStoppedClock())
	good := `{"route":"GET /experiments","caller":{"account":"ct"}}`
	for contentType, want := range map[string]int{
		"":                                   200,
		"application/json":                   200,
		"application/json; charset=utf-8":    200,
		"Application/JSON;charset=\"UTF-8\"": 200,
		"application/json; charset=latin1":   415,
		"text/plain":                         415,
		"application/x-www-form-urlencoded":  415,
		"multipart/form-data; boundary=x":    415,
		"application/jsonx":                  415,
		";":                                  415,
	} {
		if status, answer := c.post(contentType, good); status != want {
			t.Errorf("%q: HTTP %d %s, want %d", contentType, status, answer, want)
		}
	}
}

// Bytes sent as they are to a port, and the status line and type of the answer.
func TestBrokenHTTP(t *testing.T) {
	c := startCluster(t, 1, defaultPolicy(t), newStoppedClock())
	good := `{"route":"GET /experiments","caller":{"account":"raw"}}`
	post := func(headers, body string) string {
		return "POST /v1/decide HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body
	}
	length := fmt.Sprintf("Content-Length: %d\r\n", len(good))
	for _, raw := range []struct {
		name, bytes string
		status      int
		closes      bool
	}{
		{"good", post(length, good), 200, false},
		{"chunked", post("Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(good), good)), 200, false},
		{"both lengths", post(length+"Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(good), good)), 400, true},
		{"two lengths", post(length+"Content-Length: 5\r\n", good), 400, true},
		{"negative length", post("Content-Length: -5\r\n", good), 400, true},
		{"huge length", post("Content-Length: 99999999999999999999\r\n", good), 400, true},
		{"body above the bound", post("Content-Length: 4194305\r\n", ""), 413, true},
		{"headers above the bound", post("X: "+strings.Repeat("y", 20_000)+"\r\n", good), 431, true},
		{"compressed", post(length+"Content-Encoding: gzip\r\n", good), 415, false},
		{"not HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400, true},
		{"no such path", "GET /v1/nope HTTP/1.1\r\nHost: x\r\n\r\n", 404, false},
		{"admin path", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 404, false},
		{"wrong method", "GET /v1/decide HTTP/1.1\r\nHost: x\r\n\r\n", 405, false},
	} {
		resp := c.raw(raw.name, raw.bytes)
		if resp.StatusCode != raw.status {
			t.Errorf("%s: HTTP %d, want %d", raw.name, resp.StatusCode, raw.status)
		}
		if want := "application/problem+json"; raw.status != 200 && resp.Header.Get("Content-Type") != want {
			t.Errorf("%s: %s, want %s", raw.name, resp.Header.Get("Content-Type"), want)
		}
		if resp.Close != raw.closes {
			t.Errorf("%s: Connection: close is %v, want %v", raw.name, resp.Close, raw.closes)
		}
		if resp.Header.Get("Date") == "" || resp.Header.Get("Server") != "" {
			t.Errorf("%s: headers %v", raw.name, resp.Header)
		}
	}
	// Two good ones and three looks.
	same(t, "what was consumed", c.left(`{"route":"GET /experiments","caller":{"account":"raw"}}`), "global=48 default=58")
}

func (c *testCluster) raw(name, text string) *http.Response {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.nodes[0].Self().HTTP)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	// A server that has seen enough may close before it has read everything.
	if _, err := io.WriteString(conn, text); err != nil {
		c.t.Logf("%s: %v", name, err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	if resp.StatusCode != 200 {
		if p := parse[problem](c.t, string(body)); p.Status != resp.StatusCode {
			c.t.Errorf("%s: status %d says %d", name, resp.StatusCode, p.Status)
		}
	}
	return resp
}
