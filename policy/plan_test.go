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
global: {limit: 50, window: 1s, flags: {MIDDLE: 600, HIGH: 1200, LOW: 20}}
bypass_flag: BYPASS
buckets:
  "plain": {limit: 10, window: 10s}
  "other": {limit: 20, window: 20s}
  "by:guild::guild_id": {limit: 10, window: 10s}
  "by:channel::channel_id": {limit: 10, window: 10s}
  "by:both::guild_id::channel_id": {limit: 10, window: 10s}
  "exempt": {limit: 30, window: 30s, exempt_from_global: true}
  "mail": {limit: 3, window: 1h, keyed_by: email, scope: shared}
  "only:mail": {limit: 4, window: 2h, keyed_by: email}
  "free:mail": {limit: 5, window: 3h, keyed_by: email, exempt_from_global: true}
  "free:mail:too": {limit: 5, window: 3h, keyed_by: email, exempt_from_global: true}
routes:
  GET /plain: ["plain"]
  GET /none: []
  GET /guilds/:guild_id: ["by:guild::guild_id"]
  GET /channels/:channel_id: ["by:channel::channel_id"]
  GET /both/:guild_id/:channel_id: ["by:both::guild_id::channel_id"]
  GET /literal: ["by:guild::guild_id"]
  GET /first/:guild_id: ["by:both::guild_id::channel_id"]
  GET /second/:channel_id: ["by:both::guild_id::channel_id"]
  POST /exempt: ["exempt"]
  POST /mixed: ["exempt", "plain"]
  POST /mail: ["mail", "plain", "other"]
  POST /maybe: ["plain", "exempt?group"]
  POST /only-maybe: ["plain?group"]
  POST /maybe-first: ["plain?group", "other"]
  POST /webhooks/:webhook_id/:token: ["exempt"]
  POST /webhooks/:webhook_id: ["exempt"]
  POST /tokens/:token: ["exempt"]
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

// names returns the buckets with the limit and the window they are asked by.
func names(plan policy.Plan) string {
	var out []string
	for i, b := range plan.Buckets {
		rule := plan.Checks[i].Rule
		out = append(out, fmt.Sprintf("%s/%d/%v", b.Name, rule.Limit(), rule.Window()))
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
		{"global first", policy.Request{Route: "GET /plain", Caller: alice}, "global/50/1s plain/10/10s"},
		{"no bucket, nothing", policy.Request{Route: "GET /none", Caller: alice}, ""},
		{"a flag raises the global limit", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Flags: []string{"MIDDLE"}}}, "global/600/1s plain/10/10s"},
		{"the highest flag wins", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Flags: []string{"LOW", "HIGH", "MIDDLE", "UNKNOWN"}}}, "global/1200/1s plain/10/10s"},
		{"a flag lowers the global limit", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Flags: []string{"LOW"}}}, "global/20/1s plain/10/10s"},
		{"a low flag beside a high one", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Flags: []string{"MIDDLE", "LOW"}}}, "global/600/1s plain/10/10s"},
		{"an unknown flag", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Flags: []string{"UNKNOWN"}}}, "global/50/1s plain/10/10s"},
		{"flags need an account", policy.Request{Route: "GET /plain", Caller: policy.Caller{IP: "192.0.2.1", Flags: []string{"HIGH", "BYPASS"}}}, "global/50/1s plain/10/10s"},
		{"bypass", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Flags: []string{"BYPASS"}}}, ""},
		{"bypass, e-mail", policy.Request{Route: "POST /mail", Email: "a@b.c", Caller: policy.Caller{Account: "a", Flags: []string{"BYPASS"}}}, ""},
		{"exempt alone", policy.Request{Route: "POST /exempt", Caller: alice}, "exempt/30/30s"},
		{"exempt beside another", policy.Request{Route: "POST /mixed", Caller: alice}, "global/50/1s exempt/30/30s plain/10/10s"},
		{"e-mail last", policy.Request{Route: "POST /mail", Caller: alice, Email: "a@example.org"}, "global/50/1s plain/10/10s other/20/20s mail/3/1h0m0s"},
		{"e-mail absent", policy.Request{Route: "POST /mail", Caller: alice}, "global/50/1s plain/10/10s other/20/20s"},
		{"e-mail of an at sign", policy.Request{Route: "POST /mail", Caller: alice, Email: "  @"}, "global/50/1s plain/10/10s other/20/20s"},
		{"e-mail of nobody", policy.Request{Route: "POST /mail", Caller: alice, Email: "@x"}, "global/50/1s plain/10/10s other/20/20s"},
		{"e-mail of nowhere", policy.Request{Route: "POST /mail", Caller: alice, Email: "x@"}, "global/50/1s plain/10/10s other/20/20s"},
		{"e-mail without at sign", policy.Request{Route: "POST /mail", Caller: alice, Email: "nobody"}, "global/50/1s plain/10/10s other/20/20s"},
		{"e-mail of one letter each", policy.Request{Route: "POST /mail", Caller: alice, Email: "a@b"}, "global/50/1s plain/10/10s other/20/20s mail/3/1h0m0s"},
		{"condition unsaid", policy.Request{Route: "POST /maybe", Caller: alice}, "global/50/1s plain/10/10s"},
		{"condition said", policy.Request{Route: "POST /maybe", Caller: alice, When: []string{"group"}}, "global/50/1s plain/10/10s exempt/30/30s"},
		{"only a condition, unsaid", policy.Request{Route: "POST /only-maybe", Caller: alice}, "global/50/1s"},
		{"a condition unsaid hides no later bucket", policy.Request{Route: "POST /maybe-first", Caller: alice}, "global/50/1s other/20/20s"},
		{"a condition said comes in its place", policy.Request{Route: "POST /maybe-first", Caller: alice, When: []string{"group"}}, "global/50/1s plain/10/10s other/20/20s"},
		{"named buckets in their order", policy.Request{Buckets: []string{"other", "mail", "plain"}, Caller: alice, Email: "a@b.c"}, "global/50/1s other/20/20s plain/10/10s mail/3/1h0m0s"},
		{"named exempt bucket", policy.Request{Buckets: []string{"exempt"}, Caller: alice}, "exempt/30/30s"},
	} {
		if got := names(plan(t, p, c.req)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
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
		{"nobody, webhook", optional, "POST /webhooks/:webhook_id/:token", policy.Caller{}, true},
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
		got := plan(t, c.policy, policy.Request{Route: c.route, Caller: c.caller, Params: map[string]string{"webhook_id": "1", "token": "x"}})
		if got.Forbidden != c.want || c.want && len(got.Checks) != 0 {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// With the limits switched off nothing is asked and no header is due.
func TestLimitsSwitchedOff(t *testing.T) {
	p := mustParse(t, planPolicy+"switches: {disable_rate_limits: true}\n")
	for _, req := range []policy.Request{
		{Route: "GET /plain", Caller: session("a")},
		{Route: "GET /plain", Caller: policy.Caller{Account: "a", Credential: of("bot")}},
		{Route: "GET /plain", Caller: policy.Caller{IP: "192.0.2.1"}},
		{Route: "POST /mail", Caller: session("a"), Email: "ann@example.org"},
		{Route: "POST /webhooks/:webhook_id/:token", Caller: policy.Caller{IP: "192.0.2.1"}},
		{Buckets: []string{"plain", "free:mail"}, Caller: session("a"), Email: "ann@example.org"},
	} {
		if got := plan(t, p, req); !reflect.DeepEqual(got, policy.Plan{}) {
			t.Errorf("%+v: %+v", req, got)
		}
	}
}

// What an e-mail address places is asked after what the caller places, never
// in one go with it.
func TestStages(t *testing.T) {
	p := mustParse(t, planPolicy)
	for _, c := range []struct {
		name string
		req  policy.Request
		want [][]int64 // the limits of each stage
	}{
		{"no checks", policy.Request{Route: "GET /none", Caller: session("a")}, nil},
		{"forbidden", policy.Request{Route: "GET /plain"}, nil},
		{"no usable address", policy.Request{Buckets: []string{"free:mail"}, Caller: session("a")}, nil},
		{"caller only", policy.Request{Route: "GET /plain", Caller: session("a")}, [][]int64{{50, 10}}},
		{"caller only, address unusable", policy.Request{Route: "POST /mail", Caller: session("a"), Email: "x"}, [][]int64{{50, 10, 20}}},
		{"both", policy.Request{Route: "POST /mail", Caller: session("a"), Email: "a@b.c"}, [][]int64{{50, 10, 20}, {3}}},
		{"e-mail only", policy.Request{Buckets: []string{"free:mail", "free:mail:too"}, Caller: session("a"), Email: "a@b.c"}, [][]int64{{}, {5, 5}}},
	} {
		got := plan(t, p, c.req)
		stages := got.Stages()
		if (stages == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, stages, c.want)
		}
		var limits [][]int64
		for _, stage := range stages {
			limits = append(limits, []int64{})
			for _, check := range stage {
				limits[len(limits)-1] = append(limits[len(limits)-1], check.Rule.Limit())
			}
		}
		if !reflect.DeepEqual(limits, c.want) {
			t.Errorf("%s: limits %v, want %v", c.name, limits, c.want)
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
		{"no account, token without webhook", policy.Request{Buckets: []string{"exempt"}, Caller: policy.Caller{IP: "192.0.2.1"},
			Params: map[string]string{"token": "x"}}, false, false},
		{"no account, route without token", policy.Request{Route: "POST /webhooks/:webhook_id", Caller: policy.Caller{IP: "192.0.2.1"},
			Params: map[string]string{"webhook_id": "1", "token": "x"}}, false, false},
		{"no account, route without webhook", policy.Request{Route: "POST /tokens/:token", Caller: policy.Caller{IP: "192.0.2.1"},
			Params: map[string]string{"webhook_id": "1", "token": "x"}}, false, false},
		{"bypassing bot", policy.Request{Route: "GET /plain", Caller: policy.Caller{Account: "a", Credential: of("bot"), Flags: []string{"BYPASS"}}}, false, false},
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
		{&policy.Test{Enforce: true}, "global/1200/1s plain/10/10s"},
		{&policy.Test{Enforce: true, GlobalLimit: of(int64(3))}, "global/3/1s plain/10/10s"},
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
		{p, policy.Request{Buckets: []string{"plain", "plain"}, Caller: alice}, "buckets"},
		{p, policy.Request{Buckets: []string{"plain", "mail", "other", "mail"}, Caller: alice}, "buckets"},
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

// The bounds of a request, each exactly met and exceeded by one. field is empty
// where nothing is wrong.
func TestRequestBounds(t *testing.T) {
	text := "version: 1\nbuckets:\n"
	var all []string
	for i := range 65 {
		all = append(all, fmt.Sprintf("b%d", i))
		text += fmt.Sprintf("  b%d: {limit: 1, window: 1s}\n", i)
	}
	p := mustParse(t, text+"routes: {GET /b: [b0]}\n")
	with := func(name, value string) policy.Request {
		return policy.Request{Route: "GET /b", Caller: session("a"), Params: map[string]string{name: value}}
	}
	from := func(c policy.Caller) policy.Request { return policy.Request{Route: "GET /b", Caller: c} }
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name  string
		req   policy.Request
		field string
	}{
		{"64 buckets", policy.Request{Buckets: all[:64], Caller: session("a")}, ""},
		{"65 buckets", policy.Request{Buckets: all, Caller: session("a")}, "buckets"},
		{"a name of 256 bytes", with(x(256), "v"), ""},
		{"a name of 257 bytes", with(x(257), "v"), "params"},
		{"a value of 256 bytes", with("p", x(256)), ""},
		{"a value of 257 bytes", with("p", x(257)), "params.p"},
		{"a value of 1 byte", with("p", "x"), ""},
		{"128 letters of 2 bytes", with("p", strings.Repeat("é", 128)), ""},
		{"129 letters of 2 bytes", with("p", strings.Repeat("é", 129)), "params.p"},
		{"an account of 256 bytes", from(policy.Caller{Account: x(256)}), ""},
		{"an account of 257 bytes", from(policy.Caller{Account: x(257)}), "caller.account"},
		{"an application of 256 bytes", from(policy.Caller{Account: "a", Application: x(256)}), ""},
		{"an application of 257 bytes", from(policy.Caller{Account: "a", Application: x(257)}), "caller.application"},
	} {
		_, err := p.Plan(testKeys, &c.req)
		var field *policy.FieldError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &field) || field.Field != c.field) {
			t.Errorf("%s: %v, want an error of %q", c.name, err, c.field)
		}
	}
}

// One request always gets one error, so that mending it is no guesswork.
func TestFirstBadParameterIsNamed(t *testing.T) {
	p := mustParse(t, planPolicy)
	long := strings.Repeat("x", 257)
	for _, c := range []struct {
		params map[string]string
		want   string
	}{
		{map[string]string{"a": "fine", "b": "", "c": long, "d": "", "e": long, "f": "", "g": "", "h": "", long: "v"}, "params.b"},
		{map[string]string{"a": "fine", "b": long, "c": "", "d": "", "e": long, "f": "", "g": "", "h": "", long: "v"}, "params.b"},
		{map[string]string{"a": "fine", long: "v", "y": "", "ya": "", "yb": "", "yc": "", "z": "", "za": long}, "params"},
	} {
		for range 20 { // maps are walked in another order each time
			_, err := p.Plan(testKeys, &policy.Request{Route: "GET /plain", Caller: session("a"), Params: c.params})
			var field *policy.FieldError
			if !errors.As(err, &field) || field.Field != c.want {
				t.Fatalf("%v, want an error of %s", err, c.want)
			}
		}
	}
}

func TestPolicyWithoutGlobal(t *testing.T) {
	p := mustParse(t, "version: 1\nbuckets: {a: {limit: 1, window: 1s}}\nroutes: {GET /a: [a]}\n")
	got := plan(t, p, policy.Request{Route: "GET /a", Caller: session("x")})
	if names(got) != "a/1/1s" || got.Checks[0].Rule.Window() != time.Second || got.Checks[0].Cost != 1 {
		t.Fatalf("%s: %+v", names(got), got.Checks)
	}
}
