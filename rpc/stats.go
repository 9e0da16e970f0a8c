package rpc

import "sync/atomic"

// Stats counts what the clients and servers of one node did.
type Stats struct {
	Answered  atomic.Uint64 // calls that got a reply
	Late      atomic.Uint64 // replies that came after their call gave up
	Connected atomic.Uint64 // connections that a client opened, hello included
	Broken    atomic.Uint64 // of these, ended other than by Close

	Accepted  atomic.Uint64 // connections that a server took
	Refused   atomic.Uint64 // of these, ended before or at hello
	Served    atomic.Uint64 // requests that a server's handler answered
	Failed    atomic.Uint64 // requests that a server answered with a failure
	BadFrames atomic.Uint64 // frames that a server could not make sense of

	MessagesSent     atomic.Uint64 // messages that a client queued for writing
	MessagesDropped  atomic.Uint64 // messages that were not sent: Send returned an error, or there was nobody to send them to
	MessagesReceived atomic.Uint64 // messages that a server's handler was given

	errors [lastCode + 1]atomic.Uint64
}

// Errors returns how many calls failed with the code.
func (s *Stats) Errors(c Code) uint64 {
	if c > lastCode {
		return 0
	}
	return s.errors[c].Load()
}

func (s *Stats) call(err *Error) {
	if err == nil {
		s.Answered.Add(1)
		return
	}
	s.errors[err.Code].Add(1)
}
