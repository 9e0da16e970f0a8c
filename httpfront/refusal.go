package httpfront

import (
	"net/http"
	"time"

	"weir/policy"
)

const codeForm = "INVALID_FORM_BODY"

// appendAnswer appends the answer of POST /v1/allowances/{operation}.
func (c *allowanceCall) appendAnswer(dst []byte, t *texts) []byte {
	d := c.decision(t)
	dst = appendDecision(dst, &d)
	if !c.plan.SlowMode || c.plan.Action != policy.Peek {
		return dst
	}
	return c.appendSlowMode(dst[:len(dst)-1])
}

// decision is what the results amount to. Of a take it lists the rules up to the
// refusal, of other actions all that were asked.
func (c *allowanceCall) decision(t *texts) decision {
	d := decision{degraded: c.degraded}
	at, computed := -1, true
	switch c.plan.Action {
	case policy.Take, policy.Peek, policy.Fail:
		at, computed = c.refusal()
	}
	refused := -1 // its place in d.buckets
	for i, res := range c.results {
		if res == nil || c.plan.Action == policy.Take && at >= 0 && i > at {
			continue
		}
		if i == at {
			refused = len(d.buckets)
		}
		rule := c.plan.Steps[i].Rule
		d.buckets = append(d.buckets, stateOf(rule.Label, rule.Limit(), *res))
	}
	switch {
	case at < 0:
	case !computed:
		refuseUncomputed(&d, t.plain[messageRateLimited])
	default:
		rule := c.plan.Steps[at].Rule
		c.refuse(&d, t, rule, d.buckets[refused])
		if rule.Effect != "" && c.plan.Action != policy.Peek {
			d.effects = []string{rule.Effect}
		}
	}
	return d
}

// refuse writes the refusal of a rule, in its shape.
func (c *allowanceCall) refuse(d *decision, t *texts, rule *policy.Allowance, state bucketState) {
	wait := state.retryAfter
	text := func(otherwise string) string { return t.of(rule.Code, otherwise, policy.WaitSeconds, wait) }
	retryAfter := header{"Retry-After", wait.wholeSeconds()}
	switch rule.Shape {
	case policy.ShapeResend:
		d.status, d.headers = http.StatusTooManyRequests, []header{retryAfter}
		d.body = appendRefusal(nil, rule.Code, text(messageRateLimited))
		d.body = append(d.body, `,"resend_available_in":`+wait.wholeSeconds()+`,"retry_after":`+wait.wholeSeconds()+`}`...)
	case policy.ShapeForm:
		d.status, d.body = http.StatusBadRequest, c.form(t, rule, wait)
	case policy.ShapeRoot400, policy.ShapeRoot403:
		d.status = http.StatusBadRequest
		if rule.Shape == policy.ShapeRoot403 {
			d.status = http.StatusForbidden
		}
		d.body = append(appendRefusal(nil, rule.Code, text(messageRateLimited)), '}')
	case policy.ShapeSlowMode:
		d.status, d.headers = http.StatusBadRequest, []header{retryAfter}
		d.body = appendRefusal(nil, rule.Code, text(messageRateLimited))
		d.body = append(wait.appendSeconds(append(d.body, `,"retry_after":`...)), '}')
	default:
		d.status = http.StatusTooManyRequests
		d.headers = c.front.appendStateHeaders(append(make([]header, 0, 6), retryAfter,
			header{"X-RateLimit-Scope", rule.Scope.String()}), state)
		d.body = rateLimited(rule.Code, text(messageRateLimited), false, wait)
	}
}

// form returns the body of a form's refusal, with one entry.
func (c *allowanceCall) form(t *texts, rule *policy.Allowance, wait millis) []byte {
	path := rule.Path
	if c.plan.Path != "" && c.plan.Path == rule.OtherPath {
		path = rule.OtherPath
	}
	otherwise := messageTooOften
	if rule.WaitUnit == policy.WaitNone {
		otherwise = messageInvalid
	}
	body := appendRefusal(nil, codeForm, t.plain[messageForm])
	body = append(body, `,"errors":[{"path":`...)
	body = appendString(body, path)
	body = append(body, `,"message":`...)
	body = appendString(body, t.of(rule.Code, otherwise, rule.WaitUnit, wait))
	body = append(body, `,"code":`...)
	body = appendString(body, rule.Code)
	return append(body, `}]}`...)
}

// appendSlowMode appends what a peek tells of slow mode, and ends the answer.
func (c *allowanceCall) appendSlowMode(dst []byte) []byte {
	var wait millis
	for i, res := range c.results {
		if c.plan.Steps[i].Rule.SlowMode && res != nil {
			wait = ceilMillis(res.RetryAfter)
		}
	}
	dst = append(dst, `,"retry_after":`...)
	dst = wait.appendSeconds(dst)
	dst = append(dst, `,"next_allowed_at":`...)
	if wait == 0 {
		dst = append(dst, "null"...)
	} else {
		at := c.front.now().Add(time.Duration(wait) * time.Millisecond).UTC()
		dst = appendString(dst, at.Format("2006-01-02T15:04:05.999Z07:00"))
	}
	dst = append(dst, `,"can_bypass":`...)
	if c.plan.Bypass {
		return append(dst, "true}"...)
	}
	return append(dst, "false}"...)
}
