package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/policy"
)

// The statements of the contract, over HTTP, with literal answers.

const (
	english    = "You are doing that too often. Please wait a moment and try again."
	portuguese = "Você está fazendo isso com muita frequência. Aguarde um momento e tente de novo."
)

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func TestBotOnARouteBucket(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		request := `{"route":"GET /guilds/:guild_id/emojis","params":{"guild_id":"42"},` +
			`"caller":{"account":"1001","credential":"bot","bot":true,"flags":["HIGH_GLOBAL_RATE_LIMIT"],"ip":"203.0.113.7"}}`
		answer := c.decide(array(61, request))
		same(t, "the first of 61", answer[:strings.Index(answer, `,{"allowed"`)],
			`[{"allowed":true,"headers":{"X-RateLimit-Limit":"60","X-RateLimit-Remaining":"59","X-RateLimit-Reset":"1767225601",`+
				`"X-RateLimit-Reset-After":"0.167","X-RateLimit-Bucket":"5774a862370bd84e"},"effects":[],"degraded":false,"buckets":[`+
				`{"bucket":"global","allowed":true,"limit":1200,"remaining":1199,"retry_after":0,"reset_after":0.001},`+
				`{"bucket":"guild:emojis:list::guild_id","allowed":true,"limit":60,"remaining":59,"retry_after":0,"reset_after":0.167}]}`)
		same(t, "the 61st", answer[strings.LastIndex(answer, `{"allowed":false,"status"`):],
			`{"allowed":false,"status":429,"headers":{"Retry-After":"1","X-RateLimit-Scope":"user","X-RateLimit-Limit":"60",`+
				`"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1767225610","X-RateLimit-Reset-After":"10","X-RateLimit-Bucket":"5774a862370bd84e"},`+
				`"body":{"code":"RATE_LIMITED","message":"`+english+`","global":false,"retry_after":0.167},"effects":[],"degraded":false,"buckets":[`+
				`{"bucket":"global","allowed":true,"limit":1200,"remaining":1139,"retry_after":0,"reset_after":0.051},`+
				`{"bucket":"guild:emojis:list::guild_id","allowed":false,"limit":60,"remaining":0,"retry_after":0.167,"reset_after":10}]}]`)
		all := parse[[]answered](t, answer)
		for i, a := range all[:60] {
			if !a.Allowed {
				t.Fatalf("request %d of 61 refused", i+1)
			}
		}
		// Who waits exactly retry_after is admitted; a millisecond before, not.
		c.clock.Advance(166 * time.Millisecond)
		if parse[answered](t, c.decide(request)).Allowed {
			t.Error("admitted a millisecond early")
		}
		c.clock.Advance(time.Millisecond)
		if !parse[answered](t, c.decide(request)).Allowed {
			t.Error("refused after retry_after")
		}
	})
}

func TestGlobalRefusal(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		refusal := func(effects string) string {
			return `{"allowed":false,"status":429,"headers":{"Retry-After":"1","X-RateLimit-Scope":"global","X-RateLimit-Global":"true"},` +
				`"body":{"code":"RATE_LIMITED","message":"` + english + `","global":true,"retry_after":0.02},"effects":[` + effects + `],` +
				`"degraded":false,"buckets":[{"bucket":"global","allowed":false,"limit":50,"remaining":0,"retry_after":0.02,"reset_after":1}]}`
		}
		for _, caller := range []struct{ json, effects string }{
			{`{"account":"g1","ip":"192.0.2.1"}`, `"revoke_session"`},
			{`{"account":"g2","credential":"session"}`, `"revoke_session"`},
			{`{"account":"g2","credential":"session","bot":true}`, ""}, // the same bucket as above
			{`{"account":"g1","credential":"bot"}`, ""},
			{`{"account":"g1","credential":"bearer"}`, ""},
			{`{"account":"g1","credential":"admin_api_key"}`, ""},
			{`{"ip":"192.0.2.200"}`, ""},
		} {
			request := `{"route":"GET /experiments","caller":` + caller.json + `}`
			for i, a := range c.decideMany(50, request) {
				if !a.Allowed && !strings.Contains(caller.json, `"bot":true`) {
					t.Fatalf("%s: request %d of 50 refused", caller.json, i+1)
				}
			}
			same(t, caller.json, c.decide(request), refusal(caller.effects))
			// The route bucket was not reached: 60 - 50 are left.
			same(t, caller.json, c.left(request), "global=0 default=10")
		}
	})
}

func TestHighGlobalLimit(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		// 1,200 requests over twenty resources of 60 each.
		for _, account := range []string{"h1", "h2"} {
			allowed := 0
			for guild := range 21 {
				request := fmt.Sprintf(`{"route":"GET /guilds/:guild_id/emojis","params":{"guild_id":"%d"},`+
					`"caller":{"account":"%s","flags":["HIGH_GLOBAL_RATE_LIMIT","WHATEVER"]}}`, guild, account)
				for _, a := range c.decideMany(60, request) {
					if a.Allowed {
						allowed++
					}
				}
			}
			if allowed != 1200 {
				t.Errorf("allowed %d, want 1200", allowed)
			}
		}
		// It is the same bucket under another limit: without the flag the
		// account is exhausted, too.
		a := parse[answered](t, c.decide(`{"route":"GET /experiments","caller":{"account":"h1"}}`))
		if a.Allowed || a.Body["global"] != true || a.Buckets[0].Limit != 50 {
			t.Errorf("without the flag: %+v", a)
		}
		// Half used stays half used: 600 of 1,200 is 25 of 50.
		for guild := range 10 {
			c.decideMany(60, fmt.Sprintf(`{"route":"GET /guilds/:guild_id/emojis","params":{"guild_id":"%d"},`+
				`"caller":{"account":"h3","flags":["HIGH_GLOBAL_RATE_LIMIT"]}}`, guild))
		}
		same(t, "half used", c.left(`{"route":"GET /experiments","caller":{"account":"h3"}}`), "global=25 default=60")
	})
}

func TestOrderAndWhatStaysSpent(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		// A route refusal has spent a global unit.
		login := `{"route":"POST /auth/login","caller":{"ip":"192.0.2.10"}}`
		all := c.decideMany(12, login)
		if !all[9].Allowed || all[10].Allowed || all[11].Allowed {
			t.Errorf("10 of 12 are to be allowed: %+v", all)
		}
		same(t, "after a route refusal", c.left(login), "global=38 auth:login=0")

		// Two buckets of a route: both are spent, the first refusal ends it.
		both := `{"route":"DELETE /guilds/:guild_id/emojis/:emoji_id","params":{"guild_id":"7","emoji_id":"8"},"caller":{"account":"o1"}}`
		all = c.decideMany(11, both)
		if !all[9].Allowed || all[10].Allowed || len(all[10].Buckets) != 2 {
			t.Errorf("the 11th is to be refused by the first of two: %+v", all[10])
		}
		same(t, "two buckets", c.left(both), "global=39 guild:emoji:delete::guild_id=0 guild:emoji:delete:daily::guild_id=290")
		if h := all[0].Headers; len(h) != 0 {
			t.Errorf("a session gets no success headers: %v", h)
		}
	})
}

func TestExemptBuckets(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		hook := `{"route":"POST /webhooks/:webhook_id/:token","params":{"webhook_id":"5","token":"t"},"caller":{"ip":"192.0.2.20"}}`
		answer := c.decide(hook)
		same(t, "webhook", answer, `{"allowed":true,"headers":{"X-RateLimit-Limit":"60","X-RateLimit-Remaining":"59","X-RateLimit-Reset":"1767225601",`+
			`"X-RateLimit-Reset-After":"1","X-RateLimit-Bucket":"8d2045d6e1c99d73"},"effects":[],"degraded":false,"buckets":[`+
			`{"bucket":"webhook:execute::webhook_id","allowed":true,"limit":60,"remaining":59,"retry_after":0,"reset_after":1}]}`)
		if all := c.decideMany(60, hook); !all[58].Allowed || all[59].Allowed {
			t.Error("60 are to be allowed, the 61st not")
		}
		same(t, "no global unit spent", c.left(`{"route":"GET /experiments","caller":{"ip":"192.0.2.20"}}`), "global=50 default=60")

		// An exempt bucket beside one that is not: the request counts once.
		group := `{"route":"POST /users/@me/channels","when":["group"],"caller":{"account":"e1"}}`
		c.decide(group)
		same(t, "conditional, said", c.left(group), "global=49 user:channels=39 user:group_dm:create=9")
		direct := `{"route":"POST /users/@me/channels","caller":{"account":"e1"}}`
		c.decide(direct)
		same(t, "conditional, unsaid", c.left(direct), "global=48 user:channels=38")
		same(t, "conditional, untouched", c.left(group), "global=48 user:channels=38 user:group_dm:create=9")
		add := `{"route":"PUT /channels/:channel_id/recipients/:user_id","params":{"channel_id":"1","user_id":"2"},"caller":{"account":"e2"}}`
		c.decide(add)
		same(t, "recipient", c.left(add), "global=49 channel:update::channel_id=19 user:group_dm:recipient:add=9")
	})
}

func TestBypass(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		request := `{"route":"POST /donations/checkout","email":"b@example.org","caller":{"account":"b1","credential":"bot","flags":["RATE_LIMIT_BYPASS"]}}`
		const free = `{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[]}`
		for range 3 {
			same(t, "bypass", c.decide(request), free)
		}
		same(t, "bypass, peek", c.decide(strings.TrimSuffix(request, "}")+`,"peek":true}`), free)
		same(t, "nothing consumed", c.left(`{"route":"POST /donations/checkout","email":"b@example.org","caller":{"account":"b1","credential":"bot"}}`),
			"global=50 donation:checkout=5 donation:checkout:email=10")
		// Flags are ignored without an account.
		c.decide(`{"route":"GET /experiments","caller":{"ip":"192.0.2.30","flags":["RATE_LIMIT_BYPASS"]}}`)
		same(t, "no account", c.left(`{"route":"GET /experiments","caller":{"ip":"192.0.2.30"}}`), "global=49 default=59")
		// A route without bucket touches nothing.
		same(t, "no bucket", c.decide(`{"route":"GET /_health","caller":{"account":"b2"}}`), free)
		same(t, "no bucket, catch-all", c.decide(`{"route":"GET /dl/*","caller":{"ip":"192.0.2.31"}}`), free)
		same(t, "nothing touched", c.left(`{"route":"GET /experiments","caller":{"account":"b2"}}`), "global=50 default=60")
	})
}

func TestIdentitiesApartAndTogether(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		left := func(caller string) string {
			t.Helper()
			return c.left(`{"route":"GET /experiments","caller":` + caller + `}`)
		}
		spend := func(caller string) { c.decide(`{"route":"GET /experiments","caller":` + caller + `}`) }
		const fresh, once, twice = "global=50 default=60", "global=49 default=59", "global=48 default=58"

		spend(`{"account":"i1"}`)
		same(t, "session", left(`{"account":"i1","credential":"session","ip":"198.51.100.9"}`), once)
		for _, other := range []string{
			`{"account":"i1","credential":"bot"}`,
			`{"account":"i1","credential":"admin_api_key"}`,
			`{"account":"i1","credential":"bearer"}`,
			`{"account":"i1","credential":"bearer","application":"app1"}`,
			`{"account":"i2"}`,
		} {
			same(t, other, left(other), fresh)
		}
		spend(`{"account":"i1","credential":"bearer","application":"app1"}`)
		same(t, "one application", left(`{"account":"i1","credential":"bearer","application":"app1"}`), once)
		same(t, "the other", left(`{"account":"i1","credential":"bearer","application":"app2"}`), fresh)
		spend(`{"account":"i1","credential":"bearer"}`)
		same(t, "unsaid is unknown", left(`{"account":"i1","credential":"bearer","application":"unknown"}`), once)

		spend(`{"ip":"2001:db8:1:2::1"}`)
		same(t, "one /64", left(`{"ip":"2001:DB8:1:2:ffff::9"}`), once)
		same(t, "the next /64", left(`{"ip":"2001:db8:1:3::1"}`), fresh)
		spend(`{"ip":"[2001:db8:1:2::7]"}`)
		same(t, "brackets", left(`{"ip":"2001:0db8:0001:0002::1%eth0"}`), twice)
		spend(`{"ip":"::ffff:198.51.100.1"}`)
		same(t, "mapped", left(`{"ip":"198.51.100.1"}`), once)
		same(t, "another IPv4", left(`{"ip":"198.51.100.2"}`), fresh)

		// Without account the rest of the caller is ignored.
		spend(`{"ip":"198.51.100.1","credential":"bot","bot":true,"application":"x","flags":["HIGH_GLOBAL_RATE_LIMIT"]}`)
		same(t, "ignored", left(`{"account":"","ip":"198.51.100.1"}`), twice)
	})
}

func TestPlaceholders(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		guild := func(id string) string {
			return `{"route":"GET /guilds/:guild_id/emojis","params":{"guild_id":"` + id + `"},"caller":{"account":"p1"}}`
		}
		c.decide(guild("42"))
		same(t, "this guild", c.left(guild("42")), "global=49 guild:emojis:list::guild_id=59")
		same(t, "another", c.left(guild("43")), "global=49 guild:emojis:list::guild_id=60")
		same(t, "by bucket", c.left(`{"buckets":["guild:emojis:list::guild_id"],"params":{"guild_id":"42","more":"x"},"caller":{"account":"p1"}}`),
			"global=49 guild:emojis:list::guild_id=59")
		for _, id := range []string{"4:2", "4|2", "4_2", "4/2", `4\u00002`, "🦆", strings.Repeat("4", 256), ":guild_id"} {
			same(t, id, c.left(guild(id)), "global=49 guild:emojis:list::guild_id=60")
		}
		// A placeholder that the route does not have stays a literal, equal to
		// no value, though the request names one.
		emoji := `{"route":"GET /emojis/:emoji_id/metadata","params":{"emoji_id":"1","user_id":"9"},"caller":{"account":"p2"}}`
		c.decide(emoji)
		same(t, "literal", c.left(`{"route":"GET /emojis/:emoji_id/metadata","params":{"emoji_id":"2"},"caller":{"account":"p2"}}`),
			"global=49 guild:emoji:metadata::user_id=59")
		for _, value := range []string{"9", ":user_id", "user_id"} {
			same(t, "value "+value, c.left(`{"buckets":["guild:emoji:metadata::user_id"],"params":{"user_id":"`+value+`"},"caller":{"account":"p2"}}`),
				"global=49 guild:emoji:metadata::user_id=60")
		}
	})
}

func TestEmailBucket(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		// Another account each time, so that only the address's bucket fills:
		// 10 per hour, T = 360 s.
		checkout := func(account int, email string) string {
			return fmt.Sprintf(`{"route":"POST /donations/checkout","email":"%s","caller":{"account":"m%d","credential":"bot"}}`, email, account)
		}
		for i := range 10 {
			a := parse[answered](t, c.decide(checkout(i, " Ann@Example.ORG ")))
			if !a.Allowed || len(a.Buckets) != 3 || a.Buckets[2].Remaining != int64(9-i) {
				t.Fatalf("address used %d times: %+v", i+1, a)
			}
			// Success headers tell of the last route bucket, never the e-mail's.
			if a.Headers["X-RateLimit-Bucket"] != "4f85c161d7cace14" || a.Headers["X-RateLimit-Remaining"] != "4" {
				t.Fatalf("headers of a success: %v", a.Headers)
			}
		}
		same(t, "the 11th", c.decide(checkout(10, "ann@example.org")),
			`{"allowed":false,"status":429,"headers":{"Retry-After":"360","X-RateLimit-Scope":"shared","X-RateLimit-Limit":"10",`+
				`"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1767229200","X-RateLimit-Reset-After":"3600","X-RateLimit-Bucket":"5cb238707e44b098"},`+
				`"body":{"code":"RATE_LIMITED","message":"`+english+`","global":false,"retry_after":360},"effects":[],"degraded":false,"buckets":[`+
				`{"bucket":"global","allowed":true,"limit":50,"remaining":49,"retry_after":0,"reset_after":0.02},`+
				`{"bucket":"donation:checkout","allowed":true,"limit":5,"remaining":4,"retry_after":0,"reset_after":12},`+
				`{"bucket":"donation:checkout:email","allowed":false,"limit":10,"remaining":0,"retry_after":360,"reset_after":3600}]}`)
		same(t, "another address", c.left(checkout(11, "bob@example.org")), "global=50 donation:checkout=5 donation:checkout:email=10")
		for _, unusable := range []string{"", "   ", "@", "nobody"} {
			same(t, "unusable "+unusable, c.left(checkout(12, unusable)), "global=50 donation:checkout=5")
		}
	})
}

func TestArrayAcrossOwnersKeepsItsOrder(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		// Twelve accounts spend one address: the first ten in the array's
		// order get it, wherever the accounts live.
		var requests []string
		for i := range 12 {
			requests = append(requests, fmt.Sprintf(`{"route":"POST /donations/request-link","email":"o@example.org","caller":{"account":"x%d"}}`, i))
		}
		for i, a := range parse[[]answered](t, c.decide("["+strings.Join(requests, ",")+"]")) {
			if a.Allowed != (i < 10) || len(a.Buckets) != 3 {
				t.Errorf("element %d: %+v", i, a)
			}
		}
		// A bad element is an error at its place and takes nothing.
		mixed := `[{"route":"GET /experiments","caller":{"account":"x20"}},{"route":"GET /nope","caller":{"account":"x20"}},` +
			`{"route":"GET /experiments","caller":{"account":"x20"},"colour":"red"},{"route":"GET /experiments","caller":{"account":"x20"},"peek":true},` +
			`{"route":"GET /experiments","caller":{"account":"x20"}}]`
		all := parse[[]answered](t, c.decide(mixed))
		if !all[0].Allowed || all[1].Error["field"] != "route" || all[2].Error["field"] != "colour" ||
			all[3].Buckets[0].Remaining != 49 || all[4].Buckets[0].Remaining != 48 {
			t.Errorf("%+v", all)
		}
	})
}

func TestPeek(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		request := `{"route":"GET /experiments","caller":{"account":"k1","credential":"bot"}}`
		peek := strings.TrimSuffix(request, "}") + `,"peek":true}`
		const empty = `{"allowed":true,"headers":{"X-RateLimit-Limit":"60","X-RateLimit-Remaining":"60","X-RateLimit-Reset":"1767225601",` +
			`"X-RateLimit-Reset-After":"0","X-RateLimit-Bucket":"37a8eec1ce19687d"},"effects":[],"degraded":false,"buckets":[` +
			`{"bucket":"global","allowed":true,"limit":50,"remaining":50,"retry_after":0,"reset_after":0},` +
			`{"bucket":"default","allowed":true,"limit":60,"remaining":60,"retry_after":0,"reset_after":0}]}`
		for range 3 {
			same(t, "nothing is taken", c.decide(peek), empty)
		}
		// After the first refusal every bucket is looked at still, and a
		// session's peek revokes nothing.
		session := `{"route":"GET /experiments","caller":{"account":"k2"}}`
		c.decideMany(50, session)
		same(t, "refused", c.decide(strings.TrimSuffix(session, "}")+`,"peek":true}`),
			`{"allowed":false,"status":429,"headers":{"Retry-After":"1","X-RateLimit-Scope":"global","X-RateLimit-Global":"true"},`+
				`"body":{"code":"RATE_LIMITED","message":"`+english+`","global":true,"retry_after":0.02},"effects":[],"degraded":false,"buckets":[`+
				`{"bucket":"global","allowed":false,"limit":50,"remaining":0,"retry_after":0.02,"reset_after":1},`+
				`{"bucket":"default","allowed":true,"limit":60,"remaining":10,"retry_after":0,"reset_after":8.334}]}`)
		c.clock.Advance(20 * time.Millisecond)
		if !parse[answered](t, c.decide(session)).Allowed {
			t.Error("peeks delayed the next admission")
		}
	})
}

func TestForbiddenAnswer(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		const english = `{"allowed":false,"status":403,"headers":{},"body":{"code":"FORBIDDEN","message":"You are not allowed to do that."},"effects":[],"degraded":false,"buckets":[]}`
		same(t, "nobody", c.decide(`{"route":"GET /experiments"}`), english)
		same(t, "no usable address", c.decide(`{"route":"GET /experiments","caller":{"ip":"not-an-address"}}`), english)
		same(t, "no bucket", c.decide(`{"route":"GET /_health","caller":{"account":""}}`), english)
		same(t, "in Portuguese", c.decide(`{"route":"GET /experiments","locale":"pt-BR"}`),
			strings.Replace(english, "You are not allowed to do that.", "Você não tem permissão para fazer isso.", 1))
	})
	required := func(t testing.TB) *policy.Policy {
		return customPolicy(t, "version: 1\nclient_ip: {required: true}\nbypass_flag: FREE\nswitches: {disable_rate_limits: true}\n"+
			"buckets: {a: {limit: 1, window: 1s}}\nroutes: {GET /a: [a], GET /none: []}\n")
	}
	onOneAndThree(t, required, func(t *testing.T, c *testCluster) {
		for _, route := range []string{"GET /a", "GET /none"} {
			for _, caller := range []string{`{"account":"a"}`, `{"account":"a","flags":["FREE"]}`, `{"account":"a","ip":"x"}`} {
				if a := parse[answered](t, c.decide(`{"route":"`+route+`","caller":`+caller+`}`)); a.Status != 403 {
					t.Errorf("%s %s: %+v", route, caller, a)
				}
			}
		}
	})
}

func TestMessagesAreLocalised(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		exhaust := `{"route":"POST /auth/login","caller":{"ip":"192.0.2.50"}}`
		c.decideMany(10, exhaust)
		for _, m := range []struct{ members, want string }{
			{``, english},
			{`,"locale":"pt-BR"`, portuguese},
			{`,"locale":"xx","accept_language":"pt;q=0.8, en;q=0.5"`, portuguese},
			{`,"accept_language":"en;q=0.8, pt-BR;q=0.9"`, portuguese},
			{`,"accept_language":"tlh"`, english},
			{`,"locale":"en-US","accept_language":"pt-BR"`, english},
		} {
			a := parse[answered](t, c.decide(strings.TrimSuffix(exhaust, "}")+m.members+"}"))
			if a.Body["message"] != m.want {
				t.Errorf("%s: %v", m.members, a.Body["message"])
			}
		}
	})
}

func TestSwitchTurnsEverythingOff(t *testing.T) {
	rules := func(t testing.TB) *policy.Policy {
		return customPolicy(t, string(defaultPolicy(t).Source())+"\nswitches: {disable_rate_limits: true}\n")
	}
	onOneAndThree(t, rules, func(t *testing.T, c *testCluster) {
		for _, request := range []string{
			`{"route":"GET /experiments","caller":{"account":"s1","credential":"bot"}}`,
			`{"route":"POST /donations/checkout","email":"a@b.c","caller":{"account":"s1"}}`,
		} {
			for range 3 {
				same(t, request, c.decide(request), `{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[]}`)
			}
		}
	})
}

func TestTestMode(t *testing.T) {
	rules := func(t testing.TB) *policy.Policy {
		return customPolicy(t, "version: 1\ntest_mode: true\nglobal: {limit: 50, window: 1s, flags: {HIGH: 1200}}\n"+
			"buckets: {a: {limit: 10, window: 10s}}\nroutes: {GET /a: [a]}\n")
	}
	onOneAndThree(t, rules, func(t *testing.T, c *testCluster) {
		const free = `{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[]}`
		for range 60 {
			same(t, "unasked", c.decide(`{"route":"GET /a","caller":{"account":"t1","credential":"bot"}}`), free)
		}
		same(t, "nobody, unasked", c.decide(`{"route":"GET /a"}`), free)
		same(t, "said not to", c.decide(`{"route":"GET /a","caller":{"account":"t1"},"test":{"enforce":false}}`), free)
		enforced := `{"route":"GET /a","caller":{"account":"t1","flags":["HIGH"]},"test":{"enforce":true,"global_limit":3}}`
		all := c.decideMany(4, enforced)
		if !all[2].Allowed || all[3].Allowed || all[3].Body["global"] != true || all[3].Buckets[0].Limit != 3 {
			t.Errorf("global limit 3: %+v", all)
		}
		if a := parse[answered](t, c.decide(`{"route":"GET /a","test":{"enforce":true}}`)); a.Status != 403 {
			t.Errorf("nobody, enforced: %+v", a)
		}
	})
}

// The wall second that a bucket is empty in is never the current one.
func TestResetIsAlwaysLater(t *testing.T) {
	onOneAndThree(t, defaultPolicy, func(t *testing.T, c *testCluster) {
		request := `{"route":"GET /experiments","caller":{"account":"r1","credential":"bot"}}`
		for _, step := range []struct {
			at   time.Duration // since the epoch
			want string
		}{
			{0, "1767225601"},                      // 0.167 later is this second still
			{900 * time.Millisecond, "1767225601"}, // drained and taken again: 1.067
			{1833 * time.Millisecond, "1767225602"},
			{60 * time.Second, "1767225661"},
		} {
			c.clock.ns.Store(epoch*int64(time.Second) + int64(step.at))
			if a := parse[answered](t, c.decide(request)); a.Headers["X-RateLimit-Reset"] != step.want {
				t.Errorf("at %s: %v", step.at, a.Headers)
			}
		}
	})
}
