package policy_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/policy"
)

var testKeys = policy.NewKeys([16]byte{1, 2, 3}, 1021)

const planPolicy = `
version: 1
global: {limit: 50, window: 1s, flags: {HIGH: 1200, MIDDLE: 600}}
bypass_flag: BYPASS
buckets:
  "plain": {limit: 10, window: 10s}
  "other": {limit: 10, window: 10s}
  "by:guild::guild_id": {limit: 10, window: 10s}
  "by:channel::channel_id": {limit: 10, window: 10s}
  "by:both::guild_id::channel_id": {limit: 10, window: 10s}
  "exempt": {limit: 10, window: 10s, exempt_from_global: true}
  "mail": {limit: 10, window: 1h, keyed_by: email, scope: shared}
  "only:mail": {limit: 10, window: 1h, keyed_by: email}
routes:
  GET /plain: ["plain"]
  GET /none: []
  GET /guilds/:guild_id: ["by:guild::guild_id"]
  GET /channels/:channel_id: ["by:channel::channel_id"]
  GET /both/:guild_id/:channel_id: ["by:both::guild_id::channel_id"]
  GET /literal: ["by:guild::guild_id"]
  POST /exempt: ["exempt"]
  POST /mixed: ["exempt", "plain"]
  POST /mail: ["mail", "plain", "other"]
  POST /maybe: ["plain", "exempt?group"]
  POST /only-maybe: ["plain?group"]
  POST /webhooks/:webhook_id/:token: ["exempt"]
`

func mustParse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, _, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func plan(t testing.TB, p *policy.Policy, req policy.Request) policy.Plan {
	t.Helper()
	plan, err := p.Plan(testKeys, &req)
	if err != nil {
		t.Fatalf("%+v: %v", req, err)
	}
	return plan
}

func names(plan policy.Plan) string {
	var out []string
	for i, b := range plan.Buckets {
		out = append(out, fmt.Sprintf("%s/%d", b.Name, plan.Checks[i].Rule.Limit()))
	}
	return strings.Join(out, " ")
}

func of[T any](v T) *T { return &v }

func session(account string) policy.Caller { return policy.Caller{Account: account, IP: "192.0.2.1"} }

// Which buckets a request counts, in which order, under which limit.
func TestPlanCounts(t *testing.T) {
	p := mustParse(t, planPolicy)
	alice := session("alice")
	for _, c := range []struct {
		name string
		req  policy.Request
		want string
	}{
		{"global first", policy.Request{Route: "GET /plain", Caller: alice}, "global/50 plain/10"},
		{"no bucket, nothing", policy.Request{Route: "GET /none", Caller: alice}, ""},
		{"a flag raises the global limit", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Flags: []string{"MIDDLE"}}}, "global/600 plain/10"},
		{"the highest flag wins", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Flags: []string{"HIGH", "MIDDLE", "UNKNOWN"}}}, "global/1200 plain/10"},
		{"flags need an account", policy.Request{Route: "GET /plain", Caller: policy.Caller{IP: "192.0.2.1", Flags: []string{"HIGH", "BYPASS"}}}, "global/50 plain/10"},
		{"bypass", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Flags: []string{"BYPASS"}}}, ""},
		{"exempt alone", policy.Request{Route: "POST /exempt", Caller: alice}, "exempt/10"},
		{"exempt beside another", policy.Request{Route: "POST /mixed", Caller: alice}, "global/50 exempt/10 plain/10"},
		{"e-mail last", policy.Request{Route: "POST /mail", Caller: alice, Email: "a@example.org"}, "global/50 plain/10 other/10 mail/10"},
		{"e-mail absent", policy.Request{Route: "POST /mail", Caller: alice}, "global/50 plain/10 other/10"},
		{"e-mail unusable", policy.Request{Route: "POST /mail", Caller: alice, Email: "  @"}, "global/50 plain/10 other/10"},
		{"condition unsaid", policy.Request{Route: "POST /maybe", Caller: alice}, "global/50 plain/10"},
		{"condition said", policy.Request{Route: "POST /maybe", Caller: alice, When: []string{"group"}}, "global/50 plain/10 exempt/10"},
		{"only a condition, unsaid", policy.Request{Route: "POST /only-maybe", Caller: alice}, "global/50"},
		{"named buckets in their order", policy.Request{Buckets: []string{"other", "mail", "plain"}, Caller: alice, Email: "a@b.c"}, "global/50 other/10 plain/10 mail/10"},
		{"named exempt bucket", policy.Request{Buckets: []string{"exempt"}, Caller: alice}, "exempt/10"},
	} {
		if got := names(plan(t, p, c.req)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Requests that must share every bucket, and requests that must share none.
func TestIdentities(t *testing.T) {
	p := mustParse(t, planPolicy)
	by := func(c policy.Caller) policy.Request { return policy.Request{Route: "GET /plain", Caller: c} }
	guild := func(v string) policy.Request {
		return policy.Request{Route: "GET /guilds/:guild_id", Caller: session("a"), Params: map[string]string{"guild_id": v}}
	}
	both := func(g, c string) policy.Request {
		return policy.Request{Route: "GET /both/:guild_id/:channel_id", Caller: session("a"), Params: map[string]string{"guild_id": g, "channel_id": c}}
	}
	same := map[string][2]policy.Request{
		"session unsaid":           {by(policy.Caller{Account: "a"}), by(policy.Caller{Account: "a", Credential: of("session")})},
		"address beside account":   {by(policy.Caller{Account: "a", IP: "192.0.2.1"}), by(policy.Caller{Account: "a", IP: "192.0.2.9"})},
		"application unsaid":       {by(policy.Caller{Account: "a", Credential: of("bearer")}), by(policy.Caller{Account: "a", Credential: of("bearer"), Application: "unknown"})},
		"application of a session": {by(policy.Caller{Account: "a", Application: "x"}), by(policy.Caller{Account: "a"})},
		"one /64":                  {by(policy.Caller{IP: "2001:db8::1"}), by(policy.Caller{IP: "2001:db8::ffff:1"})},
		"mapped IPv4":              {by(policy.Caller{IP: "::ffff:192.0.2.1"}), by(policy.Caller{IP: "192.0.2.1"})},
		"mapped IPv4 in hex":       {by(policy.Caller{IP: "::ffff:c000:201"}), by(policy.Caller{IP: "192.0.2.1"})},
		"bracketed mapped IPv4":    {by(policy.Caller{IP: "[::FFFF:192.0.2.1%eth0]"}), by(policy.Caller{IP: "192.0.2.1"})},
		"letter case":              {by(policy.Caller{IP: "2001:DB8::1"}), by(policy.Caller{IP: "2001:db8::1"})},
		"brackets":                 {by(policy.Caller{IP: "[2001:db8::1]"}), by(policy.Caller{IP: "2001:db8::1"})},
		"zone":                     {by(policy.Caller{IP: "fe80::1%eth0"}), by(policy.Caller{IP: "fe80::1%eth1"})},
		"leading zeros":            {by(policy.Caller{IP: "2001:0db8:0000::0001"}), by(policy.Caller{IP: "2001:db8::1"})},
		"ignored without account": {by(policy.Caller{IP: "192.0.2.1", Credential: of("bot"), Bot: of(true), Application: "x"}),
			by(policy.Caller{IP: "192.0.2.1"})},
		"e-mail case and space": {policy.Request{Buckets: []string{"only:mail"}, Caller: session("a"), Email: " Ann@Example.ORG\t"},
			policy.Request{Buckets: []string{"only:mail"}, Caller: session("a"), Email: "ann@example.org"}},
		"extra parameters": {guild("42"), policy.Request{Route: "GET /guilds/:guild_id", Caller: session("a"),
			Params: map[string]string{"guild_id": "42", "x": "y"}}},
		"route and bucket": {guild("42"), policy.Request{Buckets: []string{"by:guild::guild_id"}, Caller: session("a"),
			Params: map[string]string{"guild_id": "42"}}},
		"literal despite a parameter": {policy.Request{Route: "GET /literal", Caller: session("a")},
			policy.Request{Route: "GET /literal", Caller: session("a"), Params: map[string]string{"guild_id": "42"}}},
	}
	for name, pair := range same {
		a, b := plan(t, p, pair[0]), plan(t, p, pair[1])
		if len(a.Checks) == 0 || !reflect.DeepEqual(a.Checks, b.Checks) {
			t.Errorf("%s: %+v and %+v are to be one identity", name, a.Checks, b.Checks)
		}
	}

	distinct := []policy.Request{
		by(policy.Caller{Account: "a"}),
		by(policy.Caller{Account: "a", Credential: of("bot")}),
		by(policy.Caller{Account: "a", Credential: of("admin_api_key")}),
		by(policy.Caller{Account: "a", Credential: of("bearer")}),
		by(policy.Caller{Account: "a", Credential: of("bearer"), Application: "x"}),
		by(policy.Caller{Account: "a", Credential: of("bearer"), Application: "y"}),
		by(policy.Caller{Account: "ax", Credential: of("bearer")}),
		by(policy.Caller{Account: "192.0.2.1"}),
		by(policy.Caller{IP: "192.0.2.1"}),
		by(policy.Caller{IP: "192.0.2.2"}),
		by(policy.Caller{IP: "2001:db8::1"}),
		by(policy.Caller{IP: "2001:db8:0:1::1"}),
		by(policy.Caller{IP: "::c000:201"}), // IPv4-compatible, not IPv4-mapped
		guild("a"), guild("A"), guild("a:b"), guild("a|b"), guild("a_b"), guild("a/b"), guild("a\x00b"), guild("a\x00"),
		guild("🦆"), guild(strings.Repeat("x", 256)), guild(strings.Repeat("x", 255)), guild(":guild_id"), guild(" a"),
		both("a", "b"), both("ab", ""+"c"), both("a", "bc"), both("b", "a"), both("a:b", "c"), both("a", "b:c"),
		{Route: "GET /channels/:channel_id", Caller: session("a"), Params: map[string]string{"channel_id": "a"}},
		{Route: "GET /literal", Caller: session("a")},
		{Buckets: []string{"only:mail"}, Caller: session("a"), Email: "ann@example.org"},
		{Buckets: []string{"only:mail"}, Caller: session("a"), Email: "bob@example.org"},
	}
	seen := map[uint64]int{}
	for i, req := range distinct {
		checks := plan(t, p, req).Checks
		key := checks[len(checks)-1].Fingerprint
		if j, ok := seen[key]; ok {
			t.Errorf("%+v and %+v share a key", distinct[j], req)
		}
		seen[key] = i
	}
}

// The global and the route buckets of a caller live in one partition, whatever
// the resource; an e-mail's bucket in that of the address.
func TestOneCallerIsOneHop(t *testing.T) {
	p := mustParse(t, planPolicy)
	home := plan(t, p, policy.Request{Route: "GET /plain", Caller: session("a")}).Checks[0].Partition
	for i := range 50 {
		checks := plan(t, p, policy.Request{Route: "GET /guilds/:guild_id", Caller: session("a"),
			Params: map[string]string{"guild_id": fmt.Sprint(i)}}).Checks
		for _, c := range checks {
			if c.Partition != home {
				t.Fatalf("guild %d is in partition %d, the caller in %d", i, c.Partition, home)
			}
		}
	}
	byMail := func(account string) uint32 {
		checks := plan(t, p, policy.Request{Buckets: []string{"only:mail"}, Caller: session(account), Email: "x@example.org"}).Checks
		return checks[len(checks)-1].Partition
	}
	if byMail("a") != byMail("b") {
		t.Fatal("one address, two places")
	}
}

func TestSecretAndWindowChangeTheKey(t *testing.T) {
	p := mustParse(t, planPolicy)
	req := policy.Request{Route: "GET /plain", Caller: session("a")}
	a, _ := p.Plan(testKeys, &req)
	b, _ := p.Plan(policy.NewKeys([16]byte{9}, 1021), &req)
	if a.Checks[1].Fingerprint == b.Checks[1].Fingerprint {
		t.Error("the secret does not enter the key")
	}
	wider := mustParse(t, strings.Replace(planPolicy, `"plain": {limit: 10, window: 10s}`, `"plain": {limit: 10, window: 20s}`, 1))
	limit := mustParse(t, strings.Replace(planPolicy, `"plain": {limit: 10, window: 10s}`, `"plain": {limit: 99, window: 10s}`, 1))
	if plan(t, wider, req).Checks[1].Fingerprint == a.Checks[1].Fingerprint {
		t.Error("the window does not enter the key")
	}
	if plan(t, limit, req).Checks[1].Fingerprint != a.Checks[1].Fingerprint {
		t.Error("the limit enters the key")
	}
}

func TestForbidden(t *testing.T) {
	optional := mustParse(t, planPolicy)
	required := mustParse(t, planPolicy+"client_ip: {required: true}\n")
	off := mustParse(t, planPolicy+"switches: {disable_rate_limits: true}\n")
	for _, c := range []struct {
		name   string
		policy *policy.Policy
		route  string
		caller policy.Caller
		want   bool
	}{
		{"nobody", optional, "GET /plain", policy.Caller{}, true},
		{"nobody, bucketless route", optional, "GET /none", policy.Caller{}, true},
		{"nobody, limits off", off, "GET /plain", policy.Caller{}, true},
		{"no address", optional, "GET /plain", policy.Caller{IP: "unknown"}, true},
		{"leading zeros in IPv4 may be octal", optional, "GET /plain", policy.Caller{IP: "192.0.2.01"}, true},
		{"half a bracket", optional, "GET /plain", policy.Caller{IP: "[2001:db8::1"}, true},
		{"account without address", optional, "GET /plain", policy.Caller{Account: "a"}, false},
		{"account with bad address", optional, "GET /plain", policy.Caller{Account: "a", IP: "x"}, false},
		{"required, account without address", required, "GET /plain", policy.Caller{Account: "a"}, true},
		{"required, bad address", required, "GET /plain", policy.Caller{Account: "a", IP: "x"}, true},
		{"required, bypass", required, "GET /plain", policy.Caller{Account: "a", Flags: []string{"BYPASS"}}, true},
		{"required, address", required, "GET /plain", policy.Caller{Account: "a", IP: "192.0.2.1"}, false},
	} {
		got := plan(t, c.policy, policy.Request{Route: c.route, Caller: c.caller})
		if got.Forbidden != c.want || c.want && len(got.Checks) != 0 {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestEffectsAndSuccessHeaders(t *testing.T) {
	p := mustParse(t, planPolicy)
	hook := "POST /webhooks/:webhook_id/:token"
	for _, c := range []struct {
		name            string
		req             policy.Request
		revoke, headers bool
	}{
		{"session", policy.Request{Route: "GET /plain", Caller: session("a")}, true, false},
		{"bot", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Credential: of("bot")}}, false, true},
		{"bot account by session", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Bot: of(true)}}, false, true},
		{"bot credential, not a bot", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Credential: of("bot"), Bot: of(false)}}, false, false},
		{"bearer", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Credential: of("bearer")}}, false, false},
		{"admin key", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Credential: of("admin_api_key")}}, false, false},
		{"no account", policy.Request{Route: "GET /plain", Caller: policy.Caller{IP: "192.0.2.1", Bot: of(true)}}, false, false},
		{"no account, webhook", policy.Request{Route: hook, Caller: policy.Caller{IP: "192.0.2.1"}}, false, true},
		{"account, webhook", policy.Request{Route: hook, Caller: session("a")}, true, false},
		{"no account, webhook by buckets", policy.Request{Buckets: []string{"exempt"}, Caller: policy.Caller{IP: "192.0.2.1"},
			Params: map[string]string{"webhook_id": "1", "token": "x"}}, false, true},
		{"no account, webhook without token", policy.Request{Buckets: []string{"exempt"}, Caller: policy.Caller{IP: "192.0.2.1"},
			Params: map[string]string{"webhook_id": "1"}}, false, false},
		{"no account, parameters of another route", policy.Request{Route: "GET /plain", Caller: policy.Caller{IP: "192.0.2.1"},
			Params: map[string]string{"webhook_id": "1", "token": "x"}}, false, false},
	} {
		got := plan(t, p, c.req)
		if got.RevokeSession != c.revoke || got.SuccessHeaders != c.headers {
			t.Errorf("%s: revoke %v headers %v, want %v %v", c.name, got.RevokeSession, got.SuccessHeaders, c.revoke, c.headers)
		}
	}
}

func TestTestMode(t *testing.T) {
	p := mustParse(t, planPolicy+"test_mode: true\n")
	req := func(test *policy.Test) policy.Request {
		return policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Flags: []string{"HIGH"}}, Test: test}
	}
	for _, c := range []struct {
		test *policy.Test
		want string
	}{
		{nil, ""},
		{&policy.Test{}, ""},
		{&policy.Test{GlobalLimit: of(int64(3))}, ""},
		{&policy.Test{Enforce: true}, "global/1200 plain/10"},
		{&policy.Test{Enforce: true, GlobalLimit: of(int64(3))}, "global/3 plain/10"},
	} {
		if got := names(plan(t, p, req(c.test))); got != c.want {
			t.Errorf("%+v: %q, want %q", c.test, got, c.want)
		}
	}
	nobody := policy.Request{Route: "GET /plain"}
	if plan(t, p, nobody).Forbidden {
		t.Error("test mode enforces the 403 unasked")
	}
	nobody.Test = &policy.Test{Enforce: true}
	if !plan(t, p, nobody).Forbidden {
		t.Error("the 403 is not enforced when asked")
	}
	// The same bucket, whatever its limit.
	a := plan(t, p, req(&policy.Test{Enforce: true}))
	b := plan(t, p, req(&policy.Test{Enforce: true, GlobalLimit: of(int64(3))}))
	if a.Checks[0].Fingerprint != b.Checks[0].Fingerprint {
		t.Error("another global limit is another bucket")
	}
}

func TestBadRequests(t *testing.T) {
	p := mustParse(t, planPolicy)
	testing1 := mustParse(t, planPolicy+"test_mode: true\n")
	long := strings.Repeat("x", 257)
	alice := session("alice")
	for _, c := range []struct {
		policy *policy.Policy
		req    policy.Request
		field  string
	}{
		{p, policy.Request{Caller: alice}, "route"},
		{p, policy.Request{Route: "GET /plain", Buckets: []string{"plain"}, Caller: alice}, "buckets"},
		{p, policy.Request{Buckets: []string{}, Caller: alice}, "buckets"},
		{p, policy.Request{Buckets: []string{"nope"}, Caller: alice}, "buckets"},
		{p, policy.Request{Buckets: []string{"exempt?group"}, Caller: alice}, "buckets"},
		{p, policy.Request{Buckets: []string{"global"}, Caller: alice}, "buckets"},
		{p, policy.Request{Buckets: make([]string, 65), Caller: alice}, "buckets"},
		{p, policy.Request{Route: "get /plain", Caller: alice}, "route"},
		{p, policy.Request{Route: "GET /plain\x00", Caller: alice}, "route"},
		{p, policy.Request{Route: "GET /guilds/:guild_id", Caller: alice}, "params.guild_id"},
		{p, policy.Request{Buckets: []string{"by:guild::guild_id"}, Caller: alice}, "params.guild_id"},
		{p, policy.Request{Route: "GET /plain", Caller: alice, Params: map[string]string{"x": ""}}, "params.x"},
		{p, policy.Request{Route: "GET /plain", Caller: alice, Params: map[string]string{"x": long}}, "params.x"},
		{p, policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: long}}, "caller.account"},
		{p, policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Application: long}}, "caller.application"},
		{p, policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Credential: of("user")}}, "caller.credential"},
		{p, policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Credential: of("")}}, "caller.credential"},
		{p, policy.Request{Route: "GET /plain", Caller: alice, When: []string{"nope"}}, "when"},
		{p, policy.Request{Route: "GET /plain", Caller: alice, Test: &policy.Test{}}, "test"},
		{testing1, policy.Request{Route: "GET /plain", Caller: alice, Test: &policy.Test{Enforce: true, GlobalLimit: of(int64(0))}}, "test.global_limit"},
		{testing1, policy.Request{Route: "GET /plain", Caller: alice, Test: &policy.Test{GlobalLimit: of(int64(1_000_001))}}, "test.global_limit"},
	} {
		_, err := c.policy.Plan(testKeys, &c.req)
		var field *policy.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%+v: %v, want an error of %s", c.req, err, c.field)
		}
	}
}

func TestPolicyWithoutGlobal(t *testing.T) {
	p := mustParse(t, "version: 1\nbuckets: {a: {limit: 1, window: 1s}}\nroutes: {GET /a: [a]}\n")
	got := plan(t, p, policy.Request{Route: "GET /a", Caller: session("x")})
	if names(got) != "a/1" || got.Checks[0].Rule.Window() != time.Second || got.Checks[0].Cost != 1 {
		t.Fatalf("%s: %+v", names(got), got.Checks)
	}
}
