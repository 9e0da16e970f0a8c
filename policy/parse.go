package policy

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"weir/leaky"
)

//go:embed default.yaml
var defaultSource string

// Default returns the policy that a node without a policy file runs.
func Default() (*Policy, error) {
	p, _, err := Parse("default.yaml", []byte(defaultSource))
	return p, err
}

// Parse reads a policy file whole and compiles it. file is its name, for
// messages only. The returned problems are warnings, by line: the policy works,
// but says something that its author may not have meant. Of more than twenty the
// last only counts the rest. If the file cannot be used, the error is an *Errors
// and there is nothing else.
func Parse(file string, data []byte) (*Policy, []Problem, error) {
	r := &reader{
		problems: problems{file: file},
		warnings: problems{file: file},
		policy: &Policy{
			ClientIP:    ClientIP{Header: "x-forwarded-for", TrustedHops: 1},
			source:      bytes.Clone(data),
			hash:        shortHash(data),
			bucketNamed: map[string]*Bucket{},
			routeNamed:  map[string]*Route{},
			conditions:  map[string]bool{},

			operationNamed: map[string]*Operation{},
		},
		counters: map[string]*Allowance{},
	}
	if r.isText(data) {
		// Some editors put a byte order mark in front; it is not content.
		source := strings.TrimPrefix(string(data), "\ufeff")
		if root := readYAML(&r.problems, source); root != nil {
			r.root(root)
		}
	}
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	return r.policy, r.warnings.shown(), nil
}

// shortHash returns the first 16 hex digits of the SHA-256.
func shortHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// reader compiles the values of one file into a policy. Its errors are the
// embedded problems. It reads on after an error, to find as many as there are.
type reader struct {
	problems
	warnings problems
	policy   *Policy

	ruleLines []int                 // of each of the policy's allowances
	counters  map[string]*Allowance // the first rule of each shared counter
	suggested int                   // unknown buckets for which a near name was looked up
}

// isText refuses what the YAML library should not see, or would quietly mend.
func (r *reader) isText(data []byte) bool {
	if len(data) > MaxSource {
		r.add(1, "the file has %d bytes; a policy has at most %d", len(data), MaxSource)
		return false
	}
	for line, rest := 1, data; len(rest) > 0; line++ {
		this, after, _ := bytes.Cut(rest, []byte("\n"))
		switch {
		case !utf8.Valid(this):
			r.add(line, "not UTF-8; save the file as UTF-8 text")
			return false
		case bytes.IndexByte(this, 0) >= 0:
			r.add(line, "a NUL byte; save the file as UTF-8 text")
			return false
		}
		rest = after
	}
	return true
}

func (r *reader) root(v *yamlValue) {
	f := r.fields(v, "the policy", "version", "test_mode", "switches", "client_ip", "global", "bypass_flag",
		"on_unreachable", "on_full", "buckets", "routes", "allowances")
	if v.kind != yamlMapping {
		return
	}
	r.version(f["version"], v.line)
	p := r.policy
	p.TestMode = r.boolean(f["test_mode"], "test_mode")
	p.BypassFlag = r.flag(f["bypass_flag"], "bypass_flag")
	p.OnUnreachable = choice(r, f["on_unreachable"], "on_unreachable", UnreachableLocal, UnreachableAllow, UnreachableDeny)
	p.OnFull = choice(r, f["on_full"], "on_full", FullAdmit, FullRefuse)
	r.switches(f["switches"])
	r.clientIP(f["client_ip"])
	// Routes refer to buckets, and the global bucket is counted after them,
	// whichever the file has first.
	declared := r.buckets(f["buckets"])
	r.global(f["global"])
	r.routes(f["routes"], declared)
	r.allowances(f["allowances"])
}

func (r *reader) version(v *yamlValue, line int) {
	switch {
	case v == nil:
		r.add(line, "the policy has no version; add version: 1")
	case v.kind == yamlInvalid:
	case v.kind != yamlTyped || v.text != "1":
		r.add(v.line, "version is %s, which is not known; write version: 1", v.shown())
	}
}

func (r *reader) switches(v *yamlValue) {
	f := r.fields(v, "switches", "disable_rate_limits", "relax_registration_rate_limits")
	r.policy.Switches = Switches{
		DisableRateLimits:           r.boolean(f["disable_rate_limits"], "disable_rate_limits"),
		RelaxRegistrationRateLimits: r.boolean(f["relax_registration_rate_limits"], "relax_registration_rate_limits"),
	}
}

func (r *reader) clientIP(v *yamlValue) {
	f := r.fields(v, "client_ip", "required", "header", "trusted_hops")
	c := &r.policy.ClientIP
	c.Required = r.boolean(f["required"], "client_ip.required")
	if header, ok := r.text(f["header"], "client_ip.header", "x-forwarded-for"); ok {
		if !isHeader(header) {
			r.add(f["header"].line, "client_ip.header is %s, not a header's name; write one such as x-forwarded-for", inQuotes(header))
		}
		c.Header = strings.ToLower(header)
	}
	// No real chain of proxies is longer.
	if hops, ok := r.integer(f["trusted_hops"], "client_ip.trusted_hops", 1000); ok {
		c.TrustedHops = int(hops)
	}
}

// isHeader reports whether s is a token of RFC 9110, as header names are.
func isHeader(s string) bool {
	for _, c := range []byte(s) {
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func (r *reader) global(v *yamlValue) {
	if v == nil {
		return
	}
	f := r.fields(v, "global", "limit", "window", "flags")
	if v.kind != yamlMapping {
		return
	}
	rule, ok := r.rule(f, "global", v.line)
	flags := r.flagLimits(f["flags"], rule, ok)
	r.policy.Global = newGlobal(rule, flags, len(r.policy.Buckets))
}

// flagLimits reads the limits of flags. They share the global window, so they
// can be judged only if the global rule is good.
func (r *reader) flagLimits(v *yamlValue, global leaky.Rule, good bool) []FlagLimit {
	if v == nil || !r.isMapping(v, "global.flags", "SOME_FLAG: 1200") {
		return nil
	}
	var limits []FlagLimit
	for _, e := range r.distinct(v, "flag", "global") {
		of := "global flag " + inQuotes(e.name)
		if !isFlag(e.name) {
			r.add(e.line, "%s is not a flag's name; write up to 256 bytes without spaces and commas", of)
		}
		limit, ok := r.integer(e.value, "the limit of "+of, leaky.MaxLimit)
		if !ok || !good {
			continue
		}
		if rule, ok := r.newRule(limit, global.Window(), of, e.line); ok {
			limits = append(limits, FlagLimit{Flag: e.name, Rule: rule})
		}
	}
	return limits
}

// flag reads the name of an account flag, empty if it is not given.
func (r *reader) flag(v *yamlValue, what string) string {
	name, ok := r.text(v, what, "SOME_FLAG")
	if ok && !isFlag(name) {
		r.add(v.line, "%s is %s, not a flag's name; write up to 256 bytes without spaces and commas", what, inQuotes(name))
	}
	return name
}

// isFlag reports whether s can be an account flag. Proxies send flags as one
// list with commas.
func isFlag(s string) bool { return isWord(s) && !strings.Contains(s, ",") }
