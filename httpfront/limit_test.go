package httpfront

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

func TestMaxConnections(t *testing.T) {
	n := start(t, setup{rules: oneBucket, connections: 2})
	ask := func(what string, c *connection, headers string, closes bool) {
		t.Helper()
		c.write("GET /healthz HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n")
		r := c.read()
		same(t, what, r.status, 200)
		same(t, what, r.closes, closes)
	}
	refused := func(what string) {
		t.Helper()
		c := dial(t, n.api)
		r := c.read() // without having asked
		checkUnready(t, what, r, "too many connections")
		if !r.closes || !c.ended() {
			t.Errorf("%s: the connection goes on", what)
		}
	}
	first, second := dial(t, n.api), dial(t, n.api)
	ask("the first", first, "", false)
	ask("the second", second, "", false)
	for range 3 {
		refused("the third")
	}
	ask("the first, still", first, "", false)
	ask("the second, still", second, "", false)

	// One ends: there is room for one, and no more.
	ask("the first, at last", first, "Connection: close\r\n", true)
	if !first.ended() {
		t.Fatal("the first goes on")
	}
	fourth := dial(t, n.api)
	ask("the fourth", fourth, "", false)
	refused("the fifth")
	ask("the second, still", second, "", false)

	// The admin listener has no such bound.
	for range 5 {
		ask("admin", dial(t, n.admin), "", false)
	}
	metrics := n.send("GET", n.admin+"/metrics", "").body
	for _, want := range []string{
		`weir_http_requests_total{code="503",endpoint="none"} 4`,
		`weir_http_requests_total{code="200",endpoint="/healthz"} 12`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
}

// Connections that come and go within the bound are all served, however close
// one follows the other.
func TestConnectionsInARow(t *testing.T) {
	n := start(t, setup{rules: oneBucket, connections: 2})
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			for range 200 {
				conn, err := net.Dial("tcp", n.api)
				if err != nil {
					t.Error(err)
					return
				}
				c := &connection{Conn: conn, t: t, reader: bufio.NewReader(conn)}
				c.write("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				answer, err := io.ReadAll(c.reader) // to the end of the connection
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 OK\r\n") {
					t.Errorf("%q %v", answer, err)
				}
				c.Close()
			}
		})
	}
	clients.Wait()
}
