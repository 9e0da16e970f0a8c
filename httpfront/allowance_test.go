package httpfront

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/policy"
)

// loginRules is a policy with an operation of two rules that may live apart.
func loginRules(onUnreachable string) string {
	return "version: 1\non_unreachable: " + onUnreachable + "\nallowances:\n" +
		"  login:\n    mail: {kind: bucket, key: email, limit: 2, window: 10s}\n    account: {kind: cooldown, key: account, window: 1m, cleared_by_succeed: true}\n" +
		"  twice:\n    first: {kind: bucket, key: account, limit: 2, window: 10s}\n    second: {kind: bucket, key: [account, channel], limit: 1, window: 10s}\n" +
		"    failures: {kind: lockout, key: [account, code], optional: true, limit: 1, window: 10s, shape: 400_root, code: NO}\n"
}

func (n *node) allowance(operation, body string) string {
	n.t.Helper()
	r := n.send("POST", n.api+"/v1/allowances/"+operation, body)
	if r.status != http.StatusOK {
		n.t.Fatalf("%s: HTTP %d: %s", body, r.status, r.body)
	}
	return r.body
}

// part returns a value of which the member owns the rule's bucket.
func (n *node) part(owner, rule string) string {
	n.t.Helper()
	o, _ := n.front.policy.Operation("login")
	return n.find(func(name string) bool {
		plan, err := n.front.policy.PlanAllowance(n.front.keys, o, &policy.AllowanceRequest{Subject: policy.Subject{Email: name, Account: name}})
		if err != nil {
			n.t.Fatal(err)
		}
		for _, step := range plan.Steps {
			if at, ok := n.cluster.View().Owner(step.Check.Partition); ok && step.Rule.Name == rule {
				return n.cluster.View().Members()[at].Name == owner
			}
		}
		return false
	})
}

func loginOf(action, mail, account string) string {
	return `{"action":"` + action + `","subject":{"email":"` + mail + `","account":"` + account + `"}}`
}

const (
	mailTaken    = `{"bucket":"login/mail","allowed":true,"limit":2,"remaining":1,"retry_after":0,"reset_after":5}`
	accountTaken = `{"bucket":"login/account","allowed":true,"limit":1,"remaining":0,"retry_after":0,"reset_after":60}`
	mailFresh    = `{"bucket":"login/mail","allowed":true,"limit":2,"remaining":2,"retry_after":0,"reset_after":0}`
	fine         = `{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[`
	doubtful     = `{"allowed":true,"headers":{},"effects":[],"degraded":true,"buckets":[`
)

// One owner of two is out of reach: what is refused has taken nothing at the
// other, and what is allowed has.
func TestAllowanceWithOneOwnerLost(t *testing.T) {
	for _, c := range []struct{ policy, mailFar, accountFar, nearAfterMailFar, nearAfterAccountFar string }{
		{"deny", denied, strings.Replace(denied, `"buckets":[]`, `"buckets":[`+mailFresh+`]`, 1),
			"mail=2 account=1", "mail=2 account=1"},
		{"allow", doubtful + accountTaken + "]}", doubtful + mailTaken + "]}",
			"mail=2 account=0", "mail=1 account=1"},
		{"local", doubtful + mailTaken + "," + accountTaken + "]}", doubtful + mailTaken + "," + accountTaken + "]}",
			"mail=2 account=0", "mail=1 account=1"},
	} {
		t.Run(c.policy, func(t *testing.T) {
			s := ofTwo(c.policy)
			s.rules = loginRules(c.policy)
			n := start(t, s)
			nearMail, farMail := n.part("n1", "mail"), n.part("n2", "mail")
			nearAccount, farAccount := n.part("n1", "account"), n.part("n2", "account")
			near := func(want string) {
				t.Helper()
				var a struct{ Buckets []struct{ Remaining int } }
				if err := json.Unmarshal([]byte(n.allowance("login", loginOf("peek", nearMail, nearAccount))), &a); err != nil {
					t.Fatal(err)
				}
				same(t, "near", fmt.Sprintf("mail=%d account=%d", a.Buckets[0].Remaining, a.Buckets[1].Remaining), want)
				n.allowance("login", loginOf("reset", nearMail, nearAccount))
			}
			same(t, "the address is far", n.allowance("login", loginOf("take", farMail, nearAccount)), c.mailFar)
			near(c.nearAfterMailFar)
			same(t, "the account is far", n.allowance("login", loginOf("take", nearMail, farAccount)), c.accountFar)
			near(c.nearAfterAccountFar)
			// What does not decide is not refused: it says that it may be lost.
			if answer := n.allowance("login", loginOf("succeed", "", farAccount)); !strings.HasPrefix(answer, `{"allowed":true,"headers":{},"effects":[],"degraded":true,`) {
				t.Errorf("succeed: %s", answer)
			}
		})
	}
}

// An owner dies between the look at its rule and the take: what was taken before
// stays taken, once, and its backup decides the rest.
func TestOwnerDiesHalfWay(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		n1, _ := w.pair(loginRules("local"))
		mail, account := n1.part("n1", "mail"), n1.part("n2", "account")
		go func() {
			time.Sleep(2*hop + hop/2) // a look there and back, and half the way of the take
			w.net.Crash("n2")
		}()
		same(t, "take", n1.allowance("login", loginOf("take", mail, account)), doubtful+mailTaken+","+accountTaken+"]}")
		taken := strings.NewReplacer(`"allowed":true,"limit":1,"remaining":0,"retry_after":0`, `"allowed":false,"limit":1,"remaining":0,"retry_after":60`)
		answer := n1.allowance("login", loginOf("peek", mail, account))
		if want := `"buckets":[` + mailTaken + "," + taken.Replace(accountTaken) + "]}"; !strings.HasSuffix(answer, want) {
			t.Errorf("after it:\n got %s\nwant %s", answer, want)
		}
	})
}

// Rules with one first key part are decided in one hop, on whichever node: looked
// at as a whole, in order, and taken only if none refuses.
func TestAllowanceInOneHop(t *testing.T) {
	n := start(t, setup{rules: loginRules("local"), peers: []string{"n2"}, members: together("local").members})
	account := n.part("n2", "account")
	of := func(channel, more string) string {
		return `{"subject":{"account":"` + account + `","channel":"` + channel + `"` + more + `}}`
	}
	before := n.cluster.Stats().Forwarded.Load()
	for _, c := range []struct{ body, want string }{
		{of("1", ""), fine + `{"bucket":"twice/first","allowed":true,"limit":2,"remaining":1,"retry_after":0,"reset_after":5},` +
			`{"bucket":"twice/second","allowed":true,"limit":1,"remaining":0,"retry_after":0,"reset_after":10}]}`},
		{of("1", ""), `{"allowed":false,"status":429,"headers":{"Retry-After":"10","X-RateLimit-Scope":"user","X-RateLimit-Limit":"1","X-RateLimit-Remaining":"0",` +
			`"X-RateLimit-Reset":"1767225610","X-RateLimit-Reset-After":"10"},"body":{"code":"RATE_LIMITED","message":"` + english + `","global":false,"retry_after":10},` +
			`"effects":[],"degraded":false,"buckets":[{"bucket":"twice/first","allowed":true,"limit":2,"remaining":1,"retry_after":0,"reset_after":5},` +
			`{"bucket":"twice/second","allowed":false,"limit":1,"remaining":0,"retry_after":10,"reset_after":10}]}`},
		{of("2", `,"code":"c"`), fine + `{"bucket":"twice/first","allowed":true,"limit":2,"remaining":0,"retry_after":0,"reset_after":10},` +
			`{"bucket":"twice/second","allowed":true,"limit":1,"remaining":0,"retry_after":0,"reset_after":10},` +
			`{"bucket":"twice/failures","allowed":true,"limit":1,"remaining":1,"retry_after":0,"reset_after":0}]}`},
	} {
		same(t, c.body, n.allowance("twice", c.body), c.want)
	}
	same(t, "hops", n.cluster.Stats().Forwarded.Load()-before, 3)
}

// Every take counts for each rule that was evaluated; nothing else does.
func TestMetricsCountAllowances(t *testing.T) {
	n := start(t, setup{rules: loginRules("local")})
	n.allowance("login", loginOf("take", "a", "1"))
	n.allowance("login", loginOf("take", "a", "1")) // refused by the account
	n.allowance("login", loginOf("peek", "a", "1"))
	n.allowance("login", loginOf("succeed", "a", "1"))
	n.allowance("login", loginOf("take", "a", "1"))
	n.allowance("login", loginOf("take", "a", "2")) // refused by the address
	n.send("POST", n.api+"/v1/allowances/login", `{}`)
	n.send("POST", n.api+"/v1/allowances/nothing", `{}`)
	same(t, "decisions", n.scrape("weir_decisions_total", "weir_http_requests_total"),
		`weir_decisions_total{bucket="login/account",outcome="allowed"} 2
weir_decisions_total{bucket="login/account",outcome="refused"} 1
weir_decisions_total{bucket="login/mail",outcome="allowed"} 3
weir_decisions_total{bucket="login/mail",outcome="refused"} 1
weir_decisions_total{bucket="twice/failures",outcome="allowed"} 0
weir_decisions_total{bucket="twice/failures",outcome="refused"} 0
weir_decisions_total{bucket="twice/first",outcome="allowed"} 0
weir_decisions_total{bucket="twice/first",outcome="refused"} 0
weir_decisions_total{bucket="twice/second",outcome="allowed"} 0
weir_decisions_total{bucket="twice/second",outcome="refused"} 0
weir_http_requests_total{code="200",endpoint="/v1/allowances/{operation}"} 6
weir_http_requests_total{code="400",endpoint="/v1/allowances/{operation}"} 1
weir_http_requests_total{code="404",endpoint="/v1/allowances/{operation}"} 1
`)
}

// A node that is not ready says so before anything else.
func TestAllowanceBeforeReady(t *testing.T) {
	n := start(t, setup{rules: loginRules("local"), notReady: true})
	r := n.send("POST", n.api+"/v1/allowances/nothing", `x`)
	same(t, "status", r.status, http.StatusServiceUnavailable)
	same(t, "again", r.header.Get("Retry-After"), "1")
}

// Codes that a policy makes up are told in words that fit their shape.
func TestRefusalsOfOwnCodes(t *testing.T) {
	n := start(t, setup{rules: `
version: 1
allowances:
  a: {r: {kind: bucket, key: account, limit: 1, window: 90s, code: MINE}}
  b: {r: {kind: bucket, key: account, limit: 1, window: 90s, shape: 400_form, code: MINE, path: f, wait_unit: minutes, effect: sound_the_horn}}
  c: {r: {kind: bucket, key: account, limit: 1, window: 90s, shape: 400_form, code: MINE, path: f, wait_unit: seconds}}
  d: {r: {kind: bucket, key: account, limit: 1, window: 90s, shape: 400_form, code: MINE, path: f, wait_unit: none}}
  e: {r: {kind: bucket, key: account, limit: 1, window: 90s, shape: 400_form, code: BIO_CHANGED_TOO_MANY_TIMES, path: f, wait_unit: none}}
  f: {r: {kind: bucket, key: account, limit: 1, window: 90s, shape: 403_root, code: BIO_CHANGED_TOO_MANY_TIMES}}
  g: {r: {kind: bucket, key: account, limit: 1, window: 1500ms, shape: 429_resend, code: MINE}}
  h: {r: {kind: bucket, key: account, limit: 1, window: 1500ms, shape: 400_slowmode, code: MINE}}
`})
	const form = `{"code":"INVALID_FORM_BODY","message":"Some of what you entered cannot be accepted. Please check it and try again.","errors":[{"path":"f","message":"%","code":"MINE"}]}`
	for operation, want := range map[string]string{
		"a": `{"code":"MINE","message":"` + english + `","global":false,"retry_after":90}`,
		"b": strings.Replace(form, "%", "This has been changed too often. Try again in 2 minutes.", 1),
		"c": strings.Replace(form, "%", "This has been changed too often. Try again in 90 seconds.", 1),
		"d": strings.Replace(form, "%", "This is not right. Please check it and try again.", 1),
		"e": strings.NewReplacer("%", "This is not right. Please check it and try again.", "MINE", "BIO_CHANGED_TOO_MANY_TIMES").Replace(form),
		"f": `{"code":"BIO_CHANGED_TOO_MANY_TIMES","message":"You have changed your bio too often. Try again in 90 seconds."}`,
		"g": `{"code":"MINE","message":"` + english + `","resend_available_in":2,"retry_after":2}`,
		"h": `{"code":"MINE","message":"` + english + `","retry_after":1.5}`,
	} {
		n.allowance(operation, `{"subject":{"account":"1"}}`)
		var a struct {
			Body    json.RawMessage
			Effects []string
		}
		if err := json.Unmarshal([]byte(n.allowance(operation, `{"subject":{"account":"1"}}`)), &a); err != nil {
			t.Fatal(err)
		}
		same(t, operation, string(a.Body), want)
		same(t, operation, len(a.Effects), strings.Count(operation, "b"))
	}
}

// FuzzAllowance sends any body about any operation: the answer is JSON, and an
// error is never a decision.
func FuzzAllowance(f *testing.F) {
	p, err := policy.Default()
	if err != nil {
		f.Fatal(err)
	}
	for _, o := range p.Operations {
		for _, action := range []string{"take", "peek", "succeed", "fail", "issue", "impose", "reset"} {
			f.Add(o.Name, []byte(`{"action":"`+action+`","subject":{"email":"a@b.c","ip":"::1","account":"1","ticket":"t","channel":"2","guild":"3",`+
				`"message":"4","reporter":"1","phone":"+1","code":"c","interval":30},"delay":"1s"}`))
		}
	}
	f.Add("send_message", []byte(`{"action":"reset","subject":{"channel":"1","interval":0}}`))
	f.Add("send_message", []byte(`{"subject":{"channel":"1","account":"2","interval":9223372036854775807}}`))
	n := newFront(f, setup{rules: string(p.Source())})
	n.cluster.Open(n.wires.listen(f, "n1"))
	f.Cleanup(func() { n.cluster.Close() })
	n.settle()
	f.Fuzz(func(t *testing.T, operation string, body []byte) {
		n.clock.ns.Add(int64(2 * time.Second))
		a := n.front.allowance(&request{context: context.Background(), contentType: "application/json", body: body, name: operation})
		if !json.Valid(a.body) {
			t.Fatalf("HTTP %d is no JSON: %.500q", a.status, a.body)
		}
		switch a.status {
		case http.StatusOK:
			m := members(a.body)
			allowed, status := string(m["allowed"]), string(m["status"])
			if (allowed == "true") != (status == "") || allowed == "false" && m["body"] == nil {
				t.Errorf("HTTP 200: %.500s", a.body)
			}
		case http.StatusBadRequest, http.StatusNotFound:
			if !isProblem(a.body, a.status) {
				t.Errorf("HTTP %d: %.500s", a.status, a.body)
			}
		default:
			t.Fatalf("HTTP %d: %.500s", a.status, a.body)
		}
	})
}
