package rpc_test

import (
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/leaky"
	"weir/rpc"
)

// wire joins the hex of a frame written in groups.
func wire(tb testing.TB, groups ...string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(groups, ""), " ", ""))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Ensure that the bytes on the wire stay what nodes already running speak.
func TestWireBytes(t *testing.T) {
	request := &rpc.DecideRequest{Hop: 1, Mode: leaky.Lowering, Failed: rpc.Node{Name: "c", Boot: 9}, Sequences: [][]leaky.Check{{
		{Partition: 5, Fingerprint: 0x0102030405060708, Rule: mustRule(t, leaky.Bucket, 60, 10*time.Second), Cost: 1},
		{Partition: 1020, Fingerprint: math.MaxUint64, Rule: mustRule(t, leaky.Quota, 100, time.Hour)},
	}}}
	reply := &rpc.DecideReply{Outcomes: []rpc.Outcome{
		{Degraded: true, Results: []leaky.Result{
			{Allowed: true, Remaining: 59, ResetAfter: 166666666},
			{Never: true, Remaining: 300, RetryAfter: time.Millisecond, ResetAfter: time.Hour},
		}},
		{NotOwner: true, Owner: "b"},
	}}
	tests := []struct {
		name string
		got  []byte
		want []byte
	}{
		{"request", rpc.EncodeRequest(7, request), wire(t,
			"0000003a", "97 03 07 01 02 a163 09", "91 92",
			"96 05 cf0102030405060708 00 3c cf00000002540be400 01",
			"96 cd03fc cfffffffffffffffff 01 64 cf00000346 30b8a000 00")},
		{"all or nothing", rpc.EncodeRequest(7, &rpc.DecideRequest{Mode: leaky.TakingAll, Sequences: [][]leaky.Check{{
			{Partition: 5, Fingerprint: 6, Rule: mustRule(t, leaky.Cooldown, 1, time.Second), Cost: 1, Groups: [2]uint64{0x0102030405060708, 9}},
			{Partition: 5, Fingerprint: 7, Rule: mustRule(t, leaky.Lockout, 5, time.Second), Cost: 1, LookOnly: true},
		}}}), wire(t,
			"0000002d", "97 03 07 00 03 a0 00", "91 92",
			"99 05 06 03 01 ce3b9aca00 01 cf0102030405060708 09 00",
			"99 05 07 02 05 ce3b9aca00 01 00 00 01")},
		{"peek", rpc.EncodeRequest(300, &rpc.DecideRequest{Mode: leaky.Looking}), wire(t,
			"0000000a", "97 03 cd012c 00 01 a0 00", "90")},
		{"reply", rpc.EncodeReply(7, 1_700_000_000_000_000_000, reply), wire(t,
			"00000032", "94 04 07 cf17979cfe362a0000", "92",
			"93 02 a0 92", "94 01 3b 00 ce09ef21aa", "94 02 cd012c ce000f4240 cf00000346 30b8a000",
			"93 01 a162 90")},
		{"messages", rpc.EncodeMessages(0, []rpc.Message{
			{Kind: 1, Flags: 255, Partition: 1020, Epoch: 300, Number: 7, Node: rpc.Node{Name: "b", Boot: 3}, Words: []rpc.Word{
				{Fingerprint: 0x0102030405060708, Word: 1_700_000_000_000_000_000}, {Fingerprint: 5}}},
			{Kind: 2},
		}), wire(t,
			"0000003f", "92 08 92",
			"98 01 ccff cd03fc cd012c 07 a162 03", "94 cf0102030405060708 cf17979cfe362a0000", "cf0000000000000005 cf0000000000000000",
			"98 02 00 00 00 00 a0 00 90")},
		{"failure", rpc.EncodeFailure(7, 0, rpc.CodeOverloaded, "busy"), wire(t,
			"0000000a", "95 05 07 00 05 a462757379")},
		{"status request", rpc.EncodeStatusRequest(7), wire(t, "00000003", "92 06 07")},
		{"status", rpc.EncodeStatus(7, 5, rpc.Status{LiveBuckets: 123_456}), wire(t, "00000009", "94 07 07 05 ce0001e240")},
		{"hello", rpc.EncodeHello(rpc.Identity{Name: "a", Boot: 2, Label: "c", Format: 9}, rpc.Identity{Name: "b", Boot: 3}, 4), wire(t,
			"0000000d", "99 01 02 09 a163 a161 02 a162 03 04")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !reflect.DeepEqual(tt.got, tt.want) {
				t.Errorf("got  %x\nwant %x", tt.got, tt.want)
			}
		})
	}
}

func genChecks(t *rapid.T) []leaky.Check {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) leaky.Check {
		kind := rapid.SampledFrom([]leaky.Kind{leaky.Bucket, leaky.Quota, leaky.Lockout, leaky.Cooldown, leaky.CooldownStart, leaky.Group}).Draw(t, "kind")
		limit := int64(1)
		if kind < leaky.Cooldown {
			limit = rapid.Int64Range(1, leaky.MaxCount).Draw(t, "limit")
		}
		window := rapid.Int64Range(int64(leaky.MinWindow), int64(leaky.MaxWindow)).Draw(t, "window")
		rule, err := leaky.NewRule(kind, limit, time.Duration(window))
		if err != nil {
			t.Fatal(err)
		}
		check := leaky.Check{
			Partition:   rapid.Uint32().Draw(t, "partition"),
			Fingerprint: rapid.Uint64Min(1).Draw(t, "fingerprint"),
			Rule:        rule,
			Cost:        rapid.Int64Min(0).Draw(t, "cost"),
			LookOnly:    rapid.Bool().Draw(t, "look only"),
		}
		if kind == leaky.Cooldown {
			check.Groups = [2]uint64{rapid.Uint64().Draw(t, "group"), rapid.Uint64().Draw(t, "another")}
		}
		return check
	}), 1, 8).Draw(t, "checks")
}

func genNode(t *rapid.T) rpc.Node {
	if rapid.Bool().Draw(t, "nobody") {
		return rpc.Node{}
	}
	return rpc.Node{Name: rapid.StringN(1, 60, rpc.MaxName).Draw(t, "name"), Boot: rapid.Uint64().Draw(t, "boot")}
}

// genEither draws two of which at most one is true.
func genEither(t *rapid.T) (one, two bool) {
	which := rapid.IntRange(0, 2).Draw(t, "which")
	return which == 1, which == 2
}

// Ensure that every request is read as it was written.
func TestRequestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Uint64().Draw(t, "id")
		req := &rpc.DecideRequest{
			Hop:       rapid.Uint8().Draw(t, "hop"),
			Failed:    genNode(t),
			Sequences: make([][]leaky.Check, rapid.IntRange(1, 20).Draw(t, "sequences")),
		}
		req.Mode = leaky.Mode(rapid.IntRange(0, int(leaky.TakingAll)).Draw(t, "mode"))
		for i := range req.Sequences {
			req.Sequences[i] = genChecks(t)
		}
		gotID, got, err := rpc.DecodeRequest(rpc.EncodeRequest(id, req)[4:])
		if err != nil {
			t.Fatal(err)
		}
		if gotID != id || !reflect.DeepEqual(got, req) {
			t.Fatalf("got %d %+v, want %d %+v", gotID, got, id, req)
		}
	})
}

// Ensure that every reply is read as it was written.
func TestReplyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Uint64().Draw(t, "id")
		clock := rapid.Int64Min(0).Draw(t, "clock")
		reply := &rpc.DecideReply{Outcomes: make([]rpc.Outcome, rapid.IntRange(0, 20).Draw(t, "outcomes"))}
		for i := range reply.Outcomes {
			reply.Outcomes[i] = rpc.Outcome{
				Owner:   rapid.StringN(0, 60, rpc.MaxName).Draw(t, "owner"),
				Results: make([]leaky.Result, rapid.IntRange(0, 8).Draw(t, "results")),
			}
			reply.Outcomes[i].NotOwner, reply.Outcomes[i].Degraded = genEither(t)
			for j := range reply.Outcomes[i].Results {
				allowed := rapid.Bool().Draw(t, "allowed")
				reply.Outcomes[i].Results[j] = leaky.Result{
					Allowed:    allowed,
					Never:      !allowed && rapid.Bool().Draw(t, "never"),
					Remaining:  rapid.Int64Min(0).Draw(t, "remaining"),
					RetryAfter: time.Duration(rapid.Int64Min(0).Draw(t, "retry after")),
					ResetAfter: time.Duration(rapid.Int64Min(0).Draw(t, "reset after")),
				}
			}
		}
		gotID, gotClock, got, err := rpc.DecodeReply(rpc.EncodeReply(id, clock, reply)[4:])
		if err != nil {
			t.Fatal(err)
		}
		if gotID != id || gotClock != clock || !reflect.DeepEqual(got, reply) {
			t.Fatalf("got %d %d %+v, want %d %d %+v", gotID, gotClock, got, id, clock, reply)
		}
	})
}

// Ensure that the largest request and reply within the bounds fit a frame, as
// neither end checks that again.
func TestLargestFits(t *testing.T) {
	rule := mustRule(t, leaky.Cooldown, 1, leaky.MaxWindow)
	req := &rpc.DecideRequest{Sequences: make([][]leaky.Check, rpc.MaxSequences)}
	reply := &rpc.DecideReply{Outcomes: make([]rpc.Outcome, rpc.MaxSequences)}
	for i := range rpc.MaxSequences {
		for range rpc.MaxChecks / rpc.MaxSequences {
			req.Sequences[i] = append(req.Sequences[i],
				leaky.Check{Partition: math.MaxUint32, Fingerprint: math.MaxUint64, Rule: rule, Cost: math.MaxInt64, Groups: [2]uint64{math.MaxUint64, math.MaxUint64}, LookOnly: true})
			reply.Outcomes[i].Results = append(reply.Outcomes[i].Results,
				leaky.Result{Never: true, Remaining: math.MaxInt64, RetryAfter: math.MaxInt64, ResetAfter: math.MaxInt64})
		}
		reply.Outcomes[i].Owner = strings.Repeat("x", rpc.MaxName)
	}
	for name, frame := range map[string][]byte{
		"request": rpc.EncodeRequest(math.MaxUint64, req),
		"reply":   rpc.EncodeReply(math.MaxUint64, math.MaxInt64, reply),
	} {
		if len(frame)-4 > rpc.MaxFrame {
			t.Errorf("%s: %d bytes, a frame has at most %d", name, len(frame)-4, rpc.MaxFrame)
		}
	}
	if _, _, err := rpc.DecodeRequest(rpc.EncodeRequest(1, req)[4:]); err != nil {
		t.Errorf("request: %v", err)
	}
	if _, _, _, err := rpc.DecodeReply(rpc.EncodeReply(1, 1, reply)[4:]); err != nil {
		t.Errorf("reply: %v", err)
	}
}

// Ensure that a request cut short anywhere is an error.
func TestTruncated(t *testing.T) {
	frames := map[string][]byte{
		"request": rpc.EncodeRequest(7, request(t, 5))[4:],
		"reply":   rpc.EncodeReply(7, 1, &rpc.DecideReply{Outcomes: []rpc.Outcome{{Owner: "b", Results: make([]leaky.Result, 2)}}})[4:],
		"failure": rpc.EncodeFailure(7, 1, rpc.CodeInternal, "why")[4:],
		"messages": rpc.EncodeMessages(0, []rpc.Message{
			{Kind: 1, Node: nodeB.Node(), Words: []rpc.Word{{Fingerprint: 1, Word: 2}, {Fingerprint: 3, Word: 4}}}, {Number: 1000}})[4:],
		"hello": rpc.EncodeHello(nodeA, nodeB, 1)[4:],
	}
	for name, frame := range frames {
		for n := range frame {
			if decode(name, frame[:n]) == nil {
				t.Errorf("%s: no error after %d of %d bytes", name, n, len(frame))
			}
		}
		if err := decode(name, frame); err != nil {
			t.Errorf("%s: whole: %v", name, err)
		}
		if err := decode(name, append(frame, 0)); err == nil && name != "hello" {
			t.Errorf("%s: no error with a byte too many", name)
		}
	}
}

func decode(name string, frame []byte) (err error) {
	switch name {
	case "request":
		_, _, err = rpc.DecodeRequest(frame)
	case "reply":
		_, _, _, err = rpc.DecodeReply(frame)
	case "failure":
		_, _, _, err = rpc.DecodeFailure(frame)
	case "messages":
		_, err = rpc.DecodeMessages(frame)
	case "hello":
		_, _, _, err = rpc.DecodeHello(frame)
	}
	return err
}

// Ensure that each bad value is refused and the error names it.
func TestBadValues(t *testing.T) {
	const good = "96 05 01 00 3c ce3b9aca00 01" // 60 per second
	tests := []struct{ what, name, frame, want string }{
		{"request", "good", "97 03 07 00 00 a0 00 91 91" + good, ""},
		{"request", "fingerprint 0", "97 03 07 00 00 a0 00 91 91 96 05 00 00 3c ce3b9aca00 01", "fingerprint"},
		{"request", "negative cost", "97 03 07 00 00 a0 00 91 91 96 05 01 00 3c ce3b9aca00 ff", "cost"},
		{"request", "cost of 2^63", "97 03 07 00 00 a0 00 91 91 96 05 01 00 3c ce3b9aca00 cf8000000000000000", "cost"},
		{"request", "signed cost", "97 03 07 00 00 a0 00 91 91 96 05 01 00 3c ce3b9aca00 d3ffffffffffffffff", "cost"},
		{"request", "nil cost", "97 03 07 00 00 a0 00 91 91 96 05 01 00 3c ce3b9aca00 c0", "cost"},
		{"request", "float cost", "97 03 07 00 00 a0 00 91 91 96 05 01 00 3c ce3b9aca00 cb3ff0000000000000", "cost"},
		{"request", "limit 0", "97 03 07 00 00 a0 00 91 91 96 05 01 00 00 ce3b9aca00 01", "limit"},
		{"request", "limit too high", "97 03 07 00 00 a0 00 91 91 96 05 01 00 ce3b9aca01 ce3b9aca00 01", "limit"},
		{"request", "interval under 1µs", "97 03 07 00 00 a0 00 91 91 96 05 01 00 ce3b9aca00 ce3b9aca00 01", "window/limit"},
		{"request", "window 0", "97 03 07 00 00 a0 00 91 91 96 05 01 00 3c 00 01 c2c2c2c2", "window"},
		{"request", "kind 6", "97 03 07 00 00 a0 00 91 91 96 05 01 06 3c ce3b9aca00 01", "kind"},
		{"request", "partition of 2^32", "97 03 07 00 00 a0 00 91 91 96 cf0000000100000000 01 00 3c ce3b9aca00 01", "partition"},
		{"request", "hop 256", "97 03 07 cd0100 00 a0 00 91 91" + good, "hop"},
		{"request", "mode is a boolean", "97 03 07 00 c3 a0 00 91 91" + good, "mode"},
		{"request", "unknown mode", "97 03 07 00 04 a0 00 91 91" + good, "mode"},
		{"request", "check of 7", "97 03 07 00 00 a0 00 91 91 97 05 01 00 3c ce3b9aca00 01 00", "check"},
		{"request", "check of 8", "97 03 07 00 00 a0 00 91 91 98 05 01 00 3c ce3b9aca00 01 00 00", "check"},
		{"request", "group of a bucket", "97 03 07 00 00 a0 00 91 91 99 05 01 00 3c ce3b9aca00 01 00 01 00", "group"},
		{"request", "unknown flag of a check", "97 03 07 00 00 a0 00 91 91 99 05 01 00 3c ce3b9aca00 01 00 00 02", "flags"},
		{"request", "failed name of 257 bytes", "97 03 07 00 00 da0101" + strings.Repeat("61", 257) + "00 91 91" + good, "failed"},
		{"request", "failed run of nobody", "97 03 07 00 00 a0 01 91 91" + good, "failed"},
		{"request", "failed is nil", "97 03 07 00 00 c0 01 91 91" + good, "failed"},
		{"request", "empty sequence", "97 03 07 00 00 a0 00 91 90" + strings.Repeat("00", 20), "checks"},
		{"request", "nil sequence", "97 03 07 00 00 a0 00 91 c0" + strings.Repeat("00", 20), "checks"},
		{"request", "long check", "97 03 07 00 00 a0 00 91 91 97 05 01 00 3c ce3b9aca00 01 00", "check"},
		{"request", "more checks than bytes", "97 03 07 00 00 a0 00 91 92" + good, "checks"},
		{"request", "2049 sequences", "97 03 07 00 00 a0 00 dc0801" + strings.Repeat("91"+good, 2049), "sequences"},
		{"request", "8193 checks", "97 03 07 00 00 a0 00 91 dc2001" + strings.Repeat(good, 8193), "checks"},
		{"reply", "good", "94 04 07 01 91 93 00 a0 91 94 01 00 00 00", ""},
		{"reply", "not owner and degraded", "94 04 07 01 91 93 03 a0 91 94 01 00 00 00", "flags"},
		{"reply", "unknown flag", "94 04 07 01 91 93 04 a0 91 94 01 00 00 00", "flags"},
		{"reply", "not owner is a boolean", "94 04 07 01 91 93 c3 a0 91 94 01 00 00 00", "flags"},
		{"reply", "flags 3", "94 04 07 01 91 93 00 a0 91 94 03 00 00 00", "flags"},
		{"reply", "negative remaining", "94 04 07 01 91 93 00 a0 91 94 01 ff 00 00", "remaining"},
		{"reply", "owner of 257 bytes", "94 04 07 01 91 93 01 da0101" + strings.Repeat("61", 257) + "90", "owner"},
		{"reply", "owner longer than the frame", "94 04 07 01 91 93 01 d920 90", "owner"},
		{"messages", "good", "92 08 91 98 01 02 03 04 05 a161 06 92 07 08", ""},
		{"messages", "none", "92 08 90", ""},
		{"messages", "fingerprint 0", "92 08 91 98 01 02 03 04 05 a161 06 92 00 08", "fingerprint"},
		{"messages", "negative word", "92 08 91 98 01 02 03 04 05 a161 06 92 07 ff", "word"},
		{"messages", "word of 2^63", "92 08 91 98 01 02 03 04 05 a161 06 92 07 cf8000000000000000", "word"},
		{"messages", "half a word", "92 08 91 98 01 02 03 04 05 a161 06 92 07 cf80000000000000", "word"},
		{"messages", "no word", "92 08 91 98 01 02 03 04 05 a161 06 91 07", "words"},
		{"messages", "nil words", "92 08 91 98 01 02 03 04 05 a161 06 c0", "words"},
		{"messages", "kind 256", "92 08 91 98 cd0100 02 03 04 05 a161 06 92 07 08", "kind"},
		{"messages", "flags 256", "92 08 91 98 01 cd0100 03 04 05 a161 06 92 07 08", "flags"},
		{"messages", "partition of 2^32", "92 08 91 98 01 02 cf0000000100000000 04 05 a161 06 90", "partition"},
		{"messages", "run of nobody", "92 08 91 98 01 02 03 04 05 a0 06 92 07 08", "node"},
		{"messages", "name of 257 bytes", "92 08 91 98 01 02 03 04 05 da0101" + strings.Repeat("61", 257) + "06 90", "node"},
		{"messages", "7 elements", "92 08 91 97 01 02 03 04 05 a161 06 92 07 08", "message"},
		{"messages", "more messages than bytes", "92 08 92 98 01 02 03 04 05 a161 06 90", "messages"},
		{"messages", "4097 words", "92 08 91 98 01 02 03 04 05 a161 06 dc2002" + strings.Repeat("07", 8194), "words"},
		{"messages", "8193 messages", "92 08 dc2001" + strings.Repeat("98 01 02 03 04 05 a0 00 90", 8193), "messages"},
		{"messages", "more than 512 KiB", "92 08 91 98 01 02 03 04 05 a0 00 90" + strings.Repeat("00", 512<<10), "524300 bytes, at most 524288"},
		{"failure", "code 0", "95 05 07 00 00 a0", "code"},
		{"failure", "unknown code", "95 05 07 00 09 a0", "code"},
		{"hello", "good", "99 01 02 01 a0 a161 02 a0 00 00", ""},
		{"hello", "later elements", "9c 01 02 01 a0 a161 02 a0 00 00 91 91 c1 dd", ""},
		{"hello", "another kind", "99 03 02 01 a0 a161 02 a0 00 00", "kind"},
		{"hello", "no name", "99 01 02 01 a0 a0 02 a0 00 00", "name"},
		{"hello", "refusal without a text", "92 02 03", "text"},
		{"hello", "8 elements", "98 01 02 01 a0 a161 02 a0 00", "elements"},
		{"hello", "another protocol, then anything", "93 01 03 c1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.what+"/"+tt.name, func(t *testing.T) {
			err := decode(tt.what, wire(t, tt.frame))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got error %v, want one naming %q", err, tt.want)
			}
		})
	}
}
