package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"weir/leaky"
)

// fields are the values of one mapping by name. One that is absent is nil, and
// every reader below takes nil for "not given".
type fields map[string]*yamlValue

// fields reads a mapping of known fields. of says whose they are, in messages.
func (r *reader) fields(v *yamlValue, of string, known ...string) fields {
	found := make(fields, len(known))
	if v == nil || !r.isMapping(v, of, known[0]+": …") {
		return found
	}
	isKnown := make(map[string]bool, len(known))
	for _, name := range known {
		isKnown[name] = true
	}
	for _, e := range r.distinct(v, "field", of) {
		if isKnown[e.name] {
			found[e.name] = e.value
			continue
		}
		right := "it may have " + strings.Join(known, ", ")
		if near, ok := nearest(e.name, known); ok {
			right = "did you mean " + near + "?"
		}
		r.add(e.line, "%s has an unknown field %s; %s", of, inQuotes(e.name), right)
	}
	return found
}

// isMapping reports, if need be, that a mapping was expected.
func (r *reader) isMapping(v *yamlValue, what, such string) bool {
	if v.kind != yamlMapping && v.kind != yamlInvalid {
		r.add(v.line, "%s is %s; write a mapping such as %s", what, v.shown(), such)
	}
	return v.kind == yamlMapping
}

// distinct returns the entries of a mapping, each name once.
func (r *reader) distinct(v *yamlValue, noun, of string) []yamlEntry {
	first := make(map[string]int, len(v.entries))
	kept := make([]yamlEntry, 0, len(v.entries))
	for _, e := range v.entries {
		if line, twice := first[e.name]; twice {
			r.add(e.line, "%s has the %s %s twice, first in line %d; keep one", of, noun, inQuotes(e.name), line)
			continue
		}
		first[e.name] = e.line
		kept = append(kept, e)
	}
	return kept
}

// integer reads a whole number from 1 to most. YAML's other spellings (1_000,
// 0x10, 010, 1e3) are read differently by different people and libraries: only
// plain digits will do.
func (r *reader) integer(v *yamlValue, what string, most int64) (int64, bool) {
	switch {
	case v == nil || v.kind == yamlInvalid:
		return 0, false
	case v.kind == yamlQuoted:
		r.add(v.line, "%s is the text %s; write the digits without quotes", what, v.shown())
		return 0, false
	case !v.scalar() || !plainDigits(v.text):
		r.add(v.line, "%s is %s; write a whole number in plain digits, from 1 to %d", what, v.shown(), most)
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil || n < 1 || n > most {
		r.add(v.line, "%s is %s, out of range; write a whole number from 1 to %d", what, v.shown(), most)
		return 0, false
	}
	return n, true
}

// plainDigits reports whether s is digits only. A zero in front would be octal
// to some readers.
func plainDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == "" && (s[0] != '0' || s == "0")
}

func (r *reader) boolean(v *yamlValue, what string) bool {
	if v == nil || v.kind == yamlInvalid {
		return false
	}
	if v.kind != yamlTyped || v.text != "true" && v.text != "false" {
		r.add(v.line, "%s is %s; write true or false", what, v.shown())
		return false
	}
	return v.text == "true"
}

// text reads non-empty text.
func (r *reader) text(v *yamlValue, what, such string) (string, bool) {
	switch {
	case v == nil || v.kind == yamlInvalid:
		return "", false
	case v.kind != yamlQuoted && v.kind != yamlPlain:
		r.add(v.line, "%s is %s; write text such as %s, in quotes if need be", what, v.shown(), such)
		return "", false
	case v.text == "":
		r.add(v.line, "%s is empty text; write text such as %s, or leave it out", what, such)
		return "", false
	}
	return v.text, true
}

// choice reads one of several words; the first is the default.
func choice[T fmt.Stringer](r *reader, v *yamlValue, what string, values ...T) T {
	if v == nil || v.kind == yamlInvalid {
		return values[0]
	}
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = value.String()
		if v.scalar() && v.text == words[i] {
			return value
		}
	}
	r.add(v.line, "%s is %s; write %s", what, v.shown(), strings.Join(words, " or "))
	return values[0]
}

func (r *reader) window(v *yamlValue, what string) (time.Duration, bool) {
	if v == nil || v.kind == yamlInvalid {
		return 0, false
	}
	if v.kind == yamlTyped && plainDigits(v.text) {
		such := v.text + "s"
		if _, err := ParseWindow(such); err != nil {
			such = "10s"
		}
		r.add(v.line, "%s is %s, without a unit; write a duration such as %s", what, v.shown(), such)
		return 0, false
	}
	if !v.scalar() {
		r.add(v.line, "%s is %s; write a duration such as 10s, 1m, 1h or 1d", what, v.shown())
		return 0, false
	}
	window, err := ParseWindow(v.text)
	switch {
	case errors.Is(err, leaky.ErrWindow):
		r.add(v.line, "%s is %s, out of range; write 1ms to 366d", what, v.shown())
	case err != nil:
		r.add(v.line, "%s is %s, which is no duration; write one such as 10s, 1m, 1h or 1d", what, v.shown())
	}
	return window, err == nil
}

// rule reads limit and window, both required, of a bucket or of the global one.
func (r *reader) rule(f fields, of string, line int) (leaky.Rule, bool) {
	for _, need := range []struct{ name, such string }{
		{"limit", "limit: 60"}, {"window", "window: 10s"},
	} {
		if f[need.name] == nil {
			r.add(line, "%s has no %s; add one, such as %s", of, need.name, need.such)
		}
	}
	limit, okLimit := r.integer(f["limit"], "the limit of "+of, leaky.MaxLimit)
	window, okWindow := r.window(f["window"], "the window of "+of)
	if !okLimit || !okWindow {
		return leaky.Rule{}, false
	}
	return r.newRule(limit, window, of, f["limit"].line)
}

func (r *reader) newRule(limit int64, window time.Duration, of string, line int) (leaky.Rule, bool) {
	rule, err := leaky.NewRule(leaky.Bucket, limit, window)
	switch {
	case errors.Is(err, leaky.ErrInterval):
		r.add(line, "%s allows %d per %s, which is under 1µs for each; write a limit of at most %d or a window of at least %s",
			of, limit, window, int64(window/leaky.MinInterval), time.Duration(limit)*leaky.MinInterval)
	case err != nil:
		r.add(line, "%s is impossible: %v; write a limit of 1 to %d and a window of 1ms to 366d", of, err, leaky.MaxLimit)
	}
	return rule, err == nil
}

// maxNameBytes is the longest a bucket's name, a flag or a path segment may be.
const maxNameBytes = 256

// isWord reports whether s is printable, without spaces and not too long.
func isWord(s string) bool {
	if s == "" || len(s) > maxNameBytes || !utf8.ValidString(s) {
		return false
	}
	return strings.IndexFunc(s, func(c rune) bool { return !unicode.IsPrint(c) || c == ' ' }) < 0
}

// isName reports whether s is a letter or _, then letters, digits and _.
func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
