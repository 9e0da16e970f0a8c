package rpc

// Frames with their length in, and their contents without it out.

func EncodeRequest(id uint64, req *DecideRequest) []byte {
	return frame(func(e *encoder) { e.request(id, req) })
}

func EncodeReply(id uint64, clock int64, reply *DecideReply) []byte {
	return frame(func(e *encoder) { e.reply(id, clock, reply) })
}

func EncodeFailure(id uint64, clock int64, code Code, text string) []byte {
	return frame(func(e *encoder) { e.failure(id, clock, code, text) })
}

func EncodeHello(self, want Identity, clock int64) []byte {
	h := hello{protocol: Protocol, Identity: self, wantName: want.Name, wantBoot: want.Boot, clock: clock}
	return frame(func(e *encoder) { e.hello(&h) })
}

func EncodeMessages(shift int64, messages []Message) []byte {
	return frame(func(e *encoder) { e.messages(messages, shift) })
}

func EncodeStatusRequest(id uint64) []byte { return frame(func(e *encoder) { e.statusRequest(id) }) }

func EncodeStatus(id uint64, clock int64, s Status) []byte {
	return frame(func(e *encoder) { e.status(id, clock, s) })
}

func DecodeRequest(frame []byte) (id uint64, req *DecideRequest, err error) {
	d := decoderOf(frame)
	d.begin()
	id = d.uint("id", maxUint64)
	var in incoming
	if err := d.request(&in); err != nil {
		return id, nil, err
	}
	return id, &in.DecideRequest, nil
}

func DecodeReply(frame []byte) (id uint64, clock int64, reply *DecideReply, err error) {
	d := decoderOf(frame)
	d.begin()
	id = d.uint("id", maxUint64)
	clock = int64(d.uint("clock", maxInt64))
	reply, err = d.reply(MaxChecks)
	return id, clock, reply, err
}

func DecodeFailure(frame []byte) (id uint64, code Code, text string, err error) {
	d := decoderOf(frame)
	d.begin()
	id = d.uint("id", maxUint64)
	d.uint("clock", maxInt64)
	code, text, err = d.failure()
	return id, code, text, err
}

func DecodeMessages(frame []byte) ([]Message, error) {
	d := decoderOf(frame)
	d.begin()
	var in inbox
	return in.read(d)
}

func DecodeHello(frame []byte) (self, want Identity, clock int64, err error) {
	h, err := decoderOf(frame).hello()
	return h.Identity, Identity{Name: h.wantName, Boot: h.wantBoot}, h.clock, err
}

func frame(build func(*encoder)) []byte {
	e := newEncoder()
	build(e)
	return e.buf
}

func decoderOf(frame []byte) *decoder {
	d := newDecoder()
	d.reset(frame)
	return d
}
