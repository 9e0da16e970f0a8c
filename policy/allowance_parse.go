package policy

import (
	"slices"
	"strings"

	"weir/leaky"
)

const (
	maxRules    = 16 // of an operation; bounds the work of one call
	maxKeyParts = 4
)

// windowOfRequest stands for a window that each request says.
const windowOfRequest = "interval"

func (r *reader) allowances(v *yamlValue) {
	const such = `login: {email: {kind: bucket, key: email, limit: 5, window: 15m}}`
	if v == nil || !r.isMapping(v, "allowances", such) {
		return
	}
	if len(v.entries) > maxEntries {
		r.add(v.line, "%d operations; a policy has at most %d", len(v.entries), maxEntries)
		return
	}
	for _, e := range r.distinct(v, "operation", "allowances") {
		r.operation(e)
	}
	cooldowns := map[string]bool{}
	for _, a := range r.policy.Allowances {
		if a.Kind == CooldownAllowance && a.Counter != "" {
			cooldowns[a.Counter] = true
		}
	}
	for i, a := range r.policy.Allowances {
		if a.Kind == CooldownStart && !cooldowns[a.Counter] {
			r.warnings.add(r.ruleLines[i], "rule %s begins the wait of no cooldown; give it and a cooldown of another operation one counter, as in kind: \"cooldown:name\"", inQuotes(a.Label))
		}
	}
}

func (r *reader) operation(e yamlEntry) {
	of := "operation " + inQuotes(e.name)
	r.ruleName(e, "the operation name")
	if e.value.kind == yamlInvalid || !r.isMapping(e.value, of, "email: {kind: bucket, key: email, limit: 5, window: 15m}") {
		return
	}
	if n := len(e.value.entries); n == 0 || n > maxRules {
		r.add(e.line, "%s has %d rules; write 1 to %d", of, n, maxRules)
		return
	}
	o := &Operation{Name: e.name}
	slow := false
	for _, rule := range r.distinct(e.value, "rule", of) {
		r.ruleName(rule, "the rule name")
		a := r.allowance(e.name, rule)
		if a == nil {
			continue
		}
		if a.SlowMode && slow {
			r.add(rule.line, "%s has two rules whose window is %s; keep one", of, windowOfRequest)
		}
		slow = slow || a.SlowMode
		if r.policy.bucketNamed[a.Label] != nil {
			r.add(rule.line, "rule %s is called as a bucket is; rename one of them", inQuotes(a.Label))
		}
		if slices.ContainsFunc(o.Rules, func(other *Allowance) bool { return a.Counter != "" && a.Counter == other.Counter }) {
			r.add(rule.line, "%s has two rules with the counter %s, which one call would charge twice; keep one", of, a.Counter)
			continue
		}
		r.shareCounter(a, rule.line)
		o.Rules = append(o.Rules, a)
		r.policy.Allowances = append(r.policy.Allowances, a)
		r.ruleLines = append(r.ruleLines, rule.line)
	}
	r.policy.Operations = append(r.policy.Operations, o)
	r.policy.operationNamed[o.Name] = o
}

func (r *reader) ruleName(e yamlEntry, what string) {
	if !isName(e.name) || len(e.name) > maxNameBytes {
		r.add(e.line, "%s %s is malformed; write letters, digits and _", what, inQuotes(e.name))
	}
}

// allowance reads one rule; nil if it has an error.
func (r *reader) allowance(operation string, e yamlEntry) *Allowance {
	label := operation + "/" + e.name
	of := "rule " + inQuotes(label)
	if e.value.kind == yamlInvalid || !r.isMapping(e.value, of, "{kind: bucket, key: email, limit: 5, window: 15m}") {
		return nil
	}
	f := r.fields(e.value, of, "kind", "key", "limit", "window", "shape", "code", "path", "other_path", "wait_unit", "scope",
		"optional", "off_with", "counts", "cleared_by_succeed", "effect", "notes")
	before := len(r.list)
	a := &Allowance{
		Index:            len(r.policy.Allowances),
		Operation:        operation,
		Name:             e.name,
		Label:            label,
		Key:              r.keyParts(f["key"], of, e.line),
		Scope:            choice(r, f["scope"], "scope of "+of, ScopeUser, ScopeShared),
		Optional:         r.boolean(f["optional"], "optional of "+of),
		OffWith:          choice(r, f["off_with"], "off_with of "+of, OffNever, OffDisabled, OffRelaxedRegistration),
		Counts:           choice(r, f["counts"], "counts of "+of, CountsAll, CountsChanged),
		ClearedBySucceed: r.boolean(f["cleared_by_succeed"], "cleared_by_succeed of "+of),
		Effect:           r.name(f["effect"], "the effect of "+of, "destroy_ticket"),
	}
	a.Notes, _ = r.text(f["notes"], "the notes of "+of, "why")
	if r.allowanceKind(a, f["kind"], of, e.line) {
		r.allowanceRule(a, f, of, e.line)
		r.refusal(a, f, of, e.line)
	}
	if len(r.list) > before {
		return nil
	}
	return a
}

// allowanceKind reads "kind" or "kind:counter".
func (r *reader) allowanceKind(a *Allowance, v *yamlValue, of string, line int) bool {
	kinds := []AllowanceKind{BucketAllowance, CooldownAllowance, CooldownStart, AfterIssue, QuotaAllowance, LockoutAllowance, Imposed}
	words := make([]string, len(kinds))
	for i, kind := range kinds {
		words[i] = kind.String()
	}
	right := "write one of " + strings.Join(words, ", ") + `, and "kind:name" to share a counter`
	if v == nil {
		r.add(line, "%s has no kind; %s", of, right)
		return false
	}
	text, ok := r.text(v, "the kind of "+of, "bucket")
	if !ok {
		return false
	}
	kind, counter, shared := strings.Cut(text, ":")
	i := slices.Index(words, kind)
	if i < 0 || shared && !isName(counter) {
		r.add(v.line, "the kind of %s is %s; %s", of, v.shown(), right)
		return false
	}
	a.Kind, a.Counter = kinds[i], counter
	return true
}

// keyParts reads one part of a key, or a list of them.
func (r *reader) keyParts(v *yamlValue, of string, line int) []KeyPart {
	all := keyParts()
	words := make([]string, len(all))
	for i, part := range all {
		words[i] = part.String()
	}
	right := "write one or a list of " + strings.Join(words, ", ")
	switch {
	case v == nil:
		r.add(line, "%s has no key; %s", of, right)
		return nil
	case v.kind == yamlInvalid:
		return nil
	}
	items := []*yamlValue{v}
	if v.kind == yamlList {
		items = v.items
	}
	if len(items) == 0 || len(items) > maxKeyParts {
		r.add(v.line, "the key of %s has %d parts; write 1 to %d", of, len(items), maxKeyParts)
		return nil
	}
	var parts []KeyPart
	for _, item := range items {
		i := -1
		if item.scalar() {
			i = slices.Index(words, item.text)
		}
		switch {
		case i < 0:
			r.add(item.line, "a part of the key of %s is %s; %s", of, item.shown(), right)
		case slices.Contains(parts, all[i]):
			r.add(item.line, "the key of %s has %s twice; keep one", of, words[i])
		default:
			parts = append(parts, all[i])
		}
	}
	return parts
}

// allowanceRule reads limit and window.
func (r *reader) allowanceRule(a *Allowance, f fields, of string, line int) {
	counted := a.Kind == BucketAllowance || a.Kind == QuotaAllowance || a.Kind == LockoutAllowance
	limit, most, good := int64(1), int64(leaky.MaxLimit), true
	switch {
	case !counted:
		most = 1
	case a.Kind != BucketAllowance:
		most = leaky.MaxCount
	}
	if f["limit"] != nil || counted {
		if f["limit"] == nil {
			r.add(line, "%s has no limit; add one, such as limit: 5", of)
		}
		limit, good = r.integer(f["limit"], "the limit of "+of, most)
	}
	window := leaky.MaxWindow // no imposed delay is longer
	switch v := f["window"]; {
	case a.Kind == Imposed && v != nil:
		r.add(v.line, "%s has a window; each impose says its delay, leave the window out", of)
		return
	case a.Kind == Imposed:
	case v == nil:
		r.add(line, "%s has no window; add one, such as window: 15m", of)
		return
	case v.scalar() && v.text == windowOfRequest:
		if a.Kind != CooldownAllowance {
			r.add(v.line, "the window of %s is %s, which only a cooldown can have; write a duration", of, windowOfRequest)
		}
		a.SlowMode = true
		return
	default:
		var ok bool
		if window, ok = r.window(v, "the window of "+of); !ok {
			return
		}
	}
	if !good {
		return
	}
	if a.Kind == BucketAllowance {
		a.Rule, _ = r.newRule(limit, window, of, line)
		return
	}
	rule, err := leaky.NewRule(a.Kind.leaky(), limit, window)
	if err != nil {
		r.add(line, "%s is impossible: %v", of, err)
	}
	a.Rule = rule
}

// refusal reads how a refusal is written. Most fields belong to some shapes only.
func (r *reader) refusal(a *Allowance, f fields, of string, line int) {
	only := func(name, with string, belongs bool) {
		if v := f[name]; v != nil && !belongs {
			r.add(v.line, "%s has %s, which belongs to %s; leave it out", of, name, with)
		}
	}
	refuses := a.Kind != CooldownStart
	if !refuses {
		for _, name := range []string{"shape", "code", "effect", "scope", "path", "other_path", "wait_unit"} {
			only(name, "rules that can refuse", false)
		}
		return
	}
	a.Shape = choice(r, f["shape"], "the shape of "+of, Shape429, ShapeResend, ShapeForm, ShapeRoot400, ShapeRoot403, ShapeSlowMode)
	form := a.Shape == ShapeForm
	only("scope", "the shape 429", a.Shape == Shape429)
	for _, name := range []string{"path", "other_path", "wait_unit"} {
		only(name, "the shape 400_form", form)
	}
	a.Code = r.name(f["code"], "the code of "+of, "RATE_LIMITED")
	a.Path = r.word(f["path"], "the path of "+of, "username")
	a.OtherPath = r.word(f["other_path"], "the other_path of "+of, "discriminator")
	a.WaitUnit = choice(r, f["wait_unit"], "wait_unit of "+of, WaitNone, WaitMinutes, WaitSeconds)
	switch {
	case f["code"] == nil && a.Shape == Shape429:
		a.Code = "RATE_LIMITED"
	case f["code"] == nil:
		r.add(line, "%s has no code; add one, such as code: TOO_OFTEN", of)
	}
	if form && f["path"] == nil {
		r.add(line, "%s has no path; add the form field that it refuses, such as path: username", of)
	}
	if form && f["wait_unit"] == nil {
		r.add(line, "%s has no wait_unit; add minutes, seconds or none", of)
	}
}

// name reads letters, digits and _, empty if it is not given.
func (r *reader) name(v *yamlValue, what, such string) string {
	text, ok := r.text(v, what, such)
	if ok && (!isName(text) || len(text) > maxNameBytes) {
		r.add(v.line, "%s is %s; write letters, digits and _, such as %s", what, v.shown(), such)
	}
	return text
}

// word reads printable text without spaces, empty if it is not given.
func (r *reader) word(v *yamlValue, what, such string) string {
	text, ok := r.text(v, what, such)
	if ok && !isWord(text) {
		r.add(v.line, "%s is %s; write up to 256 bytes without spaces, such as %s", what, v.shown(), such)
	}
	return text
}

// shareCounter checks that the rule fits those that have its counter already.
func (r *reader) shareCounter(a *Allowance, line int) {
	if a.Counter == "" {
		return
	}
	first := r.counters[a.Counter]
	if first == nil {
		r.counters[a.Counter] = a
		return
	}
	if !a.sharesWith(first) {
		r.add(line, "rule %s shares the counter %s with rule %s; give both the same kind, key, limit and window", inQuotes(a.Label), a.Counter, inQuotes(first.Label))
	}
}
