// Package rpc carries decisions, and the messages by which nodes share their
// state, between nodes: length-prefixed msgpack frames over TCP, pipelined
// client and server.
//
// # Frames
//
// A frame is its length (four bytes, big-endian, 1 to [MaxFrame], checked
// before anything is read or allocated) and one msgpack array:
//
//	hello           [1, protocol, format, label, name, boot, wanted name, wanted boot, clock, ...]
//	refusal         [2, cause, text, ...]
//	request         [3, id, hop, 1 peek | 2 lower | 0, failed name, failed boot, [[check, ...], ...]]
//	reply           [4, id, clock, [outcome, ...]]
//	failure         [5, id, clock, code, text]
//	status request  [6, id]
//	status          [7, id, clock, live buckets]
//	messages        [8, [message, ...]]
//
//	check           [partition, fingerprint, kind, limit, window, cost]
//	outcome         [1 not owner | 2 degraded | 0, owner, [result, ...]]
//	result          [1 allowed | 2 never | 0, remaining, retry after, reset after]
//	message         [kind, flags, partition, epoch, number, name, boot, [fingerprint, word, ...]]
//
// Times are nanoseconds; clock is the sender's, Unix, but a word is an instant
// on the receiver's. Hello and refusal may
// grow elements at their end, which older nodes ignore; the others are exact.
// Lengths inside a frame are compared with the bytes that are left in it before
// memory is taken, so that a frame costs memory only in proportion to its size.
//
// # The life of a connection
//
//  1. The first call of a [Client] dials. Calls that come meanwhile wait for
//     the same attempt, each until its own deadline.
//  2. The client says hello: who it is, and whom it expects at this address.
//     The server compares protocol, ring format, label and identity, and
//     answers with its own hello or with a refusal that says why, and the
//     client compares in its turn. Whoever is refused can therefore say why,
//     and whoever refuses logs it.
//  3. Requests are written as they come, any number before the first reply.
//     One goroutine per direction and end: the reader of the server decides
//     inline, the writer takes whatever is queued in one write. A request whose
//     answer waits for something is taken over by a goroutine of its own, and
//     those after it may be answered first. A reply finds its call by id; one
//     that comes after its call gave up is dropped.
//  4. Every reply carries the server's clock, and the exchange with the smallest
//     round trip tells the offset of the two clocks. A request without sequences
//     is enough for that.
//  5. Messages go from client to server only, between the requests, and nothing
//     answers them. The server's handler takes them inline, in the order sent;
//     those under way when a connection ends are lost. Their words are moved to
//     the receiver's clock before they are sent: by nothing if the exchanges
//     leave it open whether the clocks agree, else by the most that they allow,
//     so that a bucket may be fuller after the move, and never emptier.
//  6. A request that makes no sense is answered with a failure if its id can be
//     read. Any other frame that makes no sense, a failed read or write, or a
//     peer that answers nothing for 2 s while calls give up on it, ends the
//     connection: all its calls fail at once, and the next call dials anew.
//     After a connection that brought no reply, calls fail at once for 50 ms,
//     doubling up to 1 s.
//
// Nothing queues without a bound: a client refuses calls beyond its in-flight
// cap, drops messages when half its write queue is full, and a server stops
// reading from a peer that does not read its replies, drops it after 5 s, and
// fails requests when 4096 wait for something. An idle connection stays; a frame once begun must be
// complete within 5 s.
package rpc
