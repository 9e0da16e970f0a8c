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

// decided writes the decision that the outcome of a plan amounts to.
func (f *Front) decided(req *policy.Request, plan *policy.Plan, out cluster.Outcome) decision {
	if plan.Forbidden {
		return f.forbidden(req)
	}
	d := decision{degraded: out.Degraded, buckets: make([]bucketState, len(out.Results))}
	refused := -1
	for i, res := range out.Results {
		b := plan.Buckets[i]
		d.buckets[i] = bucketState{
			name:       b.Name,
			allowed:    res.Allowed,
			limit:      plan.Checks[i].Rule.Limit(),
			remaining:  res.Remaining,
			retryAfter: ceilMillis(res.RetryAfter),
			resetAfter: ceilMillis(res.ResetAfter),
		}
		if !res.Allowed && refused < 0 {
			refused = i
		}
	}
	switch {
	case refused >= 0:
		f.refuse(&d, req, plan, refused)
	case len(out.Results) < len(plan.Checks) && f.policy.OnUnreachable == policy.UnreachableDeny:
		f.refuseUncomputed(&d, req)
	case plan.SuccessHeaders:
		f.describeLastRouteBucket(&d, plan)
	}
	return d
}

func (f *Front) forbidden(req *policy.Request) decision {
	body := append([]byte(nil), `{"code":"`+codeForbidden+`","message":`...)
	body = appendString(body, f.texts.text(messageForbidden, req.Locale, req.AcceptLanguage))
	return decision{status: http.StatusForbidden, body: append(body, '}')}
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
	d.body = f.rateLimited(req, global, state.retryAfter)
}

// refuseUncomputed writes the refusal of a request whose buckets could not be
// asked, under a policy that then denies.
func (f *Front) refuseUncomputed(d *decision, req *policy.Request) {
	const wait = millis(1000)
	d.status = http.StatusTooManyRequests
	d.headers = []header{{"Retry-After", wait.wholeSeconds()}, {"X-RateLimit-Scope", policy.ScopeUser.String()}}
	d.body = f.rateLimited(req, false, wait)
}

func (f *Front) rateLimited(req *policy.Request, global bool, retryAfter millis) []byte {
	body := append([]byte(nil), `{"code":"`+codeRateLimited+`","message":`...)
	body = appendString(body, f.texts.text(messageRateLimited, req.Locale, req.AcceptLanguage))
	body = append(body, `,"global":`...)
	body = strconv.AppendBool(body, global)
	body = append(body, `,"retry_after":`...)
	body = retryAfter.appendSeconds(body)
	return append(body, '}')
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
	return append(dst,
		header{"X-RateLimit-Limit", strconv.FormatInt(state.limit, 10)},
		header{"X-RateLimit-Remaining", strconv.FormatInt(state.remaining, 10)},
		header{"X-RateLimit-Reset", strconv.FormatInt(f.resetSecond(state.resetAfter), 10)},
		header{"X-RateLimit-Reset-After", state.resetAfter.seconds()},
		header{"X-RateLimit-Bucket", b.ID})
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
