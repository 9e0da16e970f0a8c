package httpfront

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// limitedListener bounds the connections of the API listener. One too many is
// answered with a problem and closed, so that those open are served on.
type limitedListener struct {
	net.Listener
	front *Front
	open  atomic.Int64
}

// Accept returns the next connection within the bound.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= int64(l.front.maxConn) {
			return &countedConn{Conn: c, open: &l.open}, nil
		}
		l.open.Add(-1)
		l.refuse(c)
	}
}

// refuse answers without waiting: what does not fit into the socket's empty
// buffer at once is not sent.
func (l *limitedListener) refuse(c net.Conn) {
	a := (&problem{status: http.StatusServiceUnavailable, detail: "too many connections"}).answer()
	l.front.metrics.answered("", a.status)
	if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err == nil {
		fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nRetry-After: 1\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			a.status, http.StatusText(a.status), a.contentType, len(a.body), a.body)
	}
	c.Close()
}

type countedConn struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
}

// Close closes the connection and makes room for another.
func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}
