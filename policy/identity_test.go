package policy_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"weir/policy"
)

func by(c policy.Caller) policy.Request { return policy.Request{Route: "GET /plain", Caller: c} }

func guild(v string) policy.Request {
	return policy.Request{Route: "GET /guilds/:guild_id", Caller: session("a"), Params: map[string]string{"guild_id": v}}
}

func both(g, c string) policy.Request {
	return policy.Request{Route: "GET /both/:guild_id/:channel_id", Caller: session("a"), Params: map[string]string{"guild_id": g, "channel_id": c}}
}

func mailed(bucket, account, address string) policy.Request {
	return policy.Request{Buckets: []string{bucket}, Caller: session(account), Email: address}
}

// strangers are callers of whom no two share anything.
var strangers = []policy.Caller{
	{Account: "a"},
	{Account: "a", Credential: of("bot")},
	{Account: "a", Credential: of("admin_api_key")},
	{Account: "a", Credential: of("bearer")},
	{Account: "a", Credential: of("bearer"), Application: "x"},
	{Account: "a", Credential: of("bearer"), Application: "y"},
	{Account: "a", Credential: of("bearer"), Application: "xy"},
	{Account: "ax", Credential: of("bearer"), Application: "y"},
	{Account: "ax", Credential: of("bearer")},
	{Account: "a\x01x", Credential: of("bearer"), Application: "y"},
	{Account: "a", Credential: of("bearer"), Application: "x\x01y"},
	{Account: "A"},
	{Account: "aplain"},
	{Account: "192.0.2.1"},
	{IP: "192.0.2.1"},
	{IP: "192.0.2.2"},
	{IP: "2001:db8::1"},
	{IP: "2001:db8:0:1::1"},
	{IP: "::c000:201"}, // IPv4-compatible, not IPv4-mapped
}

// Requests that must share every bucket.
func TestOneIdentity(t *testing.T) {
	p := mustParse(t, planPolicy)
	for name, pair := range map[string][2]policy.Request{
		"session unsaid":           {by(policy.Caller{Account: "a"}), by(policy.Caller{Account: "a", Credential: of("session")})},
		"address beside account":   {by(policy.Caller{Account: "a", IP: "192.0.2.1"}), by(policy.Caller{Account: "a", IP: "192.0.2.9"})},
		"application unsaid":       {by(policy.Caller{Account: "a", Credential: of("bearer")}), by(policy.Caller{Account: "a", Credential: of("bearer"), Application: "unknown"})},
		"application of a session": {by(policy.Caller{Account: "a", Application: "x"}), by(policy.Caller{Account: "a"})},
		"one /64":                  {by(policy.Caller{IP: "2001:db8::1"}), by(policy.Caller{IP: "2001:db8::ffff:1"})},
		"both halves of a /64":     {by(policy.Caller{IP: "2001:db8::1"}), by(policy.Caller{IP: "2001:db8:0:0:8000::1"})},
		"mapped IPv4":              {by(policy.Caller{IP: "::ffff:192.0.2.1"}), by(policy.Caller{IP: "192.0.2.1"})},
		"mapped IPv4 in hex":       {by(policy.Caller{IP: "::ffff:c000:201"}), by(policy.Caller{IP: "192.0.2.1"})},
		"bracketed mapped IPv4":    {by(policy.Caller{IP: "[::FFFF:192.0.2.1%eth0]"}), by(policy.Caller{IP: "192.0.2.1"})},
		"letter case":              {by(policy.Caller{IP: "2001:DB8::1"}), by(policy.Caller{IP: "2001:db8::1"})},
		"brackets":                 {by(policy.Caller{IP: "[2001:db8::1]"}), by(policy.Caller{IP: "2001:db8::1"})},
		"zone":                     {by(policy.Caller{IP: "fe80::1%eth0"}), by(policy.Caller{IP: "fe80::1%eth1"})},
		"leading zeros":            {by(policy.Caller{IP: "2001:0db8:0000::0001"}), by(policy.Caller{IP: "2001:db8::1"})},
		"ignored without account": {by(policy.Caller{IP: "192.0.2.1", Credential: of("bot"), Bot: of(true), Application: "x"}),
			by(policy.Caller{IP: "192.0.2.1"})},
		"e-mail case and space":   {mailed("only:mail", "a", " Ann@Example.ORG\t"), mailed("only:mail", "a", "ann@example.org")},
		"e-mail of other callers": {mailed("free:mail", "a", "ann@example.org"), mailed("free:mail", "b", "ann@example.org")},
		"extra parameters": {guild("42"), policy.Request{Route: "GET /guilds/:guild_id", Caller: session("a"),
			Params: map[string]string{"guild_id": "42", "x": "y"}}},
		"route and bucket": {guild("42"), policy.Request{Buckets: []string{"by:guild::guild_id"}, Caller: session("a"),
			Params: map[string]string{"guild_id": "42"}}},
		"literal despite a parameter": {policy.Request{Route: "GET /literal", Caller: session("a")},
			policy.Request{Route: "GET /literal", Caller: session("a"), Params: map[string]string{"guild_id": "42"}}},
	} {
		a, b := plan(t, p, pair[0]), plan(t, p, pair[1])
		if len(a.Checks) == 0 || !reflect.DeepEqual(a.Checks, b.Checks) {
			t.Errorf("%s: %+v and %+v are to be one identity", name, a.Checks, b.Checks)
		}
	}
}

// Requests of which no two share the last bucket, nor, if they are of different
// callers, any bucket at all.
func TestDistinctIdentities(t *testing.T) {
	p := mustParse(t, planPolicy)
	half := func(route string) policy.Request {
		return policy.Request{Route: route, Caller: session("a"), Params: map[string]string{"guild_id": "v", "channel_id": "v"}}
	}
	distinct := []policy.Request{
		guild("a"), guild("A"), guild("a:b"), guild("a|b"), guild("a_b"), guild("a/b"), guild("a\x00b"), guild("a\x00"),
		guild("\x00"), guild("\x01"), guild("\x00\x00"), guild("\x01\x01"), guild("\x01a"), guild("\x01\x01a"), guild("\x00a"), guild("a\x01"),
		guild("🦆"), guild(strings.Repeat("x", 256)), guild(strings.Repeat("x", 255)), guild(":guild_id"), guild(" a"),
		both("a", "b"), both("ab", "c"), both("a", "bc"), both("b", "a"), both("a:b", "c"), both("a", "b:c"),
		// What stands between two values (a mark, a length, or both) may stand
		// inside them too.
		both("a\x01b", "c"), both("a", "b\x01c"),
		both("a\x01\x01b", "c"), both("a", "b\x01\x01c"),
		both("a\x01\x03b", "c"), both("a", "b\x01\x03c"),
		both("a\x00b", "c"), both("a", "b\x00c"),
		both("a\x01\x00b", "c"), both("a", "b\x01\x00c"),
		both("a\x01", "\x01c"), both("a", "\x01\x01c"), both("a\x01\x01", "c"),
		both("\x01", "\x01\x01"), both("\x01\x01", "\x01"), both("\x00", "\x01"), both("\x01", "\x00"),
		both("v", "v"), both("v", ":channel_id"), both(":guild_id", "v"), both("v", "\x00"), both("\x00", "v"),
		half("GET /first/:guild_id"),    // v, literal
		half("GET /second/:channel_id"), // literal, v
		{Route: "GET /channels/:channel_id", Caller: session("a"), Params: map[string]string{"channel_id": "a"}},
		{Route: "GET /literal", Caller: session("a")},
		mailed("only:mail", "a", "ann@example.org"), mailed("only:mail", "a", "bob@example.org"),
		mailed("only:mail", "a", "a@x.y"), mailed("only:mail", "a", "a+b@x.y"), mailed("only:mail", "a", "a+c@x.y"),
		mailed("free:mail", "a", "a@x.y"), mailed("free:mail:too", "a", "a@x.y"), mailed("mail", "a", "a@x.y"),
	}
	for _, c := range strangers[1:] { // the first is whom the requests above are of
		distinct = append(distinct, by(c))
	}
	distinct = append(distinct, by(session("a")))

	last := map[uint64]int{}
	owner := map[uint64]string{}
	for i, req := range distinct {
		who, err := json.Marshal(req.Caller)
		if err != nil {
			t.Fatal(err)
		}
		checks := plan(t, p, req).Checks
		for _, c := range checks {
			if other, ok := owner[c.Fingerprint]; ok && other != string(who) {
				t.Errorf("%s and %s share a bucket", other, who)
			}
			owner[c.Fingerprint] = string(who)
		}
		key := checks[len(checks)-1].Fingerprint
		if j, ok := last[key]; ok {
			t.Errorf("%+v and %+v share a key", distinct[j], req)
		}
		last[key] = i
	}
}

// The global bucket is the caller's alone, and one whatever else is asked.
func TestOneGlobalBucketPerCaller(t *testing.T) {
	p := mustParse(t, planPolicy)
	// So many that two callers are not in one by chance.
	keys := policy.NewKeys([16]byte{1, 2, 3}, 1<<31-1)
	ids := func(v string) map[string]string { return map[string]string{"guild_id": v, "channel_id": v} }
	prints, places := map[uint64]int{}, map[uint32]int{}
	for i, caller := range strangers {
		var fingerprint uint64
		var place uint32
		for n, req := range []policy.Request{
			{Route: "GET /plain"},
			{Route: "GET /guilds/:guild_id", Params: ids("1")},
			{Route: "GET /guilds/:guild_id", Params: ids("2")},
			{Route: "GET /both/:guild_id/:channel_id", Params: ids("3")},
			{Route: "POST /mail", Email: "ann@example.org"},
			{Route: "POST /only-maybe"},
			{Buckets: []string{"other", "plain"}},
			{Route: "GET /plain", Caller: policy.Caller{Flags: []string{"LOW"}}},
			{Route: "GET /plain", Caller: policy.Caller{Flags: []string{"MIDDLE", "HIGH", "UNKNOWN"}}},
		} {
			flags := req.Caller.Flags
			req.Caller = caller
			req.Caller.Flags = flags
			got, err := p.Plan(keys, &req)
			if err != nil || got.Buckets[0].Name != "global" {
				t.Fatalf("%+v: %s, %v", req, names(got), err)
			}
			first := got.Checks[0]
			if n == 0 {
				fingerprint, place = first.Fingerprint, first.Partition
			}
			if first.Fingerprint != fingerprint || first.Partition != place {
				t.Errorf("caller %d has another global bucket on request %d", i, n)
			}
		}
		if j, ok := prints[fingerprint]; ok {
			t.Errorf("callers %d and %d share the global bucket", j, i)
		}
		if j, ok := places[place]; ok {
			t.Errorf("callers %d and %d are in one partition", j, i)
		}
		prints[fingerprint], places[place] = i, i
	}
}

// The global and the route buckets of a caller live in one partition, whatever
// the resource; an e-mail's buckets in that of the address.
func TestOneCallerIsOneHop(t *testing.T) {
	p := mustParse(t, planPolicy)
	home := plan(t, p, by(session("a"))).Checks[0].Partition
	for i := range 50 {
		for _, c := range plan(t, p, guild(fmt.Sprint(i))).Checks {
			if c.Partition != home {
				t.Fatalf("guild %d is in partition %d, the caller in %d", i, c.Partition, home)
			}
		}
	}
	byMail := func(bucket, account, address string) uint32 {
		checks := plan(t, p, mailed(bucket, account, address)).Checks
		return checks[len(checks)-1].Partition
	}
	mail := byMail("only:mail", "a", "x@example.org")
	if byMail("only:mail", "b", "x@example.org") != mail || byMail("free:mail", "a", "X@example.org ") != mail {
		t.Error("one address, two places")
	}
	if byMail("only:mail", "a", "y@example.org") == mail {
		t.Error("two addresses, one place")
	}
}

func TestSecretAndWindowChangeTheKey(t *testing.T) {
	secret := policy.NewKeys([16]byte{9}, 1021)
	lateSecret := policy.NewKeys([16]byte{1, 2, 3, 8: 1}, 1021)
	for _, c := range []struct {
		name, bucket, wider, larger string
		req                         policy.Request
		check                       int
	}{
		{"global", `global: {limit: 50, window: 1s,`, `global: {limit: 50, window: 2s,`, `global: {limit: 60, window: 1s,`, by(session("a")), 0},
		{"route", `"plain": {limit: 10, window: 10s`, `"plain": {limit: 10, window: 20s`, `"plain": {limit: 99, window: 10s`, by(session("a")), 1},
		{"e-mail", `"only:mail": {limit: 4, window: 2h`, `"only:mail": {limit: 4, window: 4h`, `"only:mail": {limit: 9, window: 2h`,
			mailed("only:mail", "a", "a@b.c"), 1},
	} {
		key := func(keys policy.Keys, bucket string) uint64 {
			p := mustParse(t, strings.Replace(planPolicy, c.bucket, bucket, 1))
			got, err := p.Plan(keys, &c.req)
			if err != nil {
				t.Fatal(err)
			}
			return got.Checks[c.check].Fingerprint
		}
		own := key(testKeys, c.bucket)
		if key(secret, c.bucket) == own || key(lateSecret, c.bucket) == own {
			t.Errorf("%s: a part of the secret does not enter the key", c.name)
		}
		if key(testKeys, c.wider) == own {
			t.Errorf("%s: the window does not enter the key", c.name)
		}
		if key(testKeys, c.larger) != own {
			t.Errorf("%s: the limit enters the key", c.name)
		}
	}
}
