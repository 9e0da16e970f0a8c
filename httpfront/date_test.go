package httpfront

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

func TestDates(t *testing.T) {
	var d dates
	sydney := time.FixedZone("", 10*3600)
	for _, c := range []struct {
		now  time.Time
		want string
	}{
		{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), "Thu, 01 Jan 2026 00:00:00 GMT"},
		{time.Date(2026, 1, 1, 0, 0, 0, 999_999_999, time.UTC), "Thu, 01 Jan 2026 00:00:00 GMT"},
		{time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC), "Thu, 01 Jan 2026 00:00:01 GMT"},
		{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), "Thu, 01 Jan 2026 00:00:00 GMT"}, // a clock set back
		{time.Date(2028, 2, 29, 23, 59, 59, 0, time.UTC), "Tue, 29 Feb 2028 23:59:59 GMT"},
		{time.Date(2028, 3, 1, 9, 59, 60, 0, sydney), "Wed, 01 Mar 2028 00:00:00 GMT"},
		{time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC), "Sun, 06 Nov 1994 08:49:37 GMT"},
	} {
		for range 2 {
			h := new(fasthttp.ResponseHeader)
			d.set(h, c.now)
			same(t, c.now.String(), string(h.Peek("Date")), c.want)
		}
	}
}

// Nothing but the date is left of what the header held, be it at the time the
// date was written out or later.
func TestDatesLeaveNothingElse(t *testing.T) {
	var d dates
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, when := range []string{"first of its second", "later in it"} {
		h := new(fasthttp.ResponseHeader)
		h.SetNoDefaultContentType(true)
		h.SetStatusCode(429)
		h.SetStatusMessage([]byte("Stale"))
		h.SetContentType("text/stale")
		h.SetContentEncoding("stale")
		h.SetServer("stale")
		h.SetConnectionClose()
		h.Set("X-Stale", "stale")
		h.Set("Date", "stale")
		h.Add("Date", "stale")
		var cookie fasthttp.Cookie
		cookie.SetKey("stale")
		h.SetCookie(&cookie)
		d.set(h, now)
		var got []string
		for name, value := range h.All() {
			got = append(got, string(name)+": "+string(value))
		}
		same(t, when, strings.Join(got, "\n"), "Content-Length: 0\nDate: Thu, 01 Jan 2026 00:00:00 GMT")
		same(t, when, h.StatusCode(), 200)
		same(t, when, string(h.StatusMessage()), "")
		same(t, when, h.ConnectionClose(), false)
	}
}

// Answers written at once share the date and nothing else.
func TestDatesTogether(t *testing.T) {
	var d dates
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	want := map[int64]string{
		begin.Unix():     "Thu, 01 Jan 2026 00:00:00 GMT",
		begin.Unix() + 1: "Thu, 01 Jan 2026 00:00:01 GMT",
	}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 500 {
				now := begin.Add(time.Duration((w+i)%2) * time.Second)
				h := new(fasthttp.ResponseHeader)
				d.set(h, now)
				h.SetStatusCode(400 + w)
				h.Add("X-Own", "1")
				if got := string(h.Peek("Date")); got != want[now.Unix()] || len(h.PeekAll("X-Own")) != 1 {
					t.Errorf("%s at %s", h.String(), now)
				}
			}
		})
	}
	writers.Wait()
}

// On the wire: one date, that of now, and a status line of the status.
func TestDatesOnTheWire(t *testing.T) {
	n := start(t, setup{rules: oneBucket})
	c := dial(t, n.api)
	for _, ask := range []struct{ text, line, headers string }{
		{"GET /nope HTTP/1.1\r\nHost: x\r\n\r\n", "404 Not Found", "Content-Length Content-Type Date"},
		{"GET /v1/decide HTTP/1.1\r\nHost: x\r\n\r\n", "405 Method Not Allowed", "Allow Content-Length Content-Type Date"},
		{post("Content-Length: 1\r\n", "x"), "400 Bad Request", "Content-Length Content-Type Date"},
		{post("Content-Length: 1\r\nContent-Type: text/plain\r\n", "x"), "415 Unsupported Media Type", "Content-Length Content-Type Date"},
		{post("Content-Length: 47\r\n", question), "200 OK", "Content-Length Content-Type Date"},
		{"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK", "Content-Length Content-Type Date"},
	} {
		before := time.Now().Truncate(time.Second)
		c.write(ask.text)
		r := c.read()
		after := time.Now()
		same(t, ask.text, r.line, ask.line)
		same(t, ask.text, strings.Join(slices.Sorted(maps.Keys(r.header)), " "), ask.headers)
		date, err := http.ParseTime(r.header.Get("Date"))
		if err != nil || date.Before(before) || date.After(after) || len(r.header["Date"]) != 1 {
			t.Errorf("%q: %v, between %s and %s", ask.text, r.header["Date"], before, after)
		}
	}
}
