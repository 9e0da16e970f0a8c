// Package httpfront is weir over HTTP: the API that callers ask for decisions,
// the answers they send on, and the admin listener.
//
// One request, walked: the transport reads it whole, the table of endpoints
// finds its handler, policy turns the JSON into checks, cluster decides them
// where they live, and the answer, with its headers and body, is written from
// that one result. Handlers are plain functions from a request to an answer and
// know no transport; the API listener speaks through fasthttp, the admin
// listener through net/http.
package httpfront
