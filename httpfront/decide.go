package httpfront

import (
	"bytes"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"weir/cluster"
	"weir/leaky"
	"weir/policy"
)

// maxElements is the number of requests that one array may hold.
const maxElements = 1000

// deciding has a handler called only by a node that is ready, with a body that is
// JSON, and notes how long it took.
func (f *Front) deciding(handle func(*request) answer) func(*request) answer {
	return func(r *request) answer {
		if !f.ready.Load() {
			return notReady().answer()
		}
		if p := checkJSONType(r); p != nil {
			return p.answer()
		}
		start := time.Now()
		defer func() { f.metrics.duration.Observe(time.Since(start).Seconds()) }()
		return handle(r)
	}
}

// decide serves POST /v1/decide: one request, or an array of them.
func (f *Front) decide(r *request) answer {
	if body := bytes.TrimLeft(r.body, " \t\r\n"); len(body) == 0 || body[0] != '[' {
		a := f.decideAll(r, []jsontext.Value{r.body})[0]
		if a.problem != nil {
			return a.problem.answer()
		}
		return answer{status: http.StatusOK, contentType: typeJSON, body: appendDecision(nil, &a.decision)}
	}
	elements, p := splitArray(r.body)
	if p != nil {
		return p.answer()
	}
	body := []byte{'['}
	for i, a := range f.decideAll(r, elements) {
		body = appendComma(body, i)
		if a.problem != nil {
			body = append(body, `{"error":`...)
			body = a.problem.appendJSON(body)
			body = append(body, '}')
			continue
		}
		body = appendDecision(body, &a.decision)
	}
	return answer{status: http.StatusOK, contentType: typeJSON, body: append(body, ']')}
}

// asked is one request of a call on its way to its answer.
type asked struct {
	request  policy.Request
	plan     policy.Plan
	decision decision
	problem  *problem // set if the request was bad; it took nothing then
}

// decideAll answers each JSON text, in their order as if sent one after
// another.
func (f *Front) decideAll(r *request, texts []jsontext.Value) []asked {
	all := make([]asked, len(texts))
	for i, text := range texts {
		a := &all[i]
		if a.problem = decodeJSON(text, &a.request); a.problem != nil {
			continue
		}
		var err error
		if a.plan, err = f.policy.Plan(f.keys, &a.request); err != nil {
			a.problem = badRequest(err)
		}
	}
	// Looks and takes differ in what they do on the way, so an array that
	// mixes them is decided in runs of one kind.
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && all[to].request.Peek == all[from].request.Peek {
			to++
		}
		f.decideRun(r, all[from:to])
		from = to
	}
	return all
}

// decideRun decides requests that are all looks, or all takes.
func (f *Front) decideRun(r *request, run []asked) {
	peek := run[0].request.Peek
	sequences := make([]cluster.Sequence, len(run))
	for i := range run {
		sequences[i] = run[i].plan.Stages()
	}
	mode := leaky.Taking
	if peek {
		mode = leaky.Looking
	}
	outcomes := f.cluster.Decide(r.context, sequences, f.options(mode))
	for i, out := range outcomes {
		a := &run[i]
		if a.problem != nil {
			continue
		}
		if !peek {
			f.count(&a.plan, out.Results)
		}
		a.decision = f.decided(&a.request, &a.plan, out)
	}
}

// options says how the cluster is to decide.
func (f *Front) options(mode leaky.Mode) cluster.Options {
	return cluster.Options{Mode: mode, LocalFallback: f.policy.OnUnreachable == policy.UnreachableLocal}
}

// splitArray returns the elements of a JSON array without judging them, so that
// a bad one is an error at its place.
func splitArray(body []byte) ([]jsontext.Value, *problem) {
	var elements []jsontext.Value
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, malformed(err)
	}
	for dec.PeekKind() != ']' {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, malformed(err)
		}
		if len(elements) == maxElements {
			return nil, &problem{status: http.StatusRequestEntityTooLarge, detail: "more than 1000 requests in one array"}
		}
		elements = append(elements, value.Clone())
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, malformed(err)
	}
	if err := atEnd(dec); err != nil {
		return nil, malformed(err)
	}
	if len(elements) == 0 {
		return nil, &problem{status: http.StatusBadRequest, detail: "an empty array asks nothing"}
	}
	return elements, nil
}

// badRequest turns what policy says about a request into a problem.
func badRequest(err error) *problem {
	var field *policy.FieldError
	if errors.As(err, &field) {
		return &problem{status: http.StatusBadRequest, detail: field.Detail, field: field.Field}
	}
	return &problem{status: http.StatusBadRequest, detail: err.Error()}
}

func notReady() *problem {
	return &problem{status: http.StatusServiceUnavailable, detail: "this node is not ready to decide"}
}
