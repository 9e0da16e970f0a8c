package httpfront

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// limitedListener bounds the connections of the API listener. One too many is
// answered with a problem and closed, so that those open are served on.
type limitedListener struct {
	net.Listener
	front  *Front
	closed sync.Once

	mu     sync.Mutex
	open   map[*countedConn]struct{}
	served sync.WaitGroup // of those open
}

// Accept returns the next connection within the bound.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := (&countedConn{Conn: c, listener: l}); l.admit(counted) {
			return counted, nil
		}
		l.refuse(c)
	}
}

func (l *limitedListener) admit(c *countedConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.front.maxConn {
		return false
	}
	l.open[c] = struct{}{}
	l.served.Add(1)
	return true
}

// Close closes the listener. It may be called more than once.
func (l *limitedListener) Close() error {
	var err error
	l.closed.Do(func() { err = l.Listener.Close() })
	return err
}

// cutOff ends the connections that are open still, and returns once nobody
// serves them. Nothing may be accepted any more.
func (l *limitedListener) cutOff() {
	l.mu.Lock()
	for c := range l.open {
		c.Conn.Close() // who serves it notices, and closes it in turn
	}
	l.mu.Unlock()
	l.served.Wait()
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
	listener *limitedListener
}

// Close closes the connection and makes room for another.
func (c *countedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	if _, ok := l.open[c]; ok {
		delete(l.open, c)
		l.served.Done()
	}
	l.mu.Unlock()
	return c.Conn.Close()
}
