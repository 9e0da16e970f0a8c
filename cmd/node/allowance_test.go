package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/policy"
)

// What holds for limits inside handlers in general, over HTTP.

// remaining returns "rule=remaining" of every rule that a peek finds, and
// whether it is allowed.
func (c *testCluster) remaining(operation, subject string) string {
	c.t.Helper()
	a := parse[answered](c.t, c.allowance(operation, `{"action":"peek","subject":`+subject+`}`))
	out := []string{fmt.Sprint(a.Allowed)}
	for _, b := range a.Buckets {
		out = append(out, fmt.Sprintf("%s=%d", strings.TrimPrefix(b.Bucket, operation+"/"), b.Remaining))
	}
	return strings.Join(out, " ")
}

// take is a call that is to be accepted, or not.
func (c *testCluster) take(operation, subject string, want bool) answered {
	c.t.Helper()
	a := parse[answered](c.t, c.allowance(operation, `{"subject":`+subject+`}`))
	if a.Allowed != want {
		c.t.Errorf("%s %s: allowed %t, want %t", operation, subject, a.Allowed, want)
	}
	return a
}

// say is a call that is always accepted.
func (c *testCluster) say(operation, action, subject string) {
	c.t.Helper()
	if a := parse[answered](c.t, c.allowance(operation, fmt.Sprintf(`{"action":%q,"subject":%s}`, action, subject))); !a.Allowed {
		c.t.Errorf("%s %s %s: %+v", operation, action, subject, a)
	}
}

// Callers who race for the last of something: exactly what there is, and whoever
// comes too late gets the refusal of what was lost, after the rules before it. Some
// operations are decided in one hop, of others each rule may live elsewhere.
func TestRacesForAllowances(t *testing.T) {
	c := startCluster(t, 3, defaultPolicy(t), newStoppedClock())
	const callers = 32
	for _, race := range []struct {
		operation, subject string
		wins               int
		loses              string // the rules that the others are told of; the last refuses
	}{
		{"report_user", `{"reporter":"1"}`, 5, "reporter"},
		{"get_desktop_handoff", `{"code":"c","ip":"10.0.0.%d"}`, 3, "failures lookups"},
		{"request_new_email", `{"account":"%d","ticket":"t"}`, 1, "ticket"},
		{"resend_new_email_code", `{"account":"a","ticket":"u%d"}`, 5, "ticket account"},
		{"register", `{"email":"%d@example.org","ip":"192.0.2.1"}`, 3, "email ip"},
		{"resend_ip_authorization", `{"ticket":"t"}`, 1, "used"},
		{"send_phone_verification", `{"account":"%d","phone":"+1"}`, 3, "provider_account provider_phone account phone"},
		{"report_message", `{"reporter":"r%d","channel":"c","message":"m"}`, 20, "reporter channel message"},
	} {
		var wins atomic.Int64
		var calls sync.WaitGroup
		for i := range callers {
			subject := race.subject
			if strings.Contains(subject, "%d") {
				subject = fmt.Sprintf(subject, i)
			}
			calls.Go(func() {
				a := parse[answered](t, c.allowance(race.operation, `{"subject":`+subject+`}`))
				if a.Allowed {
					wins.Add(1)
					return
				}
				var told []string
				for _, b := range a.Buckets {
					told = append(told, strings.TrimPrefix(b.Bucket, race.operation+"/"))
				}
				if got := strings.Join(told, " "); got != race.loses || a.Buckets[len(told)-1].Allowed || a.Degraded {
					t.Errorf("%s: refused by %s, want %s: %+v", race.operation, got, race.loses, a)
				}
			})
		}
		calls.Wait()
		if int(wins.Load()) != race.wins {
			t.Errorf("%s: %d of %d are allowed, want %d", race.operation, wins.Load(), callers, race.wins)
		}
	}
}

// A cooldown and a quota that live apart: of those who race for the last unit of
// the quota the losers have not spent their cooldowns.
func TestLosersKeepTheirCooldowns(t *testing.T) {
	c := startCluster(t, 3, customPolicy(t, `
version: 1
allowances:
  redeem:
    account: {kind: cooldown, key: account, window: 1h}
    code: {kind: quota, key: code, limit: 1, window: 1h}
`), newStoppedClock())
	const rounds, callers = 20, 16
	for round := range rounds {
		subject := func(i int) string { return fmt.Sprintf(`{"account":"%d of %d","code":"%d"}`, i, round, round) }
		var won [callers]bool
		var calls sync.WaitGroup
		for i := range callers {
			calls.Go(func() {
				won[i] = parse[answered](t, c.allowance("redeem", `{"subject":`+subject(i)+`}`)).Allowed
			})
		}
		calls.Wait()
		wins := 0
		for i := range callers {
			want := "false account=1 code=0"
			if won[i] {
				wins, want = wins+1, "false account=0 code=0"
			}
			same(t, "after the race", c.remaining("redeem", subject(i)), want)
		}
		if wins != 1 {
			t.Errorf("%d of %d have won", wins, callers)
		}
	}
}

// Neither a flag nor what routes count has to do with what handlers limit.
func TestAllowancesAndRoutesAreApart(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		const login, bypassing = `{"email":"a@example.org","ip":"192.0.2.1"}`, `{"route":"POST /auth/login","caller":{"account":"1","flags":["RATE_LIMIT_BYPASS"],"ip":"192.0.2.1"}}`
		const plain = `{"route":"POST /auth/login","caller":{"ip":"192.0.2.1"}}`
		for range 5 {
			c.take("login_password", login, true)
		}
		c.take("login_password", login, false)
		same(t, "routes are untouched", c.left(plain), "global=50 auth:login=10")
		if a := parse[answered](t, c.decide(bypassing)); !a.Allowed {
			t.Errorf("bypassing: %+v", a)
		}
		c.decideMany(60, plain)
		same(t, "the route is exhausted", c.left(plain), "global=0 auth:login=0")
		same(t, "another address is not", c.remaining("login_password", `{"email":"b@example.org","ip":"192.0.2.1"}`), "true email=5 ip=5")
		// A subject has no flags: who bypasses routes waits here.
		for range 10 {
			c.take("sudo_totp", `{"account":"1"}`, true)
		}
		c.take("sudo_totp", `{"account":"1"}`, false)
	})
}

func TestSwitchesReachTheirAllowancesOnly(t *testing.T) {
	switched := func(setting string) func(testing.TB) *policy.Policy {
		return func(t testing.TB) *policy.Policy {
			source := string(defaultPolicy(t).Source())
			return customPolicy(t, strings.Replace(source, "\nversion: 1\n", "\nversion: 1\n"+setting+"\n", 1))
		}
	}
	const login, register, recovery = `{"email":"a@b.c","ip":"::1"}`, `{"email":"a@b.c","ip":"::1"}`, `{"email":"a@b.c","ip":"::1"}`
	for _, c := range []struct{ setting, login, register, recovery string }{
		{"switches: {}", "true email=5 ip=10", "true email=3 ip=3 subnet=15", "true ip=20 email=5"},
		{"switches: {disable_rate_limits: true}", "true", "true email=3 ip=3 subnet=15", "true ip=20 email=5"},
		{"switches: {relax_registration_rate_limits: true}", "true email=5 ip=10", "true", "true ip=20 email=5"},
		{"test_mode: true", "true", "true email=3 ip=3 subnet=15", "true ip=20 email=5"},
	} {
		cluster := startCluster(t, 1, switched(c.setting)(t), newStoppedClock())
		same(t, c.setting, cluster.remaining("login_password", login), c.login)
		same(t, c.setting, cluster.remaining("register", register), c.register)
		same(t, c.setting, cluster.remaining("request_password_recovery", recovery), c.recovery)
		if c.login == "true" { // nothing is taken either
			for range 12 {
				cluster.take("login_password", login, true)
			}
		}
		if c.setting == "test_mode: true" {
			earnest := `{"subject":` + login + `,"test":{"enforce":true,"global_limit":1}}`
			for i := range 6 {
				if a := parse[answered](t, cluster.allowance("login_password", earnest)); a.Allowed != (i < 5) {
					t.Errorf("in earnest, %d: %+v", i, a)
				}
			}
		}
	}
}

func TestAllowanceMessagesAreLocalised(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		for range 5 {
			c.take("change_username", `{"account":"1"}`, true)
		}
		message := func(locale, accept string) string {
			t.Helper()
			a := parse[answered](t, c.allowance("change_username", fmt.Sprintf(`{"subject":{"account":"1"},"locale":%q,"accept_language":%q}`, locale, accept)))
			entry := a.Body["errors"].([]any)[0].(map[string]any)
			return entry["message"].(string)
		}
		const few = 2160 - 22*60
		for _, m := range []struct{ locale, accept, at36, at22 string }{
			{"", "", "Try again in 36 minutes.", "Try again in 22 minutes."},
			{"xx", "de-AT, tlh;q=0.5", "36 Minuten", "22 Minuten"},
			{"pl", "de", "36 minut", "22 minuty"},
			{"ja", "", "36", "22"},
		} {
			for _, want := range []string{m.at36, m.at22} {
				if want == m.at22 {
					c.clock.Advance(few * time.Second)
				}
				if got := message(m.locale, m.accept); !strings.Contains(got, want) {
					t.Errorf("%s %s: %q is not in %q", m.locale, m.accept, want, got)
				}
			}
			c.clock.Advance(-few * time.Second)
		}
	})
}

// Every error names what is at fault, and nothing is consumed by any.
func TestBadAllowanceBodies(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		for _, bad := range []struct {
			path, body string
			status     int
			field      string
		}{
			{"login_password", `{"subject":{"ip":"192.0.2.1"}}`, 400, "subject.email"},
			{"login_password", `{"subject":{"email":"a@b.c"}}`, 400, "subject.ip"},
			{"login_password", `{"subject":{"email":"a@b.c","ip":"here"}}`, 400, "subject.ip"},
			{"login_password", `{"subject":{"email":7,"ip":"192.0.2.1"}}`, 400, "subject.email"},
			{"login_password", `{"subject":{"email":"a@b.c","ip":"192.0.2.1","mail":""}}`, 400, "subject.mail"},
			{"login_password", `{"subject":{"email":"a@b.c","ip":"192.0.2.1"},"account":"1"}`, 400, "account"},
			{"login_password", `{"subject":{"email":"a@b.c","ip":"192.0.2.1"},"action":"tak"}`, 400, "action"},
			{"login_password", `{"subject":{"email":"a@b.c","ip":"192.0.2.1"},"action":"fail"}`, 400, "action"},
			{"login_password", `{"subject":{"email":"a@b.c","ip":"192.0.2.1"},"delay":"1s"}`, 400, "delay"},
			{"login_password", `{"subject":{"email":"a@b.c","ip":"192.0.2.1"},"test":{}}`, 400, "test"},
			{"login_password", `{"subject":[]}`, 400, "subject"},
			{"login_password", `[{"subject":{"email":"a@b.c","ip":"192.0.2.1"}}]`, 400, ""},
			{"login_password", `{"subject":{"email":"a@b.c","ip":"192.0.2.1"}}x`, 400, ""},
			{"login_password", ``, 400, ""},
			{"change_username", `{"subject":{"account":"1","path":"bio"}}`, 400, "subject.path"},
			{"change_username", `{"subject":{"account":"1","changed":"no"}}`, 400, "subject.changed"},
			{"send_message", `{"subject":{"account":"1","channel":"2"}}`, 400, "subject.interval"},
			{"send_message", `{"subject":{"account":"1","channel":"2","interval":-1}}`, 400, "subject.interval"},
			{"send_message", `{"subject":{"account":"1","channel":"2","interval":1.5}}`, 400, "subject.interval"},
			{"send_message", `{"subject":{"account":"1","channel":"2","interval":1e3}}`, 400, "subject.interval"},
			{"send_message", `{"subject":{"account":"1","interval":30}}`, 400, "subject.channel"},
			{"send_phone_verification", `{"action":"impose","subject":{"account":"1"}}`, 400, "delay"},
			{"send_phone_verification", `{"action":"impose","delay":"367d","subject":{"account":"1"}}`, 400, "delay"},
			{"send_phone_verification", `{"action":"impose","delay":"1s","subject":{"ip":"::1"}}`, 400, "subject"},
			{"complete_login_totp", `{"action":"succeed","subject":{"account":"1"}}`, 400, "subject.ticket"},
			{"get_desktop_handoff", `{"action":"fail","subject":{"code":"c"}}`, 400, "subject.ip"},
			{"resend_ip_authorization", `{"action":"issue","subject":{"account":"1"}}`, 400, "subject.ticket"},
			{"resend_ip_authorization", `{"action":"reset","subject":{"account":"1"}}`, 400, "subject"},
			{"login", `{"subject":{"email":"a@b.c","ip":"192.0.2.1"}}`, 404, ""},
			{"", `{}`, 404, ""},
			{"login_password/email", `{}`, 404, ""},
			{"%7Boperation%7D", `{}`, 404, ""},
		} {
			status, answer := c.postTo("/v1/allowances/"+bad.path, "application/json", bad.body)
			p := parse[map[string]any](t, answer)
			field, _ := p["field"].(string)
			if status != bad.status || p["status"] != float64(bad.status) || field != bad.field {
				t.Errorf("%s %s: HTTP %d %s, want %d about %q", bad.path, bad.body, status, answer, bad.status, bad.field)
			}
			if _, decided := p["allowed"]; decided {
				t.Errorf("%s %s: an error that looks like a decision: %s", bad.path, bad.body, answer)
			}
		}
		if status, _ := c.postTo("/v1/allowances/login_password", "text/plain", `{}`); status != http.StatusUnsupportedMediaType {
			t.Errorf("text/plain: HTTP %d", status)
		}
		same(t, "login", c.remaining("login_password", `{"email":"a@b.c","ip":"192.0.2.1"}`), "true email=5 ip=10")
		same(t, "username", c.remaining("change_username", `{"account":"1"}`), "true tag=5")
		same(t, "message", c.remaining("send_message", `{"account":"1","channel":"2","interval":30}`), "true slowmode=1")
		same(t, "phone", c.remaining("send_phone_verification", `{"account":"1","phone":"+1"}`), "true provider_account=1 provider_phone=1 account=3 phone=3")
	})
}
