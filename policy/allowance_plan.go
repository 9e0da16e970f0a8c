package policy

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"weir/leaky"
)

// Action is what a call about an operation does.
type Action uint8

const (
	Take    Action = iota // the operation goes on now, if it may
	Peek                  // may it?
	Succeed               // it went well: what success clears is cleared
	Fail                  // it failed, and failures count
	Issue                 // something was issued, after which others have to wait
	Impose                // nothing may go on before a delay has passed
	Reset                 // forget what is counted of this subject
)

// String returns the action as requests spell it.
func (a Action) String() string {
	return []string{"take", "peek", "succeed", "fail", "issue", "impose", "reset"}[a]
}

// parseAction reads an action; the empty text is Take.
func parseAction(text string) (Action, *FieldError) {
	var words []string
	for a := Take; a <= Reset; a++ {
		if text == a.String() || text == "" {
			return a, nil
		}
		words = append(words, a.String())
	}
	return 0, fieldErrorf("action", "unknown action %s; use one of %s", inQuotes(text), strings.Join(words, ", "))
}

// AllowancePlan is what must be asked about an operation.
type AllowancePlan struct {
	Action Action
	Steps  []Step // in the order of the operation's rules; empty: allowed
	// SlowMode says that a peek is to tell of slow mode.
	SlowMode bool
	Bypass   bool   // the caller may bypass slow mode
	Path     string // the form field that the request names; empty: the rule's own
}

// Step is one rule, and what is asked of its bucket.
type Step struct {
	Rule  *Allowance
	Check leaky.Check
}

// PlanAllowance returns the checks of a call about one of the policy's
// operations. The error, if any, is a *FieldError, and nothing is consumed by a
// request that gets one.
func (p *Policy) PlanAllowance(keys Keys, o *Operation, req *AllowanceRequest) (AllowancePlan, error) {
	action, err := parseAction(req.Action)
	if err != nil {
		return AllowancePlan{}, err
	}
	b := &allowanceBuilder{policy: p, keys: keys, request: req, subject: &req.Subject}
	b.plan.Action = action
	if err := b.build(o); err != nil {
		return AllowancePlan{}, err
	}
	return b.plan, nil
}

// allowanceBuilder makes the plan of one request.
type allowanceBuilder struct {
	policy  *Policy
	keys    Keys
	request *AllowanceRequest
	subject *Subject
	delay   time.Duration // of impose
	plan    AllowancePlan
}

func (b *allowanceBuilder) build(o *Operation) *FieldError {
	rules := o.rules(b.plan.Action.concerns)
	if len(rules) == 0 {
		return fieldErrorf("action", "no rule of %s has the action %s", o.Name, b.plan.Action)
	}
	for _, check := range []func(*Operation) *FieldError{b.checkTest, b.checkDelay, b.checkPath, b.checkInterval} {
		if err := check(o); err != nil {
			return err
		}
	}
	for _, rule := range rules {
		if err := b.add(rule); err != nil {
			return err
		}
	}
	if len(b.plan.Steps) == 0 && (b.plan.Action == Impose || b.plan.Action == Reset) {
		return fieldErrorf("subject", "it has the key of no rule of %s; give %s", o.Name, alternatives(rules))
	}
	return nil
}

// concerns reports whether the action touches a rule.
func (a Action) concerns(rule *Allowance) bool {
	switch a {
	case Succeed:
		return rule.ClearedBySucceed
	case Fail:
		return rule.Kind == LockoutAllowance
	case Issue:
		return rule.Kind == AfterIssue
	case Impose:
		return rule.Kind == Imposed
	}
	return true
}

// alternatives lists the keys of rules, for messages.
func alternatives(rules []*Allowance) string {
	var keys []string
	for _, rule := range rules {
		fields := make([]string, len(rule.Key))
		for i, part := range rule.Key {
			fields[i] = part.field()
		}
		if rule.SlowMode {
			keys = append(keys, fields[0]) // it is cleared by its first part, too
		}
		keys = append(keys, strings.Join(fields, " and "))
	}
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), ", or ")
}

func (b *allowanceBuilder) checkTest(*Operation) *FieldError {
	test := b.request.Test
	switch {
	case test == nil:
		return nil
	case !b.policy.TestMode:
		return fieldErrorf("test", "the policy is not in test mode")
	case test.GlobalLimit != nil && *test.GlobalLimit < 1:
		return fieldErrorf("test.global_limit", "%d is below 1", *test.GlobalLimit)
	}
	return nil
}

func (b *allowanceBuilder) checkDelay(*Operation) *FieldError {
	text := b.request.Delay
	switch {
	case text == "" && b.plan.Action == Impose:
		return fieldErrorf("delay", "missing; the action impose needs one, such as 45s")
	case text == "":
		return nil
	case b.plan.Action != Impose:
		return fieldErrorf("delay", "only the action impose has a delay")
	}
	delay, err := ParseWindow(text)
	if err != nil {
		return fieldErrorf("delay", "%s is no duration between 1ms and 366d, such as 45s", inQuotes(text))
	}
	b.delay = delay
	return nil
}

// checkPath takes the form field that the request names, which must be one of
// those that the operation's rules refuse.
func (b *allowanceBuilder) checkPath(o *Operation) *FieldError {
	path := b.subject.Path
	forms := o.rules(func(a *Allowance) bool { return a.Shape == ShapeForm && a.Kind != CooldownStart })
	if path == "" || len(forms) == 0 {
		return nil
	}
	var known []string
	for _, a := range forms {
		known = append(known, a.Path)
		if a.OtherPath != "" {
			known = append(known, a.OtherPath)
		}
	}
	if !slices.Contains(known, path) {
		return fieldErrorf("subject.path", "%s is no form field of %s; use %s", inQuotes(path), o.Name, strings.Join(slices.Compact(known), " or "))
	}
	b.plan.Path = path
	return nil
}

func (b *allowanceBuilder) checkInterval(o *Operation) *FieldError {
	slow := slices.ContainsFunc(o.Rules, func(a *Allowance) bool { return a.SlowMode })
	if !slow || b.plan.Action != Take && b.plan.Action != Peek {
		return nil
	}
	b.plan.SlowMode, b.plan.Bypass = true, b.subject.Bypass
	switch interval := b.subject.Interval; {
	case interval == nil && b.subject.slowModeCounts():
		return fieldErrorf("subject.interval", "missing; give the seconds of the channel's slow mode, 0 if it has none")
	case interval != nil && (*interval < 0 || *interval > maxInterval):
		return fieldErrorf("subject.interval", "%d is not between 0 and %d seconds", *interval, maxInterval)
	}
	return nil
}

// add adds the step of a rule, unless the rule is not about the request.
func (b *allowanceBuilder) add(rule *Allowance) *FieldError {
	action := b.plan.Action
	clears := action == Reset || action == Succeed
	missing, lacks := b.subject.lacks(rule.Key)
	switch {
	case !lacks && clears && rule.SlowMode:
		return b.addGroup(rule, rule.Key) // whatever the interval, which is not asked for
	case !lacks:
	case action == Reset && rule.SlowMode && b.hasFirst(rule):
		return b.addGroup(rule, rule.Key[:1])
	case rule.Optional, action == Reset, action == Impose:
		return nil
	default:
		return fieldErrorf("subject."+missing.field(), "missing; the rule %s counts for each", rule.Label)
	}
	placement, key, err := b.key(rule)
	if err != nil {
		return err
	}
	if (action == Take || action == Peek) && !b.isCounted(rule) {
		return nil
	}
	check := leaky.Check{
		Partition:   b.keys.partition(placement),
		Fingerprint: b.keys.fingerprint(key),
		Rule:        b.rule(rule),
		Cost:        1,
	}
	if rule.SlowMode {
		var err *FieldError
		if check.Groups, err = b.groups(rule); err != nil {
			return err
		}
	}
	switch {
	case action == Take || action == Peek:
		check.LookOnly = rule.Kind == LockoutAllowance || rule.Kind == AfterIssue || rule.Kind == Imposed
	case clears:
		check.Cost = rule.Limit()
	}
	b.plan.Steps = append(b.plan.Steps, Step{rule, check})
	return nil
}

// hasFirst reports whether the subject has the first part of a key of several.
func (b *allowanceBuilder) hasFirst(rule *Allowance) bool {
	_, lacks := b.subject.lacks(rule.Key[:1])
	return len(rule.Key) > 1 && !lacks
}

// groups returns the words by which a slow mode's key is cleared, whatever the
// interval: with all keys that have its first part, and by itself.
func (b *allowanceBuilder) groups(rule *Allowance) (groups [2]uint64, err *FieldError) {
	for i, parts := range [][]KeyPart{rule.Key[:1], rule.Key} {
		if groups[i], _, err = b.group(rule, parts); err != nil {
			return groups, err
		}
	}
	return groups, nil
}

// group returns the word that clears every key that begins with these parts.
func (b *allowanceBuilder) group(rule *Allowance, parts []KeyPart) (fingerprint uint64, placement []byte, err *FieldError) {
	placement, key, err := b.parts(appendPart(nil, "group"), rule, parts)
	if err != nil {
		return 0, nil, err
	}
	key = append(key, byte(len(parts)))
	return b.keys.fingerprint(key), placement, nil
}

// addGroup adds the step that clears every key that begins with these parts.
func (b *allowanceBuilder) addGroup(rule *Allowance, parts []KeyPart) *FieldError {
	fingerprint, placement, err := b.group(rule, parts)
	if err != nil {
		return err
	}
	group, _ := leaky.NewRule(leaky.Group, 1, leaky.MaxWindow) // within bounds
	b.plan.Steps = append(b.plan.Steps, Step{rule, leaky.Check{
		Partition:   b.keys.partition(placement),
		Fingerprint: fingerprint,
		Rule:        group,
		Cost:        1,
	}})
	return nil
}

// isCounted reports whether a rule is about the request at all.
func (b *allowanceBuilder) isCounted(rule *Allowance) bool {
	switches := b.policy.Switches
	switch {
	case rule.OffWith == OffDisabled && (switches.DisableRateLimits || b.untested()):
		return false
	case rule.OffWith == OffRelaxedRegistration && switches.RelaxRegistrationRateLimits:
		return false
	case rule.Counts == CountsChanged && !b.subject.changed():
		return false
	case rule.SlowMode:
		return b.subject.slowModeCounts() && *b.subject.Interval > 0
	}
	return true
}

// untested reports whether the policy is in test mode and the request does not
// ask to be decided in earnest.
func (b *allowanceBuilder) untested() bool {
	return b.policy.TestMode && (b.request.Test == nil || !b.request.Test.Enforce)
}

// rule returns what the word is measured against.
func (b *allowanceBuilder) rule(rule *Allowance) leaky.Rule {
	kind, window := leaky.CooldownStart, rule.Window()
	switch {
	case b.plan.Action == Impose:
		window = b.delay
	case b.plan.Action == Issue:
	case rule.SlowMode:
		kind, window = leaky.Cooldown, b.interval()
	default:
		return rule.Rule
	}
	// Windows are within bounds by now, and a limit of 1 always is.
	made, _ := leaky.NewRule(kind, 1, window)
	return made
}

// interval returns the window of a slow mode that counts.
func (b *allowanceBuilder) interval() time.Duration {
	return time.Duration(*b.subject.Interval) * time.Second
}

// key returns the parts of a rule's key: the first places it, all of them with
// the counter and the window choose the bucket.
func (b *allowanceBuilder) key(rule *Allowance) (placement, key []byte, err *FieldError) {
	if placement, key, err = b.parts(nil, rule, rule.Key); err != nil {
		return nil, nil, err
	}
	window := rule.Window()
	if rule.SlowMode && b.subject.Interval != nil {
		window = b.interval()
	}
	return placement, binary.BigEndian.AppendUint64(key, uint64(window)), nil
}

// parts appends what tells the counter of a rule from all others, and from every
// bucket of a route, and then parts of its key, of which the first places it.
func (b *allowanceBuilder) parts(prefix []byte, rule *Allowance, parts []KeyPart) (placement, key []byte, err *FieldError) {
	key = appendPart(prefix, "allowance")
	if rule.Counter != "" {
		key = append(key, 1)
		key = appendPart(key, rule.Counter)
	} else {
		key = append(key, 0)
		key = appendPart(key, rule.Operation)
		key = appendPart(key, rule.Name)
	}
	begins := len(key)
	for i, part := range parts {
		if key, err = b.subject.appendKey(key, part); err != nil {
			return nil, nil, err
		}
		if i == 0 {
			placement = key[begins:len(key):len(key)]
		}
	}
	return placement, key, nil
}
