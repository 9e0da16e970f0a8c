package rpc

import (
	"context"
	"errors"
	"fmt"
)

// Code is the kind of an error, as callers act on it. A Code is an error too:
// errors.Is(err, rpc.CodeOverloaded) asks for the kind.
type Code uint8

const (
	// CodeInvalid: a request or a frame breaks the rules of this package.
	CodeInvalid Code = iota + 1
	// CodeRefused: the ends are of different protocol, ring format or label.
	CodeRefused
	// CodeWrongPeer: another node, or another run of it, has the address.
	CodeWrongPeer
	// CodeUnavailable: no connection, or it was lost before the reply.
	CodeUnavailable
	// CodeOverloaded: too many calls or bytes are waiting already.
	CodeOverloaded
	// CodeTimeout: the deadline passed; wraps context.DeadlineExceeded.
	CodeTimeout
	// CodeCanceled: the caller gave up; wraps context.Canceled.
	CodeCanceled
	// CodeInternal: the peer's handler failed for a reason of its own.
	CodeInternal

	lastCode = CodeInternal
)

var codeNames = [...]string{
	CodeInvalid:     "invalid",
	CodeRefused:     "refused",
	CodeWrongPeer:   "wrong_peer",
	CodeUnavailable: "unavailable",
	CodeOverloaded:  "overloaded",
	CodeTimeout:     "timeout",
	CodeCanceled:    "canceled",
	CodeInternal:    "internal",
}

// Codes lists all codes, for collectors of Stats.
func Codes() []Code {
	all := make([]Code, 0, lastCode)
	for c := CodeInvalid; c <= lastCode; c++ {
		all = append(all, c)
	}
	return all
}

// String returns the code's name, as metrics spell it.
func (c Code) String() string {
	if c >= CodeInvalid && c <= lastCode {
		return codeNames[c]
	}
	return fmt.Sprintf("Code(%d)", uint8(c))
}

// Error makes a Code a target of errors.Is.
func (c Code) Error() string { return "rpc: " + c.String() }

// Error is what calls fail with, and what a Handler returns to choose the code
// and text its caller sees. Errors are not changed once returned.
type Error struct {
	Code   Code
	Text   string
	Peer   string // name or address of the other end; empty on the handler's side
	Sent   bool   // the request may have reached the peer, and have been decided
	Remote bool   // the peer itself said so: it is alive
	Err    error  // cause, may be nil
}

func (e *Error) Error() string {
	s := "rpc: "
	if e.Peer != "" {
		s += e.Peer + ": "
	}
	s += e.Code.String()
	if e.Text != "" {
		s += ": " + e.Text
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is the error's Code.
func (e *Error) Is(target error) bool { return target == error(e.Code) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of an error of this package, CodeInternal for any
// other error and 0 for nil.
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// ended is the error of a call whose context has ended.
func ended(ctx context.Context, peer string, sent bool) *Error {
	code := CodeCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = CodeTimeout
	}
	return &Error{Code: code, Peer: peer, Sent: sent, Err: ctx.Err()}
}
