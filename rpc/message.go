package rpc

import (
	"errors"
	"fmt"
	"math"
	"time"

	"weir/leaky"
)

// Bounds of one request. The longest reply, of MaxSequences owners and
// MaxChecks results, is under 800 kB, so whatever is within them fits a frame.
const (
	MaxChecks    = 8192 // in all sequences together
	MaxSequences = 2048
	MaxName      = 256 // bytes of a node name or label
)

// DecideRequest asks for decisions about buckets that one node is thought to
// own. One without sequences is allowed: it measures the connection.
type DecideRequest struct {
	Hop  uint8 // how often the question was passed on before
	Mode leaky.Mode
	// Failed is the node that failed the caller before it asked here; zero if
	// none did.
	Failed Node

	// Sequences are independent of each other. None is empty.
	Sequences [][]leaky.Check
}

// DecideReply holds one outcome for each sequence of its request.
type DecideReply struct {
	Outcomes []Outcome
}

// Outcome is what became of one sequence.
type Outcome struct {
	NotOwner bool // nothing was decided: ask Owner
	// Degraded says that it was decided, but after a failure: something that
	// the failed node knew may be missing. Never with NotOwner.
	Degraded bool
	Owner    string // member name to ask instead; may be empty
	// Results are those of the checks that were decided, in order: all of
	// them, or fewer if the last is refused and the mode takes.
	Results []leaky.Result
}

// Add appends an empty outcome and returns it, for the caller to append to its
// Results: they may have room left by an earlier reply.
func (r *DecideReply) Add() *Outcome {
	n := len(r.Outcomes)
	if n == cap(r.Outcomes) {
		r.Outcomes = append(r.Outcomes, Outcome{})
	}
	r.Outcomes = r.Outcomes[:n+1]
	o := &r.Outcomes[n]
	*o = Outcome{Results: o.Results[:0]}
	return o
}

// reset empties the reply and keeps its memory, unless that is very much.
func (r *DecideReply) reset() {
	const keep = 32
	for i := range r.Outcomes {
		if cap(r.Outcomes[i].Results) > keep {
			r.Outcomes[i].Results = nil
		}
	}
	r.Outcomes = grow(r.Outcomes, 0)
}

// check returns why the request must not be sent, or nil.
func (r *DecideRequest) check() error {
	if r.Mode > lastMode {
		return errors.New("unknown mode")
	}
	if err := r.Failed.check(); err != nil {
		return fmt.Errorf("failed: %w", err)
	}
	if len(r.Sequences) > MaxSequences {
		return fmt.Errorf("%d sequences, at most %d", len(r.Sequences), MaxSequences)
	}
	checks := 0
	for _, seq := range r.Sequences {
		if len(seq) == 0 {
			return errors.New("empty sequence")
		}
		checks += len(seq)
		for i := range seq {
			switch c := &seq[i]; {
			case c.Fingerprint == 0:
				return errors.New("fingerprint is 0")
			case c.Cost < 0:
				return errors.New("cost is negative")
			case c.Rule.Limit() == 0:
				return errors.New("rule is zero")
			case c.Grouped() && c.Rule.Kind() != leaky.Cooldown:
				return errNoGroup
			}
		}
	}
	if checks > MaxChecks {
		return fmt.Errorf("%d checks, at most %d", checks, MaxChecks)
	}
	return nil
}

// answers returns why the reply cannot be that of the request, or nil.
func (r *DecideReply) answers(req *DecideRequest) error {
	if len(r.Outcomes) != len(req.Sequences) {
		return fmt.Errorf("%d outcomes for %d sequences", len(r.Outcomes), len(req.Sequences))
	}
	for i := range r.Outcomes {
		o, asked := &r.Outcomes[i], len(req.Sequences[i])
		n := len(o.Results)
		switch {
		case len(o.Owner) > MaxName:
			return errors.New("owner is too long")
		case o.NotOwner && o.Degraded:
			return errors.New("degraded by one who is not the owner")
		case o.NotOwner && n > 0:
			return errors.New("results of one who is not the owner")
		case o.NotOwner:
		case n > asked:
			return fmt.Errorf("%d results for %d checks", n, asked)
		case n < asked && (!req.Mode.Takes() || n == 0 || o.Results[n-1].Allowed):
			return fmt.Errorf("only %d results for %d checks", n, asked)
		}
	}
	return nil
}

// Status is what a node says of itself beside its decisions.
type Status struct {
	LiveBuckets int64 // buckets it holds
}

// kind is the first element of every frame.
type kind uint8

const (
	kindHello kind = iota + 1
	kindRefusal
	kindRequest
	kindReply
	kindFailure
	kindStatusRequest
	kindStatus
	kindMessages

	lastKind = kindMessages
)

const (
	maxText   = 1024 // bytes of a refusal's or failure's text
	maxHello  = 4096 // bytes of a hello or refusal frame
	anyLength = 64   // elements of a frame that may grow

	requestSize = 7 // elements of a request frame
	checkSize   = 6 // of most checks
	longCheck   = 9 // of one that belongs to a group, or is only looked at

	lastMode = leaky.TakingAll

	minCheck    = 11 // bytes: array, five numbers, a window of at least 1 ms
	minSequence = 1 + minCheck
	minResult   = 5
	minOutcome  = 4

	maxInt64  = math.MaxInt64
	maxUint64 = math.MaxUint64
)

var (
	errKind = errors.New("unexpected kind of frame")
	errID   = errors.New("reply to a request that was never made")

	errNoGroup = errors.New("only a cooldown may belong to a group")
)

// flags writes which of two things that exclude each other is true: 1, 2 or 0.
func (e *encoder) flags(one, two bool) {
	switch {
	case one:
		e.uint(1)
	case two:
		e.uint(2)
	default:
		e.uint(0)
	}
}

func (d *decoder) flags(field string) (one, two bool) {
	v := d.uint(field, 2)
	return v == 1, v == 2
}

// begin reads how many elements the frame has and its kind.
func (d *decoder) begin() (elements int, k kind) {
	elements = d.array("frame", 1, anyLength, 1)
	return elements, kind(d.uint("kind", uint64(lastKind)))
}

func (e *encoder) request(id uint64, req *DecideRequest) {
	e.begin(requestSize, kindRequest)
	e.uint(id)
	e.uint(uint64(req.Hop))
	e.uint(uint64(req.Mode))
	e.node(req.Failed)
	e.array(len(req.Sequences))
	for _, seq := range req.Sequences {
		e.array(len(seq))
		for i := range seq {
			e.check(&seq[i])
		}
	}
	e.end()
}

func (e *encoder) check(c *leaky.Check) {
	long := c.Grouped() || c.LookOnly
	if long {
		e.array(longCheck)
	} else {
		e.array(checkSize)
	}
	e.uint(uint64(c.Partition))
	e.uint(c.Fingerprint)
	e.uint(uint64(c.Rule.Kind()))
	e.uint(uint64(c.Rule.Limit()))
	e.uint(uint64(c.Rule.Window()))
	e.uint(uint64(c.Cost))
	if long {
		e.uint(c.Groups[0])
		e.uint(c.Groups[1])
		e.flags(c.LookOnly, false) // so 0 or 1
	}
}

// incoming is a request being read, and the memory it is read into.
type incoming struct {
	DecideRequest
	checks []leaky.Check
}

// request reads what follows the id. The result is valid until the next call
// with the same incoming.
func (d *decoder) request(in *incoming) error {
	in.Hop = uint8(d.uint("hop", math.MaxUint8))
	in.Mode = leaky.Mode(d.uint("mode", uint64(lastMode)))
	in.Failed = d.node("failed")
	n := d.array("sequences", 0, MaxSequences, minSequence)
	in.Sequences = grow(in.Sequences, n)
	in.checks = grow(in.checks, min(MaxChecks, d.left()/minCheck))
	for range n {
		from := len(in.checks)
		for range d.array("checks", 1, MaxChecks-from, minCheck) {
			in.checks = append(in.checks, d.check())
		}
		if d.err != nil {
			return d.err
		}
		in.Sequences = append(in.Sequences, in.checks[from:len(in.checks):len(in.checks)])
	}
	return d.done()
}

func (d *decoder) check() leaky.Check {
	elements := d.array("check", checkSize, longCheck, 1)
	c := leaky.Check{
		Partition:   uint32(d.uint("partition", math.MaxUint32)),
		Fingerprint: d.uint("fingerprint", maxUint64),
	}
	kind := leaky.Kind(d.uint("rule", math.MaxUint8))
	limit := d.uint("limit", maxInt64)
	window := d.uint("window", maxInt64)
	c.Cost = int64(d.uint("cost", maxInt64))
	switch elements {
	case checkSize:
	case longCheck:
		c.Groups = [2]uint64{d.uint("group", maxUint64), d.uint("group", maxUint64)}
		c.LookOnly = d.uint("flags", 1) == 1
	default:
		d.fail("check", fmt.Errorf("of %d elements", elements))
	}
	if d.err != nil {
		return leaky.Check{}
	}
	if c.Fingerprint == 0 {
		d.fail("fingerprint", errors.New("is 0"))
	}
	rule, err := leaky.NewRule(kind, int64(limit), time.Duration(window))
	if err != nil {
		d.fail("rule", err)
	}
	if c.Grouped() && kind != leaky.Cooldown {
		d.fail("group", errNoGroup)
	}
	c.Rule = rule
	return c
}

func (e *encoder) reply(id uint64, clock int64, reply *DecideReply) {
	e.begin(4, kindReply)
	e.uint(id)
	e.int(clock)
	e.array(len(reply.Outcomes))
	for i := range reply.Outcomes {
		o := &reply.Outcomes[i]
		e.array(3)
		e.flags(o.NotOwner, o.Degraded)
		e.text(o.Owner, MaxName)
		e.array(len(o.Results))
		for j := range o.Results {
			e.result(&o.Results[j])
		}
	}
	e.end()
}

func (e *encoder) result(r *leaky.Result) {
	e.array(4)
	e.flags(r.Allowed, r.Never)
	e.int(r.Remaining)
	e.int(int64(r.RetryAfter))
	e.int(int64(r.ResetAfter))
}

// reply reads the outcomes, of at most so many results in all.
func (d *decoder) reply(results int) (*DecideReply, error) {
	n := d.array("outcomes", 0, MaxSequences, minOutcome)
	reply := &DecideReply{Outcomes: make([]Outcome, n)}
	all := make([]leaky.Result, 0, min(results, d.left()/minResult))
	for i := range reply.Outcomes {
		o := &reply.Outcomes[i]
		d.array("outcome", 3, 3, 1)
		o.NotOwner, o.Degraded = d.flags("flags")
		o.Owner = d.text("owner", MaxName)
		from := len(all)
		for range d.array("results", 0, results-from, minResult) {
			all = append(all, d.result())
		}
		if d.err != nil {
			return nil, d.err
		}
		o.Results = all[from:len(all):len(all)]
	}
	if err := d.done(); err != nil {
		return nil, err
	}
	return reply, nil
}

func (d *decoder) result() leaky.Result {
	d.array("result", 4, 4, 1)
	allowed, never := d.flags("flags")
	return leaky.Result{
		Allowed:    allowed,
		Never:      never,
		Remaining:  int64(d.uint("remaining", maxInt64)),
		RetryAfter: time.Duration(d.uint("retry after", maxInt64)),
		ResetAfter: time.Duration(d.uint("reset after", maxInt64)),
	}
}

func (e *encoder) failure(id uint64, clock int64, code Code, text string) {
	e.begin(5, kindFailure)
	e.uint(id)
	e.int(clock)
	e.uint(uint64(code))
	e.text(text, maxText)
	e.end()
}

// failure reads what follows the clock.
func (d *decoder) failure() (Code, string, error) {
	code := Code(d.uint("code", uint64(lastCode)))
	text := d.text("text", maxText)
	if d.err == nil && code == 0 {
		d.fail("code", errors.New("is 0"))
	}
	return code, text, d.done()
}

func (e *encoder) statusRequest(id uint64) {
	e.begin(2, kindStatusRequest)
	e.uint(id)
	e.end()
}

func (e *encoder) status(id uint64, clock int64, s Status) {
	e.begin(4, kindStatus)
	e.uint(id)
	e.int(clock)
	e.int(s.LiveBuckets)
	e.end()
}

// status reads what follows the clock.
func (d *decoder) status() (Status, error) {
	s := Status{LiveBuckets: int64(d.uint("live buckets", maxInt64))}
	return s, d.done()
}

// grow returns the slice emptied, with room for n elements, and not with room
// for very many more.
func grow[E any](s []E, n int) []E {
	const keep = 1024
	if cap(s) >= n && cap(s) <= max(n, keep) {
		return s[:0]
	}
	return make([]E, 0, n)
}
