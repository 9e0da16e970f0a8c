package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What the contract says of each operation of a handler, call by call, with
// literal answers.

const (
	wrongCode   = `"body":{"code":"INVALID_FORM_BODY","message":"` + badForm + `","errors":[{"path":"code","message":"This code is not right.","code":"INVALID_CODE"}]}`
	badForm     = "Some of what you entered cannot be accepted. Please check it and try again."
	accepted    = `{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[`
	badHandoff  = `{"allowed":false,"status":400,"headers":{},"body":{"code":"INVALID_HANDOFF_CODE","message":"This code is not right, or is no longer valid."},"effects":[],"degraded":false,"buckets":[`
	slowMessage = "This channel is in slow mode. Please wait before you send another message."
)

// state is a rule as answers list it.
func state(rule string, allowed bool, limit, remaining int, retry, reset string) string {
	return fmt.Sprintf(`{"bucket":"%s","allowed":%t,"limit":%d,"remaining":%d,"retry_after":%s,"reset_after":%s}`, rule, allowed, limit, remaining, retry, reset)
}

func TestMultiFactor(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		const login = `{"account":"1","ticket":"t1"}`
		for range 5 {
			c.take("complete_login_totp", login, true) // and the code is wrong
		}
		// The sixth, with the right code, looks like one more wrong one.
		refusal := `{"allowed":false,"status":400,"headers":{},` + wrongCode + `,"effects":[%s],"degraded":false,"buckets":[` +
			state("complete_login_totp/account", true, 10, 5, "0", "450") + "," + state("complete_login_totp/ticket", false, 5, 0, "60", "300") + "]}"
		same(t, "a peek", c.allowance("complete_login_totp", `{"action":"peek","subject":`+login+`}`), fmt.Sprintf(refusal, ""))
		same(t, "the sixth", c.allowance("complete_login_totp", `{"subject":`+login+`}`), fmt.Sprintf(refusal, `"destroy_mfa_ticket"`))
		// By WebAuthn it is the same ticket and the same account.
		same(t, "by WebAuthn", c.remaining("complete_login_webauthn", login), "false account=5 ticket=0")
		a := c.take("complete_login_webauthn", login, false)
		same(t, "its field", fmt.Sprint(a.Body["errors"]), "[map[code:INVALID_CODE message:This code is not right. path:ticket]]")
		// On a new ticket the account has five left, and no more on any.
		for range 5 {
			c.take("complete_login_totp", `{"account":"1","ticket":"t2"}`, true)
		}
		a = c.take("complete_login_totp", `{"account":"1","ticket":"t3"}`, false)
		same(t, "by the account", fmt.Sprint(a.Buckets[0].Bucket, a.Effects), "complete_login_totp/account[]")
		// The right code clears both.
		const other = `{"account":"2","ticket":"t4"}`
		c.take("complete_login_totp", other, true)
		c.take("complete_login_totp", other, true)
		same(t, "before", c.remaining("complete_login_totp", other), "true account=8 ticket=3")
		same(t, "succeed", c.allowance("complete_login_totp", `{"action":"succeed","subject":`+other+`}`), accepted+
			state("complete_login_totp/account", true, 10, 10, "0", "0")+","+state("complete_login_totp/ticket", true, 5, 5, "0", "0")+"]}")
		same(t, "after", c.remaining("complete_login_totp", other), "true account=10 ticket=5")
		// Sudo has a counter of its own.
		for range 10 {
			c.take("sudo_totp", `{"account":"2"}`, true)
		}
		c.take("sudo_totp", `{"account":"2"}`, false)
		same(t, "beside sudo", c.remaining("complete_login_totp", other), "true account=10 ticket=5")
		c.say("sudo_totp", "succeed", `{"account":"2"}`)
		c.take("sudo_totp", `{"account":"2"}`, true)
	})
}

func TestSlowMode(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		in := func(channel, more string) string {
			return `{"account":"1","channel":"` + channel + `","interval":30` + more + `}`
		}
		peek := func(subject string) string {
			return c.allowance("send_message", `{"action":"peek","subject":`+subject+`}`)
		}
		mode := func(allowed bool, remaining int, retry string) string {
			return state("send_message/slowmode", allowed, 1, remaining, retry, retry)
		}
		free := accepted + mode(true, 1, "0") + `],"retry_after":0,"next_allowed_at":null,"can_bypass":false}`
		refused := `{"allowed":false,"status":400,"headers":{"Retry-After":"%s"},"body":{"code":"SLOWMODE_RATE_LIMITED","message":"` + slowMessage + `","retry_after":%s},` +
			`"effects":[],"degraded":false,"buckets":[%s]`
		// A message that the API rejects after looking costs nothing.
		for range 2 {
			same(t, "before", peek(in("7", "")), free)
		}
		same(t, "sent", c.allowance("send_message", `{"subject":`+in("7", "")+`}`), accepted+state("send_message/slowmode", true, 1, 0, "0", "30")+"]}")
		c.clock.Advance(12_500 * time.Millisecond)
		wait := fmt.Sprintf(refused, "18", "17.5", mode(false, 0, "17.5"))
		same(t, "too early", c.allowance("send_message", `{"subject":`+in("7", "")+`}`), wait+"}")
		same(t, "a look", peek(in("7", "")), wait+`,"retry_after":17.5,"next_allowed_at":"2026-01-01T00:00:30Z","can_bypass":false}`)
		// Other channels, other accounts.
		same(t, "another channel", peek(in("8", "")), free)
		same(t, "another account", peek(strings.Replace(in("7", ""), `"account":"1"`, `"account":"2"`, 1)), free)
		// Whom it does not count.
		none := accepted + `]`
		for what, more := range map[string]string{"bot": `,"bot":true`, "direct": `,"guild_channel":false`, "off": `,"interval":0`} {
			subject := in("7", more)
			if what == "off" {
				subject = strings.Replace(subject, `"interval":30,`, "", 1)
			}
			same(t, what, peek(subject), none+`,"retry_after":0,"next_allowed_at":null,"can_bypass":false}`)
			same(t, what, c.allowance("send_message", `{"subject":`+subject+`}`), none+"}")
		}
		same(t, "bypass", peek(in("7", `,"bypass":true`)), none+`,"retry_after":0,"next_allowed_at":null,"can_bypass":true}`)
		c.take("send_message", in("7", `,"bypass":true`), true)
		same(t, "who may not bypass waits on", peek(in("7", "")), wait+`,"retry_after":17.5,"next_allowed_at":"2026-01-01T00:00:30Z","can_bypass":false}`)
		// Another interval is another bucket, whether the channel is cleared or not.
		c.take("send_message", `{"account":"1","channel":"7","interval":10}`, true)
		same(t, "the first one", peek(in("7", "")), wait+`,"retry_after":17.5,"next_allowed_at":"2026-01-01T00:00:30Z","can_bypass":false}`)
		// Changed and cleared, at one instant: all of the channel, and nothing else.
		c.take("send_message", strings.Replace(in("7", ""), `"account":"1"`, `"account":"2"`, 1), true)
		c.take("send_message", in("8", ""), true)
		same(t, "cleared", c.allowance("send_message", `{"action":"reset","subject":{"channel":"7"}}`), accepted+mode(true, 1, "0")+"]}")
		for _, account := range []string{"1", "2"} {
			for _, interval := range []string{"10", "30"} { // what began before the clear, by any interval
				subject := `{"account":"` + account + `","channel":"7","interval":` + interval + `}`
				c.take("send_message", subject, true)
				c.take("send_message", subject, false)
			}
		}
		c.take("send_message", in("8", ""), false)
		// One account alone.
		c.say("send_message", "reset", `{"account":"1","channel":"7"}`)
		c.take("send_message", in("7", ""), true)
		c.take("send_message", `{"account":"1","channel":"7","interval":10}`, true)
		c.take("send_message", `{"account":"1","channel":"7","interval":10}`, false)
		c.take("send_message", `{"account":"2","channel":"7","interval":10}`, false)
		c.clock.Advance(9999 * time.Millisecond)
		c.take("send_message", `{"account":"2","channel":"7","interval":10}`, false)
		c.clock.Advance(time.Millisecond)
		c.take("send_message", `{"account":"2","channel":"7","interval":10}`, true)
	})
}

func TestDesktopHandoff(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		const at = `"ip":"2001:db8::1"`
		known := func(code string) string { return `{"code":"` + code + `",` + at + `}` }
		// Three look-ups of a code; the fourth is refused, and is no failure.
		for range 3 {
			c.take("get_desktop_handoff", known("a"), true)
		}
		same(t, "the fourth look-up", c.allowance("get_desktop_handoff", `{"subject":`+known("a")+`}`), badHandoff+
			state("get_desktop_handoff/failures", true, 5, 5, "0", "0")+","+state("get_desktop_handoff/lookups", false, 3, 0, "300", "300")+"]}")
		same(t, "another code", c.remaining("get_desktop_handoff", known("b")), "true failures=5 lookups=3")
		// Failures on one operation block the other, from the latest on.
		for i := range 5 {
			operation := []string{"get_desktop_handoff", "complete_desktop_handoff"}[i%2]
			same(t, operation, c.allowance(operation, `{"action":"fail","subject":{`+at+`}}`),
				accepted+state(operation+"/failures", true, 5, 4-i, "0", "900")+"]}")
			c.clock.Advance(time.Minute)
		}
		blocked := state("complete_desktop_handoff/failures", false, 5, 0, "840", "840") + "]}"
		same(t, "blocked", c.allowance("complete_desktop_handoff", `{"subject":{`+at+`}}`), badHandoff+blocked)
		same(t, "a look", c.allowance("complete_desktop_handoff", `{"action":"peek","subject":{`+at+`}}`), badHandoff+blocked)
		c.take("get_desktop_handoff", known("b"), false)
		same(t, "nothing was spent", c.remaining("get_desktop_handoff", known("b")), "false failures=0 lookups=3")
		// The exact address counts.
		c.take("get_desktop_handoff", `{"code":"b","ip":"2001:db8::2"}`, true)
		// One failure more, said while blocked, extends it.
		c.clock.Advance(10 * time.Minute)
		same(t, "said while blocked", c.allowance("get_desktop_handoff", `{"action":"fail","subject":{`+at+`}}`), badHandoff+
			state("get_desktop_handoff/failures", false, 5, 0, "900", "900")+"]}")
		c.clock.Advance(15*time.Minute - time.Millisecond)
		c.take("complete_desktop_handoff", `{`+at+`}`, false)
		c.clock.Advance(time.Millisecond)
		c.take("complete_desktop_handoff", `{`+at+`}`, true)
		same(t, "forgotten", c.remaining("complete_desktop_handoff", `{`+at+`}`), "true failures=5")
		c.say("complete_desktop_handoff", "fail", `{`+at+`}`)
		c.say("get_desktop_handoff", "reset", `{`+at+`}`)
		same(t, "reset", c.remaining("complete_desktop_handoff", `{`+at+`}`), "true failures=5")
	})
}

func TestResendOfAnIPAuthorization(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		const ticket = `{"ticket":"t"}`
		resend := func() string { return c.allowance("resend_ip_authorization", `{"subject":`+ticket+`}`) }
		c.say("resend_ip_authorization", "issue", ticket)
		c.clock.Advance(10_500 * time.Millisecond)
		cooldown := `{"allowed":false,"status":429,"headers":{"Retry-After":"20"},"body":{"code":"IP_AUTHORIZATION_RESEND_COOLDOWN",` +
			`"message":"The e-mail has only just been sent. Please wait a little before you ask for it again.","resend_available_in":20,"retry_after":20},` +
			`"effects":[],"degraded":false,"buckets":[` + state("resend_ip_authorization/used", true, 1, 1, "0", "0") + "," +
			state("resend_ip_authorization/issued", false, 1, 0, "19.5", "19.5") + "]}"
		for range 3 { // refused tries spend nothing
			same(t, "too early", resend(), cooldown)
		}
		c.clock.Advance(19_500 * time.Millisecond)
		same(t, "when due", resend(), accepted+state("resend_ip_authorization/used", true, 1, 0, "0", "900")+","+
			state("resend_ip_authorization/issued", true, 1, 1, "0", "0")+"]}")
		used := `{"allowed":false,"status":400,"headers":{},"body":{"code":"IP_AUTHORIZATION_RESEND_LIMIT_EXCEEDED",` +
			`"message":"This e-mail has been sent again once already and will not be sent another time."},"effects":[],"degraded":false,"buckets":[%s]}`
		same(t, "a second one", resend(), fmt.Sprintf(used, state("resend_ip_authorization/used", false, 1, 0, "900", "900")))
		// It comes before the cooldown, also if that runs again.
		c.say("resend_ip_authorization", "issue", ticket)
		same(t, "a second one, after another issue", resend(), fmt.Sprintf(used, state("resend_ip_authorization/used", false, 1, 0, "900", "900")))
		// Without an issue nothing has to be waited for; a later one counts from its
		// own time.
		c.take("resend_ip_authorization", `{"ticket":"u"}`, true)
		c.say("resend_ip_authorization", "issue", `{"ticket":"v"}`)
		c.clock.Advance(29 * time.Second)
		c.say("resend_ip_authorization", "issue", `{"ticket":"v"}`)
		c.clock.Advance(29 * time.Second)
		c.take("resend_ip_authorization", `{"ticket":"v"}`, false)
		c.clock.Advance(time.Second)
		c.take("resend_ip_authorization", `{"ticket":"v"}`, true)
	})
}

func TestReports(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		report := func(reporter, channel, message, guild string) string {
			s := `{"reporter":"` + reporter + `","channel":"` + channel + `","message":"` + message + `"`
			if guild != "" {
				s += `,"guild":"` + guild + `"`
			}
			return s + "}"
		}
		for i := range 3 {
			c.take("report_message", report("1", "c", fmt.Sprint("m", i), "g"), true)
		}
		// The channel's refusal leaves the later ones untouched, and the earlier.
		same(t, "by the channel", c.take("report_message", report("1", "c", "m9", "g"), false).Buckets[1].Bucket, "report_message/channel")
		same(t, "after it", c.remaining("report_message", report("1", "c", "m9", "g")), "false reporter=2 channel=0 message=20 guild=1")
		c.take("report_message", report("1", "d", "m9", "g"), true)
		same(t, "by the guild", c.remaining("report_message", report("1", "d", "m8", "g")), "false reporter=1 channel=2 message=20 guild=0")
		// Outside a guild there is no such rule.
		same(t, "no guild", c.remaining("report_message", report("1", "d", "m8", "")), "true reporter=1 channel=2 message=20")
		// One counter for four operations.
		c.take("report_user", `{"reporter":"1"}`, true)
		for _, operation := range []string{"report_message", "report_user", "report_guild", "create_dsa_report"} {
			same(t, operation, strings.Fields(c.remaining(operation, report("1", "x", "y", "z")))[1], "reporter=0")
		}
		// A message is counted across all reporters, who may be e-mail addresses.
		for i := range 20 {
			c.take("report_message", report(fmt.Sprintf("r%d@example.org", i), "c", "m", ""), true)
		}
		same(t, "by the message", c.remaining("report_message", report("R19@Example.org ", "c", "m", "")), "false reporter=4 channel=2 message=0")
	})
}

func TestPhoneVerification(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		of := func(account, phone string) string { return `{"account":"` + account + `","phone":"` + phone + `"}` }
		exceeded := func(scope, retry, limit, reset, after string) string {
			return `{"allowed":false,"status":429,"headers":{"Retry-After":"` + retry + `","X-RateLimit-Scope":"` + scope + `","X-RateLimit-Limit":"` + limit +
				`","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"` + reset + `","X-RateLimit-Reset-After":"` + after + `"},"body":{"code":"PHONE_RATE_LIMIT_EXCEEDED",` +
				`"message":"Too many codes have been sent by phone. Please try again later.","global":false,"retry_after":` + retry + `},"effects":[],"degraded":false,"buckets":[`
		}
		quiet := func(rule string) string {
			return state("send_phone_verification/"+rule, true, 1, 1, "0", "0") + ","
		}
		for i := range 3 {
			c.take("send_phone_verification", of(fmt.Sprint("a", i), "+491"), true)
		}
		same(t, "a fourth account", c.allowance("send_phone_verification", `{"subject":`+of("a4", "+491")+`}`),
			exceeded("shared", "144000", "3", "1767657600", "432000")+quiet("provider_account")+quiet("provider_phone")+
				state("send_phone_verification/account", true, 3, 3, "0", "0")+","+state("send_phone_verification/phone", false, 3, 0, "144000", "432000")+"]}")

		impose := func(delay, subject string) {
			t.Helper()
			a := parse[answered](t, c.allowance("send_phone_verification", `{"action":"impose","delay":"`+delay+`","subject":`+subject+`}`))
			if !a.Allowed {
				t.Errorf("impose: %+v", a)
			}
		}
		// The longest delay refuses, with its own scope, before any counter.
		impose("30s", `{"account":"b"}`)
		impose("45s", `{"phone":"+492"}`)
		imposed := func(rule, wait string) string {
			return state("send_phone_verification/"+rule, false, 1, 0, wait, wait)
		}
		same(t, "by number", c.allowance("send_phone_verification", `{"subject":`+of("b", "+492")+`}`),
			exceeded("shared", "45", "1", "1767225645", "45")+imposed("provider_account", "30")+","+imposed("provider_phone", "45")+"]}")
		byAccount := exceeded("user", "30", "1", "1767225630", "30") + imposed("provider_account", "30")
		same(t, "by account", c.allowance("send_phone_verification", `{"subject":`+of("b", "+493")+`}`), byAccount+"]}")
		// On a tie the first listed; a shorter one does not shorten.
		impose("30s", `{"phone":"+493"}`)
		same(t, "a tie", c.allowance("send_phone_verification", `{"subject":`+of("b", "+493")+`}`), byAccount+"]}")
		impose("1ms", of("b", "+492"))
		same(t, "not shortened", c.allowance("send_phone_verification", `{"subject":`+of("b", "+493")+`}`), byAccount+"]}")
		c.clock.Advance(30 * time.Second)
		c.take("send_phone_verification", of("b", "+493"), true)
		same(t, "by number still", fmt.Sprint(c.take("send_phone_verification", of("b", "+492"), false).Body["retry_after"]), "15")
		same(t, "nothing was spent", c.remaining("send_phone_verification", of("b", "+492")), "false provider_account=1 provider_phone=0 account=2 phone=3")
		impose("366d", `{"account":"c"}`)
		same(t, "a year", fmt.Sprint(c.take("send_phone_verification", of("c", "+494"), false).Headers["Retry-After"]), "31622400")
		c.say("send_phone_verification", "reset", `{"account":"c"}`)
		c.take("send_phone_verification", of("c", "+494"), true)
	})
}

func TestTicketsAndTheirClocks(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		of := func(account, ticket string) string {
			return `{"account":"` + account + `","ticket":"` + ticket + `"}`
		}
		// Sends to the old address and to the new have a clock each, for all four
		// operations that send to the new.
		c.take("start_email_change", of("1", "t"), true)
		c.take("resend_original_email_code", of("1", "t"), false)
		c.take("request_new_email", of("1", "t"), true)
		for _, operation := range []string{"request_new_email", "resend_new_email_code", "request_bounced_email_recovery", "resend_bounced_email_recovery"} {
			same(t, operation, c.remaining(operation, of("1", "t")), "false ticket=0 account=4")
		}
		c.clock.Advance(30 * time.Second)
		c.take("resend_original_email_code", of("1", "t"), true)
		c.take("resend_original_email_code", of("1", "t"), false)
		// A cooldown is spent only when all is accepted.
		c.take("start_email_change", of("1", "u"), true)
		c.take("start_email_change", of("1", "v"), false)
		same(t, "the account refuses", c.take("resend_original_email_code", of("1", "w"), false).Buckets[1].Bucket, "resend_original_email_code/account")
		same(t, "the ticket is not spent", c.remaining("resend_original_email_code", of("2", "w")), "true ticket=1 account=3")
		same(t, "nor started", c.remaining("resend_original_email_code", of("2", "v")), "true ticket=1 account=3")
		// Passwords have one clock, and their start and resend an account's counter each.
		c.take("start_password_change", of("1", "t"), true)
		c.take("resend_password_change_code", of("1", "t"), false)
		same(t, "password", c.remaining("resend_password_change_code", of("1", "p")), "true ticket=1 account=3")
	})
}

func TestAddressesOfAccounts(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		// Letter case and spaces make no other address.
		for _, email := range []string{"ann@example.org", " Ann@Example.org", "ANN@EXAMPLE.ORG\t"} {
			c.take("request_password_recovery", fmt.Sprintf(`{"email":%q,"ip":"192.0.2.1"}`, email), true)
		}
		same(t, "recovery", c.remaining("request_password_recovery", `{"email":"ann@example.org","ip":"192.0.2.1"}`), "true ip=17 email=2")
		for range 2 {
			c.take("request_password_recovery", `{"email":"ann@example.org","ip":"192.0.2.2"}`, true)
		}
		a := c.take("request_password_recovery", `{"email":"ann@example.org","ip":"192.0.2.3"}`, false)
		same(t, "by the address", fmt.Sprint(len(a.Buckets), a.Buckets[1].Bucket, a.Buckets[1].RetryAfter), "2request_password_recovery/email360")
		// What refused has spent nothing, of the other rule neither.
		same(t, "others from there", c.remaining("request_password_recovery", `{"email":"bob@example.org","ip":"192.0.2.3"}`), "true ip=20 email=5")
		// Login, by address and by network of a caller.
		for i := range 10 {
			c.take("login_password", fmt.Sprintf(`{"email":"%d@example.org","ip":"2001:db8::%x"}`, i, i), true)
		}
		same(t, "one /64", c.remaining("login_password", `{"email":"x@example.org","ip":"2001:DB8::ffff"}`), "false email=5 ip=0")
		same(t, "another", c.remaining("login_password", `{"email":"x@example.org","ip":"2001:db8:0:1::1"}`), "true email=5 ip=10")
		// Registration: address, caller and its network.
		for i := range 15 {
			c.take("register", fmt.Sprintf(`{"email":"","ip":"198.51.100.%d"}`, i), true)
		}
		same(t, "one /24", c.remaining("register", `{"ip":"198.51.100.99"}`), "false ip=3 subnet=0")
		same(t, "another", c.remaining("register", `{"ip":"198.51.101.99"}`), "true ip=3 subnet=15")
	})
}

func TestProfileFields(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		for range 5 {
			c.take("change_username", `{"account":"1"}`, true)
		}
		tooOften := func(path, wait string) string {
			return `{"allowed":false,"status":400,"headers":{},"body":{"code":"INVALID_FORM_BODY","message":"` + badForm + `","errors":[{"path":"` + path +
				`","message":"You have changed your username too often. Try again in ` + wait + `.","code":"USERNAME_CHANGED_TOO_MANY_TIMES"}]},"effects":[],"degraded":false,"buckets":[`
		}
		full := state("change_username/tag", false, 5, 0, "2160", "10800") + "]}"
		same(t, "too often", c.allowance("change_username", `{"subject":{"account":"1","path":"username"}}`), tooOften("username", "36 minutes")+full)
		same(t, "the other field", c.allowance("change_username", `{"subject":{"account":"1","path":"discriminator"}}`), tooOften("discriminator", "36 minutes")+full)
		c.clock.Advance(2100*time.Second + 500*time.Millisecond)
		same(t, "in the last minute", c.allowance("change_username", `{"subject":{"account":"1"}}`), tooOften("username", "1 minute")+
			state("change_username/tag", false, 5, 0, "59.5", "8699.5")+"]}")
		// One that is sent unchanged is free, also when nothing is left.
		same(t, "unchanged", c.allowance("change_username", `{"subject":{"account":"1","changed":false}}`), accepted+"]}")
		same(t, "a bot account by its owner", c.remaining("change_bot_username", `{"account":"1"}`), "false tag=0")
		c.take("change_voice_activity_sharing", `{"account":"1"}`, true)
		c.clock.Advance(23*time.Hour + 59*time.Minute + 59*time.Second - 500*time.Millisecond)
		a := c.take("change_voice_activity_sharing", `{"account":"1"}`, false)
		same(t, "seconds", fmt.Sprint(a.Body["errors"]), "[map[code:VOICE_ACTIVITY_SHARING_ON_COOLDOWN message:You have changed this setting only recently. Try again in 2 seconds. path:share_voice_activity]]")
	})
}
