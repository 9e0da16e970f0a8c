package rpc_test

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"weir/rpc"
)

// Ensure that errors say who, what and why, and can be asked for each.
func TestError(t *testing.T) {
	err := error(&rpc.Error{Code: rpc.CodeUnavailable, Text: "cannot connect", Peer: "b", Err: net.ErrClosed})
	wrapped := fmt.Errorf("cluster: %w", err)
	if got, want := err.Error(), "rpc: b: unavailable: cannot connect: use of closed network connection"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(wrapped, rpc.CodeUnavailable) || !errors.Is(wrapped, net.ErrClosed) || errors.Is(wrapped, rpc.CodeInternal) {
		t.Error("errors.Is does not tell")
	}
	if rpc.CodeOf(wrapped) != rpc.CodeUnavailable || rpc.CodeOf(nil) != 0 || rpc.CodeOf(net.ErrClosed) != rpc.CodeInternal {
		t.Error("CodeOf does not tell")
	}
	const codes = "[rpc: invalid rpc: refused rpc: wrong_peer rpc: unavailable rpc: overloaded rpc: timeout rpc: canceled rpc: internal]"
	if got := fmt.Sprint(rpc.Codes()); got != codes {
		t.Errorf("got  %s\nwant %s", got, codes)
	}
	if got := rpc.Code(200).String(); got != "Code(200)" || new(rpc.Stats).Errors(200) != 0 {
		t.Errorf("got %s", got)
	}
}
