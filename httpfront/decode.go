package httpfront

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const typeJSON = "application/json"

// decodeJSON reads one JSON text into a request, strictly: unknown and
// duplicate members, wrong types, bad UTF-8 and anything after the text are
// problems that name the member.
func decodeJSON(text []byte, into any) *problem {
	err := json.Unmarshal(text, into, json.RejectUnknownMembers(true),
		json.WithUnmarshalers(json.UnmarshalFromFunc(decodeStrings)))
	if err == nil {
		return nil
	}
	p := &problem{status: http.StatusBadRequest}
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic):
		p.field = fieldPath(semantic.JSONPointer)
		switch {
		case errors.Is(semantic.Err, json.ErrUnknownName):
			p.detail = "unknown member"
		case errors.Is(semantic.Err, errTooMany):
			p.detail = errTooMany.Error()
		case p.field == "" && semantic.GoType != nil:
			p.detail = fmt.Sprintf("a JSON object is wanted, not %s", kindName(semantic.JSONKind))
		case semantic.GoType != nil:
			p.detail = fmt.Sprintf("%s is wanted, not %s", wanted(semantic.GoType.Kind().String()), got(semantic))
		default:
			p.detail = "the value does not fit this member"
		}
	case errors.As(err, &syntactic):
		p.field = fieldPath(syntactic.JSONPointer)
		p.detail = syntaxDetail(syntactic)
	default:
		p.detail = "this is not JSON"
	}
	return p
}

// maxStrings bounds the lists of a request: a body of short strings would take
// many times its size.
const maxStrings = 1024

var errTooMany = fmt.Errorf("more than %d elements", maxStrings)

// decodeStrings reads a list of strings, as the library does but for the bound.
func decodeStrings(dec *jsontext.Decoder, into *[]string) error {
	if dec.PeekKind() != '[' {
		return errors.ErrUnsupported
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	list := []string{}
	for dec.PeekKind() != ']' {
		if len(list) == maxStrings {
			return errTooMany
		}
		var s string
		if err := json.UnmarshalDecode(dec, &s); err != nil {
			return err
		}
		list = append(list, s)
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	*into = list
	return nil
}

// malformed is the problem of a text that is not JSON.
func malformed(err error) *problem {
	p := &problem{status: http.StatusBadRequest, detail: "this is not JSON"}
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntactic):
		p.detail = syntaxDetail(syntactic)
	case errors.Is(err, errTrailing):
		p.detail = errTrailing.Error()
	}
	return p
}

var errTrailing = errors.New("something follows the JSON text")

func syntaxDetail(err *jsontext.SyntacticError) string {
	if errors.Is(err.Err, jsontext.ErrDuplicateName) {
		return "the member is given twice"
	}
	cause := "unexpected end"
	if err.Err != nil && !errors.Is(err.Err, io.ErrUnexpectedEOF) && !errors.Is(err.Err, io.EOF) {
		cause = err.Err.Error()
	}
	return fmt.Sprintf("malformed JSON at byte %d: %s", err.ByteOffset, cause)
}

// atEnd reports what is wrong unless the decoder has read everything.
func atEnd(dec *jsontext.Decoder) error {
	switch _, err := dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errTrailing
}

// fieldPath turns a JSON pointer into the path of a member, as in
// "caller.flags[2]". What is deeper or longer than any path that could be meant
// is cut.
func fieldPath(pointer jsontext.Pointer) string {
	const deepest, longest = 8, 512
	var b strings.Builder
	depth := 0
	for token := range pointer.Tokens() {
		if depth++; depth > deepest || b.Len()+len(token) > longest {
			b.WriteString("…")
			break
		}
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			b.WriteString("[" + token + "]")
		case b.Len() == 0:
			b.WriteString(token)
		default:
			b.WriteString("." + token)
		}
	}
	return b.String()
}

func wanted(goKind string) string {
	switch goKind {
	case "string", "ptr":
		return "a string"
	case "bool":
		return "true or false"
	case "slice":
		return "an array"
	case "map", "struct":
		return "an object"
	case "int64":
		return "an integer"
	}
	return "another type"
}

func got(err *json.SemanticError) string {
	if err.JSONKind == '0' && len(err.JSONValue) > 0 && len(err.JSONValue) <= 40 {
		return string(err.JSONValue)
	}
	return kindName(err.JSONKind)
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "that"
}

// checkJSONType reports what is wrong with the type of the body. A body without
// type is taken for JSON.
func checkJSONType(r *request) *problem {
	if r.contentEncoding != "" && !strings.EqualFold(r.contentEncoding, "identity") {
		return &problem{status: http.StatusUnsupportedMediaType, detail: "the body must not be encoded"}
	}
	if r.contentType == "" {
		return nil
	}
	mediaType, params, err := mime.ParseMediaType(r.contentType)
	if err != nil || mediaType != typeJSON {
		return &problem{status: http.StatusUnsupportedMediaType, detail: "Content-Type must be application/json"}
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return &problem{status: http.StatusUnsupportedMediaType, detail: "the charset must be utf-8"}
	}
	return nil
}
