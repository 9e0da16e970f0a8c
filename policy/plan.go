package policy

import (
	"net/netip"
	"slices"

	"weir/leaky"
)

// Plan is what must be asked, and what the answer depends on beside it.
type Plan struct {
	Forbidden      bool          // refused with 403 before anything is counted
	Checks         []leaky.Check // in the order of evaluation; empty: allowed
	Buckets        []*Bucket     // the bucket of each check
	RevokeSession  bool          // a global refusal ends the caller's session
	SuccessHeaders bool          // an allowed answer carries rate-limit headers

	byEmail int // index of the first check that an e-mail address places
}

// Stages returns the checks cut where they are placed by something else: those
// of the caller, then those of the e-mail address. Those of the caller may be
// none, so that a later stage is never decided before an earlier one's turn.
func (p *Plan) Stages() [][]leaky.Check {
	switch {
	case len(p.Checks) == 0:
		return nil
	case p.byEmail == len(p.Checks):
		return [][]leaky.Check{p.Checks}
	}
	return [][]leaky.Check{p.Checks[:p.byEmail], p.Checks[p.byEmail:]}
}

func (p *Plan) add(keys Keys, placement []byte, key []byte, b *Bucket, rule leaky.Rule) {
	p.Checks = append(p.Checks, leaky.Check{
		Partition:   keys.partition(placement),
		Fingerprint: keys.fingerprint(key),
		Rule:        rule,
		Cost:        1,
	})
	p.Buckets = append(p.Buckets, b)
}

// Plan returns the checks that decide the request, in their order: global, the
// route's buckets as declared, then those keyed by e-mail. The error, if any,
// is a *FieldError, and nothing is consumed by a request that gets one.
func (p *Policy) Plan(keys Keys, req *Request) (Plan, error) {
	if err := req.check(); err != nil {
		return Plan{}, err
	}
	counted, err := p.countedBuckets(req)
	if err != nil {
		return Plan{}, err
	}
	globalRule, err := p.globalRule(req)
	if err != nil {
		return Plan{}, err
	}
	if p.TestMode && (req.Test == nil || !req.Test.Enforce) {
		return Plan{}, nil
	}
	addr, usable := parseAddress(req.Caller.IP)
	if !usable && (req.Caller.Account == "" || p.ClientIP.Required) {
		return Plan{Forbidden: true}, nil
	}
	if req.Caller.hasFlag(p.BypassFlag) || p.Switches.DisableRateLimits || counted.none {
		return Plan{}, nil
	}
	plan := Plan{
		RevokeSession:  req.Caller.Account != "" && req.Caller.credential() == CredentialSession && !req.Caller.isBot(),
		SuccessHeaders: req.Caller.isBot() || req.Caller.Account == "" && counted.webhook,
	}
	p.addChecks(&plan, keys, req, addr, counted, globalRule)
	return plan, nil
}

// counted is which buckets a request counts against.
type counted struct {
	buckets []*Bucket
	route   *Route // nil if the request named the buckets itself
	none    bool   // the route declares no bucket at all
	webhook bool   // the path holds a webhook's id and its token
}

func (p *Policy) countedBuckets(req *Request) (counted, *FieldError) {
	for _, condition := range req.When {
		if !p.conditions[condition] {
			return counted{}, fieldErrorf("when", "no route of the policy has the condition %s", inQuotes(condition))
		}
	}
	if req.Route == "" {
		return p.askedBuckets(req)
	}
	route, ok := p.Route(req.Route)
	if !ok {
		return counted{}, fieldErrorf("route", "unknown route %s", inQuotes(req.Route))
	}
	c := counted{
		route:   route,
		none:    len(route.Buckets) == 0,
		webhook: route.HasParam(paramWebhookID) && route.HasParam(paramToken),
	}
	for _, rb := range route.Buckets {
		if rb.Condition != "" && !slices.Contains(req.When, rb.Condition) {
			continue
		}
		for _, name := range rb.Bucket.Placeholders {
			if _, given := req.Params[name]; !given && route.HasParam(name) {
				return counted{}, fieldErrorf("params."+name, "missing; the bucket %s of this route is counted for each", inQuotes(rb.Bucket.Name))
			}
		}
		c.buckets = append(c.buckets, rb.Bucket)
	}
	return c, nil
}

func (p *Policy) askedBuckets(req *Request) (counted, *FieldError) {
	var c counted
	for _, name := range req.Buckets {
		b, ok := p.Bucket(name)
		if !ok {
			return counted{}, fieldErrorf("buckets", "unknown bucket %s", inQuotes(name))
		}
		for _, placeholder := range b.Placeholders {
			if _, given := req.Params[placeholder]; !given {
				return counted{}, fieldErrorf("params."+placeholder, "missing; the bucket %s is counted for each", inQuotes(name))
			}
		}
		c.buckets = append(c.buckets, b)
	}
	_, id := req.Params[paramWebhookID]
	_, token := req.Params[paramToken]
	c.webhook = id && token
	return c, nil
}

// globalRule returns the caller's global limit: that of its flags, the highest
// if several have one, or the limit that a test asks for.
func (p *Policy) globalRule(req *Request) (leaky.Rule, *FieldError) {
	if req.Test != nil && !p.TestMode {
		return leaky.Rule{}, fieldErrorf("test", "the policy is not in test mode")
	}
	if p.Global == nil {
		if req.Test != nil && req.Test.GlobalLimit != nil {
			return leaky.Rule{}, fieldErrorf("test.global_limit", "the policy has no global bucket")
		}
		return leaky.Rule{}, nil
	}
	if req.Test != nil && req.Test.GlobalLimit != nil {
		rule, err := leaky.NewRule(leaky.Bucket, *req.Test.GlobalLimit, p.Global.Rule.Window())
		if err != nil {
			return leaky.Rule{}, fieldErrorf("test.global_limit", "%v", err)
		}
		return rule, nil
	}
	rule, flagged := p.Global.Rule, false
	for _, f := range p.Global.Flags {
		if req.Caller.hasFlag(f.Flag) && (!flagged || f.Rule.Limit() > rule.Limit()) {
			rule, flagged = f.Rule, true
		}
	}
	return rule, nil
}

func (p *Policy) addChecks(plan *Plan, keys Keys, req *Request, addr netip.Addr, c counted, globalRule leaky.Rule) {
	value := func(name string) (string, bool) {
		// A placeholder that the route's path does not have stays a literal,
		// also if the request happens to name such a parameter.
		if c.route != nil && !c.route.HasParam(name) {
			return "", false
		}
		v, ok := req.Params[name]
		return v, ok
	}
	plan.Checks = make([]leaky.Check, 0, 1+len(c.buckets))
	plan.Buckets = make([]*Bucket, 0, 1+len(c.buckets))

	var room [512]byte
	caller := req.Caller.appendCaller(room[:0], addr)
	if p.Global != nil && !allExempt(c.buckets) {
		key := appendBucket(caller, p.Global.Bucket, globalRule.Window(), value)
		plan.add(keys, caller, key, p.Global.Bucket, globalRule)
	}
	byEmail := false
	for _, b := range c.buckets {
		if b.KeyedBy == ByEmail {
			byEmail = true
			continue
		}
		key := appendBucket(caller, b, b.Window(), value)
		plan.add(keys, caller, key, b, b.Rule)
	}
	plan.byEmail = len(plan.Checks)
	if !byEmail {
		return
	}
	hash, ok := hashEmail(req.Email)
	if !ok {
		return // no usable address: these buckets are skipped
	}
	email := appendPart(room[:0], "email")
	email = appendPart(email, hash[:])
	for _, b := range c.buckets {
		if b.KeyedBy == ByEmail {
			plan.add(keys, email, appendBucket(email, b, b.Window(), value), b, b.Rule)
		}
	}
}

// allExempt reports whether every counted bucket leaves the global one alone.
func allExempt(buckets []*Bucket) bool {
	for _, b := range buckets {
		if !b.ExemptFromGlobal {
			return false
		}
	}
	return len(buckets) > 0
}
