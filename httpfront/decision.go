package httpfront

import (
	"net/http"
	"strconv"
	"time"

	"weir/cluster"
	"weir/leaky"
	"weir/policy"
)

// decision is the answer about one request of the API: allowed, or refused with
// everything that the API server needs to write the refusal.
type decision struct {
	status   int      // 0 if allowed
	headers  []header // to send on
	body     []byte   // JSON; nil if allowed
	effects  []string // what the API server must do beside refusing
	degraded bool
	buckets  []bucketState
}

func (d *decision) allowed() bool { return d.status == 0 }

// bucketState is what one evaluated bucket said.
type bucketState struct {
	name       string
	allowed    bool
	limit      int64
	remaining  int64
	retryAfter millis
	resetAfter millis
}

const (
	codeForbidden   = "FORBIDDEN"
	codeRateLimited = "RATE_LIMITED"

	effectRevokeSession = "revoke_session"
)

// millis is a delay as callers see it: whole milliseconds. Every place that
// shows a delay, header, body or bucket, writes the same number.
type millis int64

// ceilMillis rounds up, so that who waits that long is admitted.
func ceilMillis(d time.Duration) millis {
	return millis((d + time.Millisecond - 1) / time.Millisecond)
}

// appendSeconds appends the delay in seconds, without exponent or trailing zeros.
func (m millis) appendSeconds(dst []byte) []byte {
	dst = strconv.AppendInt(dst, int64(m/1000), 10)
	if frac := m % 1000; frac != 0 {
		digits := [3]byte{byte('0' + frac/100), byte('0' + frac/10%10), byte('0' + frac%10)}
		n := 3
		for digits[n-1] == '0' {
			n--
		}
		dst = append(dst, '.')
		dst = append(dst, digits[:n]...)
	}
	return dst
}

func (m millis) seconds() string { return string(m.appendSeconds(nil)) }

// wholeSeconds rounds up and is at least 1, as Retry-After must be.
func (m millis) wholeSeconds() string {
	return strconv.FormatInt(max(1, int64(m+999)/1000), 10)
}

// stateOf is a bucket as its result shows it.
func stateOf(name string, limit int64, res leaky.Result) bucketState {
	return bucketState{
		name:       name,
		allowed:    res.Allowed,
		limit:      limit,
		remaining:  res.Remaining,
		retryAfter: ceilMillis(res.RetryAfter),
		resetAfter: ceilMillis(res.ResetAfter),
	}
}

// decided writes the decision that the outcome of a plan amounts to.
func (f *Front) decided(req *policy.Request, plan *policy.Plan, out cluster.Outcome) decision {
	if plan.Forbidden {
		return f.forbidden(req)
	}
	d := decision{degraded: out.Degraded, buckets: make([]bucketState, len(out.Results))}
	refused := -1
	for i, res := range out.Results {
		d.buckets[i] = stateOf(plan.Buckets[i].Name, plan.Checks[i].Rule.Limit(), res)
		if !res.Allowed && refused < 0 {
			refused = i
		}
	}
	switch {
	case refused >= 0:
		f.refuse(&d, req, plan, refused)
	case len(out.Results) < len(plan.Checks) && f.policy.OnUnreachable == policy.UnreachableDeny:
		refuseUncomputed(&d, f.text(req, messageRateLimited))
	case plan.SuccessHeaders:
		f.describeLastRouteBucket(&d, plan)
	}
	return d
}

func (f *Front) forbidden(req *policy.Request) decision {
	body := appendRefusal(nil, codeForbidden, f.text(req, messageForbidden))
	return decision{status: http.StatusForbidden, body: append(body, '}')}
}

// text returns a message in the language that the request asks for.
func (f *Front) text(req *policy.Request, key string) string {
	return f.texts.in(req.Locale, req.AcceptLanguage).plain[key]
}

// refuse writes the refusal of the bucket at that place of the plan.
func (f *Front) refuse(d *decision, req *policy.Request, plan *policy.Plan, at int) {
	b, state := plan.Buckets[at], d.buckets[at]
	global := b.Scope == policy.ScopeGlobal
	d.status = http.StatusTooManyRequests
	d.headers = append(make([]header, 0, 7),
		header{"Retry-After", state.retryAfter.wholeSeconds()},
		header{"X-RateLimit-Scope", b.Scope.String()})
	if global {
		d.headers = append(d.headers, header{"X-RateLimit-Global", "true"})
		if plan.RevokeSession && !req.Peek {
			d.effects = []string{effectRevokeSession}
		}
	} else {
		d.headers = f.appendBucketHeaders(d.headers, b, state)
	}
	d.body = rateLimited(codeRateLimited, f.text(req, messageRateLimited), global, state.retryAfter)
}

// refuseUncomputed writes the refusal of a request whose buckets could not be
// asked, under a policy that then denies.
func refuseUncomputed(d *decision, message string) {
	const wait = millis(1000)
	d.status = http.StatusTooManyRequests
	d.headers = []header{{"Retry-After", wait.wholeSeconds()}, {"X-RateLimit-Scope", policy.ScopeUser.String()}}
	d.body = rateLimited(codeRateLimited, message, false, wait)
}

// rateLimited returns the body of a bucket's refusal.
func rateLimited(code, message string, global bool, retryAfter millis) []byte {
	body := appendRefusal(nil, code, message)
	body = append(body, `,"global":`...)
	body = strconv.AppendBool(body, global)
	body = append(body, `,"retry_after":`...)
	body = retryAfter.appendSeconds(body)
	return append(body, '}')
}

// appendRefusal appends an object with the members that every refusal begins
// with, and leaves it open.
func appendRefusal(dst []byte, code, message string) []byte {
	dst = append(dst, `{"code":`...)
	dst = appendString(dst, code)
	dst = append(dst, `,"message":`...)
	return appendString(dst, message)
}

// describeLastRouteBucket adds the headers of a success. They tell of the last
// route bucket counted, never of an e-mail's.
func (f *Front) describeLastRouteBucket(d *decision, plan *policy.Plan) {
	for i := len(d.buckets) - 1; i >= 0; i-- {
		if b := plan.Buckets[i]; b.Scope != policy.ScopeGlobal && b.KeyedBy == policy.ByCaller {
			d.headers = f.appendBucketHeaders(make([]header, 0, 5), b, d.buckets[i])
			return
		}
	}
}

func (f *Front) appendBucketHeaders(dst []header, b *policy.Bucket, state bucketState) []header {
	return append(f.appendStateHeaders(dst, state), header{"X-RateLimit-Bucket", b.ID})
}

func (f *Front) appendStateHeaders(dst []header, state bucketState) []header {
	return append(dst,
		header{"X-RateLimit-Limit", strconv.FormatInt(state.limit, 10)},
		header{"X-RateLimit-Remaining", strconv.FormatInt(state.remaining, 10)},
		header{"X-RateLimit-Reset", strconv.FormatInt(f.resetSecond(state.resetAfter), 10)},
		header{"X-RateLimit-Reset-After", state.resetAfter.seconds()})
}

// resetSecond returns the Unix second in which the bucket will be empty, never
// the current one or an earlier.
func (f *Front) resetSecond(resetAfter millis) int64 {
	now := f.now()
	then := now.Add(time.Duration(resetAfter) * time.Millisecond)
	return max(then.Unix(), now.Unix()+1)
}

// count adds the results to the decision counters. Looks decide nothing.
func (f *Front) count(plan *policy.Plan, results []leaky.Result) {
	for i, res := range results {
		f.metrics.decided(plan.Buckets[i], res.Allowed)
	}
}
