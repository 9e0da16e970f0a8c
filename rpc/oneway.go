package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"

	"weir/leaky"
)

// Bounds of messages. Whatever is within those of one message fits a frame.
const (
	MaxMessages = 8192 // in a frame
	MaxWords    = 4096 // in a message
)

const (
	maxMessageFrame = 512 << 10    // bytes of a frame
	maxMessageQueue = maxQueue / 2 // bytes queued for writing before messages are dropped: the rest is for calls

	frameHead   = 5  // bytes: array, kind, array of messages
	minMessage  = 9  // bytes: array, seven numbers and texts, array of words
	mostMessage = 43 // bytes, without the name and the words
	minWord     = 2  // bytes: two numbers
	mostWord    = 18 // bytes
)

// Word is one bucket's fingerprint and word.
type Word struct {
	Fingerprint uint64     // not 0
	Word        leaky.Word // on the clock of the node that has it
}

// MessageKind says what a message means; package holder gives the meanings.
type MessageKind uint8

// Message is one step of the protocol between the holders of partitions. It is
// one way: nobody answers it but by another message, and it may be lost.
type Message struct {
	Kind      MessageKind
	Flags     uint8
	Partition uint32
	Epoch     uint64
	Number    uint64
	Node      Node   // whom it speaks of; zero if nobody
	Words     []Word // at most MaxWords
}

// check returns why the message must not be sent, or nil.
func (m *Message) check() error {
	if err := m.Node.check(); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	if len(m.Words) > MaxWords {
		return fmt.Errorf("%d words, at most %d", len(m.Words), MaxWords)
	}
	for i := range m.Words {
		if m.Words[i].Fingerprint == 0 {
			return errors.New("fingerprint is 0")
		}
	}
	return nil
}

// size returns how many bytes the message takes at most.
func (m *Message) size() int { return mostMessage + len(m.Node.Name) + mostWord*len(m.Words) }

// fitting returns how many of the messages go into one frame, at least one.
func fitting(messages []Message) int {
	size := frameHead + messages[0].size()
	n := 1
	for n < len(messages) && n < MaxMessages && size+messages[n].size() <= maxMessageFrame {
		size += messages[n].size()
		n++
	}
	return n
}

// Send queues the messages for the peer, in their order, and does not wait for
// them to be written: a connection that is lost loses them. It connects if need
// be, which ctx bounds, or DefaultTimeout if ctx has no deadline. Errors are of
// type *Error; after CodeOverloaded the first of the messages may be queued and
// the others are dropped, because too many bytes wait already; after any other
// error too, those that are not queued are never sent.
//
// Words are sent as they are on the peer's clock: unchanged if both clocks may
// agree, and otherwise later by so much that no bucket gets emptier on the way.
// The messages are only read, and not kept.
func (c *Client) Send(ctx context.Context, messages []Message) error {
	queued, err := c.send(ctx, messages)
	c.cfg.Stats.MessagesSent.Add(uint64(queued))
	c.cfg.Stats.MessagesDropped.Add(uint64(len(messages) - queued))
	switch {
	case err == nil:
		return nil
	case queued > 0:
		some := *err // others may have been told the same error
		some.Sent = true
		return &some
	}
	return err
}

func (c *Client) send(ctx context.Context, messages []Message) (queued int, err *Error) {
	for i := range messages {
		if err := messages[i].check(); err != nil {
			return 0, c.error(CodeInvalid, "message", err)
		}
	}
	for len(messages) > 0 {
		if ctx.Err() != nil {
			return 0, ended(ctx, c.Peer(), false)
		}
		l, err := c.connect(ctx)
		if err != nil {
			return 0, err
		}
		// A link that ended just now is not returned by connect again.
		if queued, ok, err := l.send(messages); ok {
			return queued, err
		}
	}
	return 0, nil
}

// send queues the messages and returns how many; if not all, also why. ok is
// false, and nothing is queued, if the link had ended.
func (l *link) send(messages []Message) (queued int, ok bool, err *Error) {
	clock := l.clock.best()
	shift := clock.shift()
	for queued < len(messages) {
		l.mu.Lock()
		broken := l.broken
		l.mu.Unlock()
		if broken != nil {
			// Not on the next link: the peer may still be reading this one.
			return queued, queued > 0, broken
		}
		frame := messages[queued : queued+fitting(messages[queued:])]
		if !clock.ok && carryWords(frame) {
			return queued, true, l.client.error(CodeUnavailable, "the peer's clock is unknown", nil)
		}
		put := l.w.put(false, maxMessageQueue, func(e *encoder) { e.messages(frame, shift) })
		switch {
		case put == errQueueFull:
			dropped := fmt.Sprintf("too many bytes are waiting to be written: dropped %d of %d messages", len(messages)-queued, len(messages))
			return queued, true, l.client.error(CodeOverloaded, dropped, nil)
		case put != nil:
			return queued, true, l.client.error(CodeUnavailable, "connection lost", put)
		}
		queued += len(frame)
	}
	return queued, true, nil
}

func carryWords(messages []Message) bool {
	for i := range messages {
		if len(messages[i].Words) > 0 {
			return true
		}
	}
	return false
}

// messages writes a frame, with the words on a clock that is ahead by shift.
func (e *encoder) messages(messages []Message, shift int64) {
	e.begin(2, kindMessages)
	e.array(len(messages))
	for i := range messages {
		m := &messages[i]
		e.array(8)
		e.uint(uint64(m.Kind))
		e.uint(uint64(m.Flags))
		e.uint(uint64(m.Partition))
		e.uint(m.Epoch)
		e.uint(m.Number)
		e.node(m.Node)
		e.array(2 * len(m.Words))
		for _, w := range m.Words {
			e.wide(w.Fingerprint)
			e.wide(uint64(shifted(w.Word, shift)))
		}
	}
	e.end()
}

// shifted returns the word moved by shift, which may be negative. An empty bucket
// stays empty, and one that was empty before 1970 becomes it.
func shifted(w leaky.Word, shift int64) leaky.Word {
	switch {
	case w <= 0:
		return 0
	case shift > 0 && int64(w) > maxInt64-shift:
		return maxInt64
	}
	return max(w+leaky.Word(shift), 0)
}

// inbox is messages being read, and the memory they are read into.
type inbox struct {
	messages []Message
	words    []Word // those of the last messages
}

// read reads what follows the kind. The result is valid until the next call.
func (in *inbox) read(d *decoder) ([]Message, error) {
	if len(d.data) > maxMessageFrame {
		d.fail("messages", fmt.Errorf("%d bytes, at most %d", len(d.data), maxMessageFrame))
	}
	n := d.array("messages", 0, MaxMessages, minMessage)
	in.messages = grow(in.messages, n)
	in.words = grow(in.words, 0)
	for range n {
		d.array("message", 8, 8, 1)
		m := Message{
			Kind:      MessageKind(d.uint("kind", math.MaxUint8)),
			Flags:     uint8(d.uint("flags", math.MaxUint8)),
			Partition: uint32(d.uint("partition", math.MaxUint32)),
			Epoch:     d.uint("epoch", maxUint64),
			Number:    d.uint("number", maxUint64),
			Node:      d.node("node"),
		}
		m.Words = in.readWords(d)
		if d.err != nil {
			return nil, d.err
		}
		in.messages = append(in.messages, m)
	}
	return in.messages, d.done()
}

func (in *inbox) readWords(d *decoder) []Word {
	n := d.array("words", 0, 2*MaxWords, minWord/2)
	if n%2 != 0 {
		d.fail("words", errors.New("fingerprint without a word"))
	}
	if d.err != nil || n == 0 {
		return nil
	}
	n /= 2
	if cap(in.words)-len(in.words) < n {
		// The words of the messages before stay where they are.
		in.words = make([]Word, 0, max(n, min(MaxWords, d.left()/mostWord)))
	}
	from := len(in.words)
	for range n {
		w := Word{Fingerprint: d.uint("fingerprint", maxUint64), Word: leaky.Word(d.uint("word", maxInt64))}
		if d.err == nil && w.Fingerprint == 0 {
			d.fail("fingerprint", errors.New("is 0"))
		}
		if d.err != nil {
			return nil
		}
		in.words = append(in.words, w)
	}
	return in.words[from:len(in.words):len(in.words)]
}
