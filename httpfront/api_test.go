package httpfront

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func post(headers, body string) string {
	return "POST /v1/decide HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body
}

func chunked(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }

// What fasthttp would answer by itself is a problem like any other, after which
// the connection ends; and no byte of a broken request reaches the log.
func TestBrokenRequests(t *testing.T) {
	n := start(t, setup{rules: oneBucket})
	const marker = "mArKeR"
	body := `{"route":"GET /plain","caller":{"account":"` + marker + `"}}`
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	const (
		unreadable = `{"type":"about:blank","title":"Bad Request","status":400,"detail":"the request could not be read"}`
		twice      = `{"type":"about:blank","title":"Bad Request","status":400,"detail":"Content-Length and Transfer-Encoding contradict each other"}`
		fields     = `{"type":"about:blank","title":"Request Header Fields Too Large","status":431,"detail":"more than 16384 bytes of headers"}`
		large      = `{"type":"about:blank","title":"Request Entity Too Large","status":413,"detail":"more than 4194304 bytes of body"}`
	)
	for _, broken := range []struct {
		name, text string
		line, body string
	}{
		{"headers beyond the bound", post("X-"+marker+": "+strings.Repeat("y", 16<<10)+"\r\n"+length, body), "431 Request Header Fields Too Large", fields},
		{"headers without end", "POST /" + strings.Repeat(marker, 5000), "431 Request Header Fields Too Large", fields},
		{"body beyond the bound", post("X: "+marker+"\r\nContent-Length: 4194305\r\n", ""), "413 Request Entity Too Large", large},
		{"chunk beyond the bound", post("X: "+marker+"\r\nTransfer-Encoding: chunked\r\n", "400001\r\n"), "413 Request Entity Too Large", large},
		{"not HTTP", "\x16\x03\x01" + marker + "\r\n\r\n", "400 Bad Request", unreadable},
		{"no version", "GET /" + marker + "\r\n\r\n", "400 Bad Request", unreadable},
		{"another version", "GET /" + marker + " HTTP/x\r\nHost: x\r\n\r\n", "400 Bad Request", unreadable},
		{"a header without colon", "GET / HTTP/1.1\r\nHost: x\r\n" + marker + "\r\n\r\n", "400 Bad Request", unreadable},
		{"a header with a space", "GET / HTTP/1.1\r\nHost: x\r\n" + marker + " : y\r\n\r\n", "400 Bad Request", unreadable},
		{"a header's control character", "GET / HTTP/1.1\r\nHost: x\r\nX: " + marker + "\x00\r\n\r\n", "400 Bad Request", unreadable},
		{"length twice", post(length+"Content-Length: 5\r\n", body), "400 Bad Request", unreadable},
		{"negative length", post("X: "+marker+"\r\nContent-Length: -5\r\n", body), "400 Bad Request", unreadable},
		{"length is no number", post("Content-Length: "+marker+"\r\n", body), "400 Bad Request", unreadable},
		{"bad chunk", post("Transfer-Encoding: chunked\r\n", marker+"\r\n"), "400 Bad Request", unreadable},
		{"chunk longer than said", post("Transfer-Encoding: chunked\r\n", "2\r\n"+marker+"\r\n0\r\n\r\n"), "400 Bad Request", unreadable},
		{"length, then chunked", post(length+"Transfer-Encoding: chunked\r\n", chunked(body)), "400 Bad Request", twice},
		{"chunked, then length", post("Transfer-Encoding: chunked\r\n"+length, chunked(body)), "400 Bad Request", twice},
		{"chunked, then length, in other letters", post("tRANSFER-eNCODING: CHUNKED\r\ncONTENT-lENGTH: 0\r\n", chunked(body)), "400 Bad Request", twice},
		{"length, and an encoding that is none", post(length+"Transfer-Encoding: identity\r\n", body), "400 Bad Request", twice},
		{"an encoding that is none", post("Transfer-Encoding: identity\r\n", body), "400 Bad Request", `{"type":"about:blank","title":"Bad Request","status":400,"detail":"the only Transfer-Encoding is chunked"}`},
		{"chunked twice over", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunked(body)), "400 Bad Request", unreadable},
		{"another encoding", post("Transfer-Encoding: gzip, chunked\r\n", chunked(body)), "400 Bad Request", unreadable},
	} {
		c := dial(t, n.api)
		c.write(broken.text)
		r := c.read()
		same(t, broken.name, r.line, broken.line)
		same(t, broken.name, r.body, broken.body)
		same(t, broken.name, r.header.Get("Content-Type"), "application/problem+json")
		same(t, broken.name, r.header.Get("Server"), "")
		if !r.closes || !c.ended() {
			t.Errorf("%s: the connection goes on", broken.name)
		}
		if _, err := http.ParseTime(r.header.Get("Date")); err != nil {
			t.Errorf("%s: %v", broken.name, err)
		}
	}
	same(t, "nothing was consumed", n.decide(peek(body)),
		`{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[{"bucket":"plain","allowed":true,"limit":2,"remaining":2,"retry_after":0,"reset_after":0}]}`)
	// One that breaks off has nobody to be answered.
	c := dial(t, n.api)
	c.write(post(length, body[:40]))
	c.Close()

	// The admin listener's own answers are net/http's; its log is ours.
	for _, text := range []string{
		marker + "\r\n\r\n", "GET /" + marker + " HTTP/9.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: " + marker + " " + marker + "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\n" + marker + "\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat(marker, 10_000) + "\r\n\r\n",
		"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: " + marker + "\r\n\r\n",
	} {
		c := dial(t, n.admin)
		c.write(text)
		if r := c.read(); r.status < 400 {
			t.Errorf("%.40q: HTTP %d", text, r.status)
		}
	}

	n.close()
	log := n.log.String()
	if strings.Contains(strings.ToLower(log), strings.ToLower(marker)) {
		t.Errorf("the log holds what was sent:\n%s", log)
	}
	if !strings.Contains(log, `level=DEBUG msg="an API connection ended with an error"`) {
		t.Errorf("the log at debug level does not tell of broken connections:\n%s", log)
	}
}

// Both ways of framing a body alone are fine, and nothing of one request is
// taken for the next.
func TestFraming(t *testing.T) {
	n := start(t, setup{rules: oneBucket})
	c := dial(t, n.api)
	length := fmt.Sprintf("Content-Length: %d\r\n", len(question))
	c.write(post(length, question) + post("Transfer-Encoding: chunked\r\n", chunked(question)) + post(length, question) +
		"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + post("", "") + post("Content-Length: 0\r\n", ""))
	var allowed []bool
	for range 3 {
		r := c.read()
		same(t, "status", r.status, 200)
		same(t, "closes", r.closes, false)
		allowed = append(allowed, strings.HasPrefix(r.body, `{"allowed":true`))
	}
	same(t, "of three one is refused", fmt.Sprint(allowed), "[true true false]")
	same(t, "healthz", c.read().body, "ok\n")
	for range 2 {
		r := c.read()
		same(t, "without body", r.status, 400)
		same(t, "without body", r.body, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"malformed JSON at byte 0: unexpected end"}`)
	}
	c.write("GET /healthz HTTP/1.0\r\n\r\n")
	r := c.read()
	same(t, "HTTP/1.0", r.status, 200)
	if !r.closes || !c.ended() {
		t.Error("an HTTP/1.0 connection goes on")
	}
}

func TestRequestThatTakesTooLong(t *testing.T) {
	n := newFront(t, setup{rules: oneBucket})
	n.front.api.ReadTimeout = time.Millisecond
	api, admin := listen(t), listen(t)
	n.cluster.Open(listen(t))
	n.front.Serve(api, admin)
	t.Cleanup(n.close)
	c := dial(t, api.Addr().String())
	c.write("POST /v1/decide HT")
	r := c.read()
	same(t, "line", r.line, "408 Request Timeout")
	same(t, "body", r.body, `{"type":"about:blank","title":"Request Timeout","status":408,"detail":"the request did not arrive in time"}`)
	same(t, "type", r.header.Get("Content-Type"), "application/problem+json")
	if !r.closes || !c.ended() {
		t.Error("the connection goes on")
	}
}

// A fault of our own ends one request, with a problem, and not the node.
func TestHandlerThatPanics(t *testing.T) {
	n := newFront(t, setup{rules: "version: 1"})
	a := n.front.handle(endpoint{path: "/x", handle: func(*request) answer { panic("a fault") }}, &request{})
	const want = `{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"a fault of this node"}`
	if a.status != 500 || a.contentType != "application/problem+json" || string(a.body) != want {
		t.Errorf("%+v", a)
	}
	if says := n.log.String(); !strings.Contains(says, "a handler panicked") || !strings.Contains(says, "endpoint=/x") {
		t.Errorf("the log says %q", says)
	}
}
