package policy

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// yamlKind is what a value is in the eyes of a policy.
type yamlKind uint8

const (
	yamlInvalid yamlKind = iota // already reported: readers pass over it
	yamlNull
	yamlMapping
	yamlList
	yamlBlock  // text after | or >
	yamlQuoted // text in quotes
	yamlPlain  // text without quotes
	yamlTyped  // number, boolean and the like, without quotes
)

// yamlValue is one value of the file, cut down to what policies are made of.
type yamlValue struct {
	line    int
	kind    yamlKind
	text    string // a scalar exactly as written, less its quotes
	entries []yamlEntry
	items   []*yamlValue
}

type yamlEntry struct {
	name  string
	line  int
	value *yamlValue
}

// scalar reports whether the value stands for itself, in quotes or without.
func (v *yamlValue) scalar() bool { return v.kind >= yamlQuoted }

// shown returns the value as a message should show it.
func (v *yamlValue) shown() string {
	switch v.kind {
	case yamlNull:
		return "empty"
	case yamlMapping:
		return "a mapping"
	case yamlList:
		return "a list"
	case yamlBlock:
		return "a block of text"
	case yamlQuoted:
		return inQuotes(v.text)
	}
	if q := inQuotes(v.text); q != `"`+v.text+`"` {
		return q
	}
	return v.text
}

// readYAML returns the only document of the file, nil if it cannot be used at
// all. What is wrong with its form is added to the problems.
func readYAML(p *problems, source string) *yamlValue {
	tokens := lexer.Tokenize(source)
	if bad := tokens.InvalidToken(); bad != nil {
		addSlip(p, bad, bad.Error)
		return nil
	}
	if b := (&bounds{problems: p}); !b.check(tokens) {
		return nil
	}
	// The library's own check of duplicate keys ends at the first and compares
	// paths, in which different keys may look alike.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		addSyntaxError(p, err)
		return nil
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		p.add(1, "the file is empty; the least that a policy holds is version: 1")
		return nil
	}
	return (&yamlWalk{problems: p}).value(file.Docs[0].Body)
}

// addSyntaxError takes the library's error apart. Its own text shows the
// source around the error, which takes many lines, and long for large files.
func addSyntaxError(p *problems, err error) {
	var syntax interface {
		error
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &syntax) {
		addSlip(p, syntax.GetToken(), syntax.GetMessage())
		return
	}
	p.add(1, "%s; mend the YAML", oneLine(err.Error()))
}

// addSlip says what the library found at the token, for the usual slips in
// words of what would be right.
func addSlip(p *problems, at *token.Token, message string) {
	says := func(text string) bool { return strings.Contains(message, text) }
	switch {
	case says("mapping value is not allowed"):
		if at != nil && at.Next != nil { // the library names what stands before it
			at = at.Next
		}
		p.add(lineOf(at), "a name with a colon where none can be; indent it like those beside it, and put text that holds a colon in quotes")
	case says("value is not allowed in this context"):
		p.add(lineOf(at), "something that belongs nowhere; indent it like what it stands beside")
	case says("',' or '}' must be specified"):
		p.add(lineOf(at), "a { that does not go on as one; write {limit: 60, window: 10s}, and put names and text with colons or braces in quotes")
	case says("',' or ']' must be specified"):
		p.add(lineOf(at), `a [ that does not go on as one; write a list such as ["guild:read::guild_id", "default"]`)
	case says("cannot start any token") && says("\t"), says("tab character"):
		p.add(lineOf(at), "a tab; YAML is indented and spaced with spaces")
	case says("non-map value is specified"):
		p.add(lineOf(at), "a line without a value; write a colon and a space behind the name, as in limit: 60")
	case says("reserved character"), says("directive"):
		p.add(lineOf(at), "text that begins with a sign of YAML's own; put it in quotes")
	case says("flow map"), says("flow mapping"), says("invalid key"):
		p.add(lineOf(at), "a { or [ where it cannot be; write {limit: 60, window: 10s}, with a comma between two fields")
	default:
		p.add(lineOf(at), "%s; mend the YAML", oneLine(message))
	}
}

func lineOf(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 1
	}
	return max(t.Position.Line, 1)
}

// yamlWalk turns the library's tree into values. bounds has limited its depth.
type yamlWalk struct{ *problems }

func (w *yamlWalk) value(n ast.Node) *yamlValue {
	line := lineOf(n.GetToken())
	v := &yamlValue{line: line}
	switch n := n.(type) {
	case *ast.MappingNode:
		w.mapping(v, n.Values...)
	case *ast.MappingValueNode:
		w.mapping(v, n)
	case *ast.SequenceNode:
		v.kind = yamlList
		for _, item := range n.Values {
			v.items = append(v.items, w.value(item))
		}
	case *ast.NullNode:
		v.kind = yamlNull
	case *ast.LiteralNode:
		v.kind = yamlBlock
	case *ast.StringNode:
		v.kind, v.text = yamlPlain, n.Value
		if n.Token.Type != token.StringType {
			v.kind = yamlQuoted
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		v.kind, v.text = yamlTyped, n.GetToken().Value
	case *ast.AnchorNode:
		w.add(line, "an anchor (&); policies have none, write the value itself")
	case *ast.AliasNode:
		w.add(line, "an alias (*); policies have none, write the value itself (text that begins with * needs quotes)")
	case *ast.TagNode:
		w.add(line, "a tag (%s); policies have none, leave it out", oneLine(n.Start.Value))
	default:
		w.add(line, "%s; a policy is made of mappings, lists, text, numbers and booleans", n.Type())
	}
	return v
}

func (w *yamlWalk) mapping(v *yamlValue, values ...*ast.MappingValueNode) {
	v.kind = yamlMapping
	if len(values) > 0 {
		// The library places a block mapping at its first colon.
		v.line = min(v.line, lineOf(values[0].Key.GetToken()))
	}
	for _, e := range values {
		line := lineOf(e.Key.GetToken())
		value := w.value(e.Value)
		if _, merge := e.Key.(*ast.MergeKeyNode); merge {
			w.add(line, "a merge key (<<); policies have none, write the fields themselves")
			continue
		}
		key := w.value(e.Key)
		switch key.kind {
		case yamlInvalid:
		case yamlQuoted, yamlPlain:
			v.entries = append(v.entries, yamlEntry{name: key.text, line: line, value: value})
		default:
			w.add(line, "the name %s is not text; put it in quotes", key.shown())
		}
	}
}
