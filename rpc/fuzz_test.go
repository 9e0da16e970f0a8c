package rpc_test

import (
	"bytes"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"weir/leaky"
	"weir/rpc"
)

// bombs are five bytes each that announce 4 GiB: an array, a string, bytes, a
// map, an extension.
var bombs = [][]byte{
	{0xdd, 0xff, 0xff, 0xff, 0xff},
	{0xdb, 0xff, 0xff, 0xff, 0xff},
	{0xc6, 0xff, 0xff, 0xff, 0xff},
	{0xdf, 0xff, 0xff, 0xff, 0xff},
	{0xc9, 0xff, 0xff, 0xff, 0xff},
}

// addSeeds adds the frame, and for each of its bytes the frame with a bomb in
// place of that byte and what follows, and in between.
func addSeeds(f *testing.F, frame []byte) {
	f.Add(frame)
	for _, bomb := range bombs {
		f.Add(bomb)
		for i := range frame {
			f.Add(append(append([]byte(nil), frame[:i]...), bomb...))
			f.Add(append(append(append([]byte(nil), frame[:i]...), bomb...), frame[i:]...))
		}
	}
	nested := make([]byte, rpc.MaxFrame)
	for i := range nested {
		nested[i] = 0x91 // array of one array of one array ...
	}
	f.Add(nested)
	f.Add(append(append([]byte(nil), frame[:len(frame)-1]...), nested[:1<<16]...))
}

// frugal runs the decoder and fails if it took more than a small multiple of
// its input. The multiple is the size of a value in memory against the least it
// has on the wire.
func frugal(t *testing.T, frame []byte, decode func([]byte)) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	decode(frame)
	runtime.ReadMemStats(&after)
	took, allowed := after.TotalAlloc-before.TotalAlloc, uint64(64<<10+24*len(frame))
	if took > allowed {
		t.Errorf("%d bytes allocated for a frame of %d", took, len(frame))
	}
}

func FuzzDecodeRequest(f *testing.F) {
	req := request(f, 5)
	req.Sequences = append(req.Sequences, append(req.Sequences[0], req.Sequences[0]...))
	addSeeds(f, rpc.EncodeRequest(7, req)[4:])
	req.Mode, req.Failed = leaky.TakingAll, nodeB.Node()
	addSeeds(f, rpc.EncodeRequest(1<<40, req)[4:])
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > rpc.MaxFrame {
			return
		}
		var id uint64
		var req *rpc.DecideRequest
		var err error
		frugal(t, frame, func(frame []byte) { id, req, err = rpc.DecodeRequest(frame) })
		if err != nil {
			return
		}
		// What was accepted is within bounds and survives another trip.
		_, again, err := rpc.DecodeRequest(rpc.EncodeRequest(id, req)[4:])
		if err != nil || !reflect.DeepEqual(again, req) {
			t.Errorf("%+v became %+v, %v", req, again, err)
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	addSeeds(f, rpc.EncodeReply(7, 1, &rpc.DecideReply{Outcomes: []rpc.Outcome{
		{Results: []leaky.Result{{Allowed: true, Remaining: 1000, ResetAfter: 1 << 40}}},
		{NotOwner: true, Owner: "another"},
		{Degraded: true, Results: []leaky.Result{{Never: true}}},
	}})[4:])
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > rpc.MaxFrame {
			return
		}
		frugal(t, frame, func(frame []byte) { _, _, _, _ = rpc.DecodeReply(frame) })
		frugal(t, frame, func(frame []byte) { _, _, _, _ = rpc.DecodeFailure(frame) })
	})
}

func FuzzDecodeMessages(f *testing.F) {
	addSeeds(f, rpc.EncodeMessages(0, []rpc.Message{
		{Kind: 1, Flags: 2, Partition: 1020, Epoch: 3, Number: 1 << 40, Node: nodeB.Node(), Words: []rpc.Word{{Fingerprint: 1 << 63, Word: 1 << 60}, {Fingerprint: 1}}},
		{Kind: 255},
	})[4:])
	// Words as short as they can be, in messages that leave the most unused.
	short := append([]byte{0x92, 8, 0xdc, 0, 60}, bytes.Repeat(slices.Concat(
		[]byte{0x98, 1, 2, 3, 4, 5, 0xa0, 0, 0xdc, 0x20, 0}, bytes.Repeat([]byte{1}, 2*rpc.MaxWords),
		[]byte{0x98, 1, 2, 3, 4, 5, 0xa0, 0, 0x92, 1, 1}), 30)...)
	f.Add(short)
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > rpc.MaxFrame {
			return
		}
		var messages []rpc.Message
		var err error
		frugal(t, frame, func(frame []byte) { messages, err = rpc.DecodeMessages(frame) })
		if err != nil {
			return
		}
		again := rpc.EncodeMessages(0, messages)[4:]
		if len(again) > 512<<10 {
			return // what was read of short words may not fit as it is written
		}
		got, err := rpc.DecodeMessages(again)
		if err != nil || !reflect.DeepEqual(got, messages) {
			t.Errorf("%+v became %+v, %v", messages, got, err)
		}
	})
}

func FuzzDecodeHello(f *testing.F) {
	addSeeds(f, rpc.EncodeHello(nodeA, nodeB, 1)[4:])
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > rpc.MaxFrame {
			return
		}
		frugal(t, frame, func(frame []byte) { _, _, _, _ = rpc.DecodeHello(frame) })
	})
}
