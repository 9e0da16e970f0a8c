package httpfront

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// problem is an error of the service or of the request, never a decision. It is
// written as RFC 9457 problem details.
type problem struct {
	status  int
	detail  string
	field   string // path of the member at fault; may be empty
	headers []header
}

func (p *problem) Error() string {
	if p.field == "" {
		return p.detail
	}
	return p.field + ": " + p.detail
}

// answer writes the problem as a whole answer.
func (p *problem) answer() answer {
	headers := p.headers
	if p.status == http.StatusServiceUnavailable {
		headers = append(headers, header{"Retry-After", "1"})
	}
	return answer{
		status:      p.status,
		contentType: "application/problem+json",
		headers:     headers,
		body:        p.appendJSON(nil),
	}
}

func (p *problem) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"type":"about:blank","title":`...)
	dst = appendString(dst, http.StatusText(p.status))
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(p.status), 10)
	dst = append(dst, `,"detail":`...)
	dst = appendString(dst, p.detail)
	if p.field != "" {
		dst = append(dst, `,"field":`...)
		dst = appendString(dst, p.field)
	}
	return append(dst, '}')
}

// appendString appends s as a JSON string. Bytes that are not UTF-8 become the
// replacement character.
func appendString(dst []byte, s string) []byte {
	dst, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		// The quoted string is complete; the error reports the replacement.
		return dst
	}
	return dst
}
