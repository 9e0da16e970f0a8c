package policy

import (
	"github.com/goccy/go-yaml/token"
)

// Bounds of a policy file. The YAML parser recurses for every level and for
// every entry of a block mapping, and takes time that is quadratic in entries
// and in missing values, so they are counted before it runs.
const (
	// MaxSource is the largest policy file, in bytes.
	MaxSource = 4 << 20

	maxEntries = 16384 // buckets, routes
	maxDepth   = 8     // of nesting; a policy needs four
	maxMissing = 100   // entries without a value
)

// bounds walks the tokens of a file and finds what must not reach the parser.
type bounds struct {
	*problems
	flow    []flow   // open brackets
	indents []indent // of the block the token is in
	run     int      // prefixes before one value, such as "- - -"
	missing int
	headers int
	content bool // a token other than --- came by
	ended   bool // by ...
}

type flow struct {
	mapping bool
	colon   bool // the entry has one
}

type indent struct{ column, entries int }

// check reports whether the tokens may be parsed. It stops at the first that
// is out of bounds: what follows cannot be relied on.
func (b *bounds) check(tokens token.Tokens) bool {
	tokens = withoutComments(tokens)
	for i, t := range tokens {
		line := t.Position.Line
		startsLine := i == 0 || tokens[i-1].Position.Line != line
		var next *token.Token
		if i+1 < len(tokens) {
			next = tokens[i+1]
		}
		switch {
		case t.Type == token.DirectiveType:
			b.add(line, "a YAML directive (%%); policies have none, leave it out")
			return false
		case t.Type == token.MappingKeyType:
			b.add(line, "a key after ?; write it as name: value")
			return false
		case !b.document(t):
			// The parser loses the content of some documents silently.
			b.add(line, "a second YAML document begins here; a policy is one document")
			return false
		case !b.nesting(t, startsLine):
			b.add(line, "nested too deep; a policy needs four levels")
			return false
		case len(b.indents) > 0 && b.indents[len(b.indents)-1].entries > maxEntries:
			b.add(line, "more than %d entries; a policy has at most %[1]d buckets and %[1]d routes", maxEntries)
			return false
		}
		if b.lacksValue(t, next) {
			b.missing++
		}
		if b.missing > maxMissing {
			b.add(line, "more than %d entries without a value; give each its value or leave it out", maxMissing)
			return false
		}
	}
	return true
}

func withoutComments(tokens token.Tokens) token.Tokens {
	kept := make(token.Tokens, 0, len(tokens))
	for _, t := range tokens {
		if t.Type != token.CommentType {
			kept = append(kept, t)
		}
	}
	return kept
}

// document reports whether the token still belongs to the first document.
func (b *bounds) document(t *token.Token) bool {
	switch t.Type {
	case token.DocumentHeaderType:
		b.headers++
		return b.headers == 1 && !b.content && !b.ended
	case token.DocumentEndType:
		first := !b.ended
		b.ended = true
		return first
	}
	b.content = true
	return !b.ended
}

// nesting follows the token's level and reports whether it is allowed.
func (b *bounds) nesting(t *token.Token, startsLine bool) bool {
	if startsLine {
		b.run = 0
		if len(b.flow) == 0 {
			b.indented(t)
		}
	}
	switch t.Type {
	case token.MappingStartType, token.SequenceStartType:
		b.flow = append(b.flow, flow{mapping: t.Type == token.MappingStartType})
	case token.MappingEndType, token.SequenceEndType:
		if len(b.flow) > 0 {
			b.flow = b.flow[:len(b.flow)-1]
		}
	case token.SequenceEntryType, token.TagType, token.AnchorType:
		b.run++
		return b.run+len(b.indents)+len(b.flow) <= maxDepth
	}
	b.run = 0
	return len(b.indents)+len(b.flow) <= maxDepth
}

// indented notes the first token of a line of block style.
func (b *bounds) indented(t *token.Token) {
	column := t.Position.Column
	for len(b.indents) > 0 && b.indents[len(b.indents)-1].column > column {
		b.indents = b.indents[:len(b.indents)-1]
	}
	if len(b.indents) == 0 || b.indents[len(b.indents)-1].column < column {
		b.indents = append(b.indents, indent{column: column})
	}
	// A list may stand at the column of the key that it belongs to.
	if t.Type != token.SequenceEntryType {
		b.indents[len(b.indents)-1].entries++
	}
}

// lacksValue reports whether the parser must put a null behind the token.
func (b *bounds) lacksValue(t, next *token.Token) bool {
	if len(b.flow) > 0 {
		return b.lacksFlowValue(t, next)
	}
	if next != nil && next.Position.Line == t.Position.Line {
		return false
	}
	switch t.Type {
	case token.MappingValueType:
		if next == nil || t.Prev == nil {
			return true
		}
		key := t.Prev.Position.Column
		return next.Position.Column < key || next.Position.Column == key && next.Type != token.SequenceEntryType
	case token.SequenceEntryType:
		return next == nil || next.Position.Column <= t.Position.Column
	case token.TagType:
		return true // tags are refused later, in any place
	}
	return false
}

// lacksFlowValue is lacksValue between brackets, where also an entry without a
// colon gets a null.
func (b *bounds) lacksFlowValue(t, next *token.Token) bool {
	inner := &b.flow[len(b.flow)-1]
	switch t.Type {
	case token.MappingStartType, token.SequenceStartType, token.CollectEntryType:
		inner.colon = false
		return false // {} and a comma before } lack nothing
	case token.MappingValueType:
		inner.colon = true
	}
	if next == nil {
		return true
	}
	switch next.Type {
	case token.CollectEntryType, token.MappingEndType, token.SequenceEndType:
		return t.Type == token.MappingValueType || t.Type == token.TagType || inner.mapping && !inner.colon
	}
	return false
}
