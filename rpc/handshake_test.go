package rpc_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/ring/fabric"
	"weir/rpc"
)

// Ensure that ends that do not belong together part, and that both can say why.
func TestRefusal(t *testing.T) {
	tests := []struct {
		name string
		self rpc.Identity // client
		want rpc.Identity // whom it expects; the server is b
		code rpc.Code
		says string // at both ends
		logs string // at the server
	}{
		{"label", rpc.Identity{Name: "a", Label: "other", Format: 1}, nodeB,
			rpc.CodeRefused, `"a" is of another cluster than "b": the labels differ`, "rpc: peer is of another cluster"},
		{"format", rpc.Identity{Name: "a", Label: "test", Format: 2}, nodeB,
			rpc.CodeRefused, `ring format of "a" is 2, that of "b" is 1`, "rpc: peer has another ring format"},
		{"name", nodeA, rpc.Identity{Name: "c"},
			rpc.CodeWrongPeer, `"a" expected "c", this is "b"`, "rpc: peer expects another node"},
		{"boot", nodeA, rpc.Identity{Name: "b", Boot: 21},
			rpc.CodeWrongPeer, `"a" expected run 21 of "b", this is 22`, "rpc: peer expects another run of this node"},
		{"any boot", nodeA, rpc.Identity{Name: "b"}, 0, "", ""},
		{"anyone", nodeA, rpc.Identity{}, 0, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				var log journal
				stats := new(rpc.Stats)
				MustServe(t, n.Listen("b"), rpc.Config{Log: log.logger(), Stats: stats}, echo)
				client := rpc.NewClient(rpc.Config{Self: tt.self, Dial: n.Dialer("a")}, tt.want, "b")
				defer client.Close()
				if tt.code == 0 {
					wantEcho(t, client, 1)
					return
				}
				for range 3 {
					_, err := client.Decide(after(t, time.Second), request(t, 1))
					e := wantCode(t, err, tt.code)
					if e.Sent || !strings.Contains(fmt.Sprint(err), tt.says) {
						t.Errorf("client says %v", err)
					}
					time.Sleep(500 * time.Millisecond) // virtual: past the back-off
				}
				line := fmt.Sprintf("msg=%q peer=a error=%q", tt.logs, tt.says)
				if tt.name == "boot" { // no reason to warn
					line = "level=INFO " + line
				}
				log.want(t, line, line, line)
				if got := stats.Refused.Load(); got != 3 {
					t.Errorf("%d refused", got)
				}
			})
		})
	}
}

// Ensure that a server that accepts what it should not is left, and told why.
func TestClientRefuses(t *testing.T) {
	for name, answer := range map[string]rpc.Identity{
		"label":  {Name: "b", Boot: 22, Label: "other", Format: 1},
		"format": {Name: "b", Boot: 22, Label: "test", Format: 2},
		"name":   {Name: "c", Boot: 22, Label: "test", Format: 1},
		"boot":   {Name: "b", Boot: 23, Label: "test", Format: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				listener := n.Listen("b")
				defer listener.Close()
				client := NewClient(t, n, rpc.Config{})
				failed := make(chan error, 1)
				go func() {
					_, err := client.Decide(after(t, time.Second), request(t, 1))
					failed <- err
				}()
				nc, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				peer := &raw{t, nc}
				peer.frame()
				peer.send(rpc.EncodeHello(answer, rpc.Identity{}, 0)...)
				_, _, _, told := rpc.DecodeHello(peer.frame())
				e, ok := (<-failed).(*rpc.Error)
				if !ok || e.Err == nil || told == nil || e.Err.Error() != told.Error() {
					t.Errorf("client says %v, server is told %v", e, told)
				}
			})
		})
	}
}

// Ensure that a server logs that a client has left it, and why.
func TestServerIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		var log journal
		MustServe(t, n.Listen("b"), rpc.Config{Log: log.logger()}, echo)
		peer := dialRaw(t, n)
		peer.greet()
		peer.send(wire(t, "00000007", "93 02 03 a3 776879")...)
		synctest.Wait()
		log.want(t, `msg="rpc: refused by peer" peer=a error=why`)
	})
}

// Ensure that ends of different protocols can still say so.
func TestProtocolVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fabric.New()
		var log journal
		MustServe(t, n.Listen("b"), rpc.Config{Log: log.logger()}, echo)
		peer := dialRaw(t, n)
		peer.send(wire(t, "00000004", "93 01 03 c1")...)
		synctest.Wait()
		_, _, _, err := rpc.DecodeHello(peer.frame())
		const want = `protocol version 3, that of "b" is 2`
		if err == nil || err.Error() != want {
			t.Errorf("client is told %v", err)
		}
		log.want(t, fmt.Sprintf(`msg="rpc: peer speaks another protocol version" peer=a error=%q`, want))
	})
}

// Ensure that what is not a hello ends the connection with a reason, soon, and
// that no hello ends it at the deadline.
func TestNotAHello(t *testing.T) {
	for _, tt := range []struct{ name, bytes, want string }{
		{"length 0", "00000000", "bad frame length: 0 is not between 1 and 4096"},
		{"http", "47455420 2f20 48545450", "bad frame length: 1195725856 is not between 1 and 4096"},
		{"too long", "00001001", "bad frame length: 4097 is not between 1 and 4096"},
		{"4 GiB", "ffffffff", "bad frame length: 4294967295 is not between 1 and 4096"},
		{"garbage", "00000005 ddffffffff", "frame: 4294967295 elements, not 1 to 64"},
		{"request", "0000000a 97 03 cd012c 00 01 a0 00 90", "kind: 3 instead of a hello"},
		{"empty name", "0000000b 99 01 02 01 a0 a0 02 a0 00 00 00", "name: is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				stats := new(rpc.Stats)
				var log journal
				MustServe(t, n.Listen("b"), rpc.Config{Stats: stats, Log: log.logger()}, echo)
				peer := dialRaw(t, n)
				began := time.Now()
				peer.send(wire(t, tt.bytes)...)
				_, _, _, err := rpc.DecodeHello(peer.frame())
				if want := "not a hello: " + tt.want; err == nil || err.Error() != want {
					t.Errorf("peer is told %v, want %s", err, want)
				}
				if _, err := peer.Read(make([]byte, 1)); err != io.EOF || !time.Now().Equal(began) {
					t.Errorf("got %v after %v", err, time.Since(began))
				}
				if got := stats.Refused.Load(); got != 1 {
					t.Errorf("%d refused", got)
				}
				log.want(t, fmt.Sprintf(`msg="rpc: malformed hello" peer=a error="not a hello: %s"`, tt.want))
			})
		})
	}
	for name, bytes := range map[string]string{"nothing": "", "half a length": "0000", "half a hello": "00000010 99 01"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				var log journal
				MustServe(t, n.Listen("b"), rpc.Config{Log: log.logger()}, echo)
				peer := dialRaw(t, n)
				began := time.Now()
				peer.send(wire(t, bytes)...)
				if _, err := peer.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took != 3*time.Second {
					t.Errorf("ended after %v, want 3s", took)
				}
				log.want(t, `msg="rpc: no hello" peer=a error="i/o timeout"`)
			})
		})
	}
}

// Ensure that a server that takes the connection and says nothing, or nonsense,
// is an error in bounded time.
func TestNoHelloFromServer(t *testing.T) {
	tests := []struct {
		name, bytes string
		code        rpc.Code
		took        time.Duration
	}{
		{"nothing", "", rpc.CodeUnavailable, 3 * time.Second},
		{"half a frame", "00000010 99", rpc.CodeUnavailable, 3 * time.Second},
		{"garbage", "ffffffff", rpc.CodeInvalid, 0},
		{"bomb", "00000005 ddffffffff", rpc.CodeInvalid, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fabric.New()
				listener := n.Listen("b")
				defer listener.Close()
				go func() {
					if nc, err := listener.Accept(); err == nil {
						(&raw{t, nc}).send(wire(t, tt.bytes)...)
					}
				}()
				client := NewClient(t, n, rpc.Config{})
				began := time.Now()
				_, err := client.Decide(after(t, time.Hour), request(t, 1))
				wantCode(t, err, tt.code)
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// Ensure that a node that could not introduce itself is a programming error.
func TestSelfIsNeeded(t *testing.T) {
	long := strings.Repeat("x", rpc.MaxName+1)
	for _, self := range []rpc.Identity{{}, {Name: long}, {Name: "a", Label: long}} {
		for what, make := range map[string]func(){
			"client": func() { rpc.NewClient(rpc.Config{Self: self}, nodeB, "b") },
			"server": func() { rpc.NewServer(rpc.Config{Self: self}, echo) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic for %+v", what, self)
					}
				}()
				make()
			}()
		}
	}
}
