package httpfront

import (
	"fmt"
	"strings"
	"testing"

	"weir/policy"
	"weir/ring"
)

// twoStages is a policy whose POST /mail has a stage of the caller and one of
// the e-mail address.
func twoStages(onUnreachable string) string {
	return "version: 1\nglobal: {limit: 50, window: 1s}\non_unreachable: " + onUnreachable + "\n" +
		"buckets:\n  plain: {limit: 2, window: 10s}\n  mail: {limit: 1, window: 1m, keyed_by: email, scope: shared}\n" +
		"routes:\n  GET /plain: [plain]\n  POST /mail: [plain, mail]\n  GET /none: []\n"
}

// ofTwo is a node n1 that has lost n2, which holds about half. There are no
// backups.
func ofTwo(onUnreachable string) setup {
	s := together(onUnreachable)
	s.cut = true
	return s
}

// together is a node n1 beside n2, which holds about half.
func together(onUnreachable string) setup {
	return setup{
		rules: twoStages(onUnreachable), peers: []string{"n2"},
		members: []ring.Member{member("n1", ring.Active), member("n2", ring.Active)},
	}
}

// account returns an account whose buckets the member owns, with a session as
// with a bot's credential.
func (n *node) account(owner string) string {
	n.t.Helper()
	return n.find(func(name string) bool {
		session, bot := policy.CredentialSession, policy.CredentialBot
		return n.owner(policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: name, Credential: &session}}, 0) == owner &&
			n.owner(policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: name, Credential: &bot}}, 0) == owner
	})
}

// email returns an e-mail address whose buckets the member owns.
func (n *node) email(owner string) string {
	n.t.Helper()
	return n.find(func(name string) bool {
		return n.owner(policy.Request{Route: "POST /mail", Email: name + "@example.org", Caller: policy.Caller{Account: "x"}}, 1) == owner
	}) + "@example.org"
}

// owner returns who owns the buckets of a stage of the request.
func (n *node) owner(req policy.Request, stage int) string {
	n.t.Helper()
	plan, err := n.front.policy.Plan(n.front.keys, &req)
	if err != nil {
		n.t.Fatal(err)
	}
	view := n.cluster.View()
	at, ok := view.Owner(plan.Stages()[stage][0].Partition)
	if !ok {
		n.t.Fatal("nobody owns anything")
	}
	return view.Members()[at].Name
}

func (n *node) find(fits func(name string) bool) string {
	n.t.Helper()
	for i := range 1000 {
		if name := fmt.Sprintf("a%d", i); fits(name) {
			return name
		}
	}
	n.t.Fatal("no name fits")
	return ""
}

// degraded returns "unavailable=1" of all reasons that have been counted.
func (n *node) degraded() string {
	var out []string
	for line := range strings.Lines(n.send("GET", n.admin+"/metrics", "").body) {
		var reason string
		var count int
		if _, err := fmt.Sscanf(line, "weir_degraded_total{reason=%q} %d", &reason, &count); err == nil && count > 0 {
			out = append(out, fmt.Sprintf("%s=%d", reason, count))
		}
	}
	return strings.Join(out, " ")
}

func plainOf(account, more string) string {
	return `{"route":"GET /plain","caller":{"account":"` + account + `"` + more + `}}`
}

func mailOf(account, email string) string {
	return `{"route":"POST /mail","email":"` + email + `","caller":{"account":"` + account + `","credential":"bot"}}`
}

func peek(request string) string { return strings.TrimSuffix(request, "}") + `,"peek":true}` }

const (
	denied = `{"allowed":false,"status":429,"headers":{"Retry-After":"1","X-RateLimit-Scope":"user"},` +
		`"body":{"code":"RATE_LIMITED","message":"` + english + `","global":false,"retry_after":1},"effects":[],"degraded":true,"buckets":[]}`
	waved = `{"allowed":true,"headers":{},"effects":[],"degraded":true,"buckets":[]}`

	// What the buckets of a stage say when they are first taken.
	callerStage = `{"bucket":"global","allowed":true,"limit":50,"remaining":49,"retry_after":0,"reset_after":0.02},` +
		`{"bucket":"plain","allowed":true,"limit":2,"remaining":1,"retry_after":0,"reset_after":5}`
	emailStage = `{"bucket":"mail","allowed":true,"limit":1,"remaining":0,"retry_after":0,"reset_after":60}`
	// What a bot is told of plain then.
	plainHeaders = `"X-RateLimit-Limit":"2","X-RateLimit-Remaining":"1","X-RateLimit-Reset":"1767225605","X-RateLimit-Reset-After":"5","X-RateLimit-Bucket":"a116c9ed46d62077"`
)

func TestUnreachableDeny(t *testing.T) {
	n := start(t, ofTwo("deny"))
	near, far := n.account("n1"), n.account("n2")
	for range 3 {
		same(t, "its owner does not answer", n.decide(plainOf(far, "")), denied)
	}
	same(t, "a bot", n.decide(plainOf(far, `,"credential":"bot"`)), denied)
	same(t, "a look", n.decide(peek(plainOf(far, ""))), denied)
	same(t, "in Portuguese", n.decide(strings.TrimSuffix(plainOf(far, ""), "}")+`,"locale":"pt-BR"}`),
		strings.Replace(denied, english, "Você está fazendo isso com muita frequência. Aguarde um momento e tente de novo.", 1))
	same(t, "no bucket is asked", n.decide(`{"route":"GET /none","caller":{"account":"`+far+`"}}`),
		`{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[]}`)
	same(t, "its owner is here", n.decide(plainOf(near, "")),
		`{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[`+callerStage+`]}`)
	same(t, "counted", n.degraded(), "unavailable=6")
}

// Where only the address's owner is out of reach, what the caller's buckets
// have taken stays taken.
func TestUnreachableDenyOfOneStage(t *testing.T) {
	n := start(t, ofTwo("deny"))
	near, nearMail, farMail := n.account("n1"), n.email("n1"), n.email("n2")
	deniedThen := strings.Replace(denied, `"buckets":[]`, `"buckets":[`+callerStage+`]`, 1)
	same(t, "the address is far", n.decide(mailOf(near, farMail)), deniedThen)
	same(t, "taken", n.decide(peek(mailOf(near, nearMail))),
		`{"allowed":true,"headers":{`+plainHeaders+`},"effects":[],"degraded":false,"buckets":[`+
			`{"bucket":"global","allowed":true,"limit":50,"remaining":49,"retry_after":0,"reset_after":0.02},`+
			`{"bucket":"plain","allowed":true,"limit":2,"remaining":1,"retry_after":0,"reset_after":5},`+
			`{"bucket":"mail","allowed":true,"limit":1,"remaining":1,"retry_after":0,"reset_after":0}]}`)
	// A refusal that a bucket computed comes before one that none did.
	n.decide(plainOf(near, `,"credential":"bot"`))
	same(t, "refused by plain", n.decide(mailOf(near, farMail)),
		`{"allowed":false,"status":429,"headers":{"Retry-After":"5","X-RateLimit-Scope":"user","X-RateLimit-Limit":"2","X-RateLimit-Remaining":"0",`+
			`"X-RateLimit-Reset":"1767225610","X-RateLimit-Reset-After":"10","X-RateLimit-Bucket":"a116c9ed46d62077"},`+
			`"body":{"code":"RATE_LIMITED","message":"`+english+`","global":false,"retry_after":5},"effects":[],"degraded":false,"buckets":[`+
			`{"bucket":"global","allowed":true,"limit":50,"remaining":47,"retry_after":0,"reset_after":0.06},`+
			`{"bucket":"plain","allowed":false,"limit":2,"remaining":0,"retry_after":5,"reset_after":10}]}`)
	same(t, "counted", n.degraded(), "unavailable=1")

	// Where the caller's owner is, the address's bucket is not reached.
	n = start(t, ofTwo("deny"))
	same(t, "the caller is far", n.decide(mailOf(n.account("n2"), nearMail)), denied)
	same(t, "not taken", n.decide(mailOf(near, nearMail)),
		`{"allowed":true,"headers":{`+plainHeaders+`},"effects":[],"degraded":false,"buckets":[`+callerStage+`,`+emailStage+`]}`)
	same(t, "counted", n.degraded(), "unavailable=1")
}

func TestUnreachableAllow(t *testing.T) {
	n := start(t, ofTwo("allow"))
	near, far, nearMail, farMail := n.account("n1"), n.account("n2"), n.email("n1"), n.email("n2")
	for range 60 { // far beyond every limit
		same(t, "its owner does not answer", n.decide(plainOf(far, "")), waved)
	}
	same(t, "a bot has no bucket to be told of", n.decide(plainOf(far, `,"credential":"bot"`)), waved)
	same(t, "a look", n.decide(peek(plainOf(far, ""))), waved)
	same(t, "the address is far", n.decide(mailOf(near, farMail)),
		`{"allowed":true,"headers":{`+plainHeaders+`},"effects":[],"degraded":true,"buckets":[`+callerStage+`]}`)
	same(t, "the caller is far", n.decide(mailOf(far, nearMail)), waved)
	same(t, "counted", n.degraded(), "unavailable=64")
}

func TestUnreachableLocal(t *testing.T) {
	n := start(t, ofTwo("local"))
	near, far, nearMail, farMail := n.account("n1"), n.account("n2"), n.email("n1"), n.email("n2")
	same(t, "the first", n.decide(plainOf(far, "")),
		`{"allowed":true,"headers":{},"effects":[],"degraded":true,"buckets":[`+callerStage+`]}`)
	n.decide(plainOf(far, ""))
	refused := `{"allowed":false,"status":429,"headers":{"Retry-After":"5","X-RateLimit-Scope":"user","X-RateLimit-Limit":"2","X-RateLimit-Remaining":"0",` +
		`"X-RateLimit-Reset":"1767225610","X-RateLimit-Reset-After":"10","X-RateLimit-Bucket":"a116c9ed46d62077"},` +
		`"body":{"code":"RATE_LIMITED","message":"` + english + `","global":false,"retry_after":5},"effects":[],"degraded":true,"buckets":[` +
		`{"bucket":"global","allowed":true,"limit":50,"remaining":47,"retry_after":0,"reset_after":0.06},` +
		`{"bucket":"plain","allowed":false,"limit":2,"remaining":0,"retry_after":5,"reset_after":10}]}`
	same(t, "the third", n.decide(plainOf(far, "")), refused)

	// One stage of two is enough to say so; all of them are decided.
	const both = `{"allowed":true,"headers":{` + plainHeaders + `},"effects":[],"degraded":true,"buckets":[` + callerStage + `,` + emailStage + `]}`
	same(t, "the address is far", n.decide(mailOf(near, farMail)), both)
	same(t, "the caller is far", n.decide(mailOf(far, nearMail)), both)
	same(t, "both are near, and refused by the address", n.decide(mailOf(near, nearMail)),
		`{"allowed":false,"status":429,"headers":{"Retry-After":"60","X-RateLimit-Scope":"shared","X-RateLimit-Limit":"1","X-RateLimit-Remaining":"0",`+
			`"X-RateLimit-Reset":"1767225660","X-RateLimit-Reset-After":"60","X-RateLimit-Bucket":"00d8d3f11739d2f3"},`+
			`"body":{"code":"RATE_LIMITED","message":"`+english+`","global":false,"retry_after":60},"effects":[],"degraded":false,"buckets":[`+
			`{"bucket":"global","allowed":true,"limit":50,"remaining":48,"retry_after":0,"reset_after":0.04},`+
			`{"bucket":"plain","allowed":true,"limit":2,"remaining":0,"retry_after":0,"reset_after":10},`+
			`{"bucket":"mail","allowed":false,"limit":1,"remaining":0,"retry_after":60,"reset_after":60}]}`)
	same(t, "counted", n.degraded(), "unavailable=5")
}
