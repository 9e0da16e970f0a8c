package policy_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/leaky"
	"weir/policy"
)

// refused parses a file that must be refused and returns the error's lines.
func refused(t *testing.T, source string) []string {
	t.Helper()
	p, warnings, err := policy.Parse("p.yaml", []byte(source))
	var list *policy.Errors
	if !errors.As(err, &list) {
		t.Fatalf("the error is %v, want an *Errors", err)
	}
	if p != nil || warnings != nil {
		t.Errorf("an error came with policy %v and warnings %v", p, warnings)
	}
	return strings.Split(err.Error(), "\n")
}

const custom = `# A policy of somebody else.
version: 1
test_mode: true
switches: {disable_rate_limits: true, relax_registration_rate_limits: true}
client_ip:
  required: true
  header: CF-Connecting-IP
  trusted_hops: 2
routes:   # before the buckets, and in block style
  GET /shops/:shop_id/items/:item: ["items::shop_id", "writes?bulk_edit"]
  'DELETE /':
  - 'mail'
  - "items::shop_id"
  OPTIONS /files/*: []
  HEAD /a:b/@41/:_x9/:
    - :shop_id::item:end
    - writes?dry
on_unreachable: deny
on_full: refuse
bypass_flag: STAFF
global:
  limit: 1000000000
  window: 366d
  flags:
    PARTNER: 7
    "Ünï": 8
buckets:
  "items::shop_id":
    limit: 60
    window: 10s
  writes: {limit: 1, window: 1d12h, section: "For writers", scope: shared}
  mail: {limit: 1000, window: 1ms, keyed_by: email, exempt_from_global: false}
  ":shop_id::item:end": {limit: 3, window: "1.5h30m", exempt_from_global: true, keyed_by: caller, scope: user}
  unused: {limit: 5, window: 300ms}
`

func rule(t *testing.T, limit int64, window time.Duration) leaky.Rule {
	t.Helper()
	r, err := leaky.NewRule(leaky.Bucket, limit, window)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParseCompilesEveryField(t *testing.T) {
	p, warnings, err := policy.Parse("shop.yaml", []byte(custom))
	if err != nil {
		t.Fatal(err)
	}
	equal := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	equal("test_mode", p.TestMode, true)
	equal("switches", p.Switches, policy.Switches{DisableRateLimits: true, RelaxRegistrationRateLimits: true})
	equal("client_ip", p.ClientIP, policy.ClientIP{Required: true, Header: "cf-connecting-ip", TrustedHops: 2})
	equal("bypass_flag", p.BypassFlag, "STAFF")
	equal("on_unreachable", p.OnUnreachable, policy.UnreachableDeny)
	equal("on_full", p.OnFull, policy.FullRefuse)

	year := 366 * 24 * time.Hour
	equal("global rule", p.Global.Rule, rule(t, 1_000_000_000, year))
	equal("global flags", p.Global.Flags, []policy.FlagLimit{
		{Flag: "PARTNER", Rule: rule(t, 7, year)},
		{Flag: "Ünï", Rule: rule(t, 8, year)},
	})
	equal("global bucket", p.Global.Bucket, &policy.Bucket{Index: 5, Name: "global", Rule: rule(t, 1_000_000_000, year), Scope: policy.ScopeGlobal})

	items := &policy.Bucket{Index: 0, Name: "items::shop_id", ID: "d6b424da9faaac25",
		Rule: rule(t, 60, 10*time.Second), Placeholders: []string{"shop_id"}}
	writes := &policy.Bucket{Index: 1, Name: "writes", Section: "For writers", ID: "531995e8b52db462",
		Rule: rule(t, 1, 36*time.Hour), Scope: policy.ScopeShared}
	mail := &policy.Bucket{Index: 2, Name: "mail", ID: "00d8d3f11739d2f3",
		Rule: rule(t, 1000, time.Millisecond), KeyedBy: policy.ByEmail}
	both := &policy.Bucket{Index: 3, Name: ":shop_id::item:end", ID: "851c0052051393ab",
		Rule: rule(t, 3, 2*time.Hour), ExemptFromGlobal: true, Placeholders: []string{"shop_id", "item"}}
	unused := &policy.Bucket{Index: 4, Name: "unused", ID: "febe1d741b49e5a9",
		Rule: rule(t, 5, 300*time.Millisecond)}
	equal("buckets", p.Buckets, []*policy.Bucket{items, writes, mail, both, unused})

	routes := []*policy.Route{
		{Name: "GET /shops/:shop_id/items/:item", Method: "GET", Path: "/shops/:shop_id/items/:item",
			Params:  []string{"shop_id", "item"},
			Buckets: []policy.RouteBucket{{Bucket: items}, {Bucket: writes, Condition: "bulk_edit"}}},
		{Name: "DELETE /", Method: "DELETE", Path: "/", Buckets: []policy.RouteBucket{{Bucket: mail}, {Bucket: items}}},
		{Name: "OPTIONS /files/*", Method: "OPTIONS", Path: "/files/*"},
		{Name: "HEAD /a:b/@41/:_x9/", Method: "HEAD", Path: "/a:b/@41/:_x9/", Params: []string{"_x9"},
			Buckets: []policy.RouteBucket{{Bucket: both}, {Bucket: writes, Condition: "dry"}}},
	}
	equal("routes", p.Routes, routes)

	for _, b := range p.Buckets {
		if got, ok := p.Bucket(b.Name); !ok || got != b {
			t.Errorf("bucket %s is not found by its name", b.Name)
		}
	}
	for _, r := range p.Routes {
		if got, ok := p.Route(r.Name); !ok || got != r {
			t.Errorf("route %s is not found by its name", r.Name)
		}
	}
	if _, ok := p.Bucket("global"); ok {
		t.Error("the global bucket is found as a declared one")
	}
	equal("source", string(p.Source()), custom)
	equal("hash", p.Hash(), "ebdaeb259dca7edc")

	want := []string{
		`shop.yaml:13: route "DELETE /" has no parameter :shop_id for bucket "items::shop_id", which stays unfilled; call a parameter of the path so, or drop it from the bucket's name`,
		`shop.yaml:16: route "HEAD /a:b/@41/:_x9/" has no parameter :shop_id and :item for bucket ":shop_id::item:end", which stays unfilled; call a parameter of the path so, or drop it from the bucket's name`,
	}
	got := make([]string, len(warnings))
	for i, w := range warnings {
		got[i] = w.String()
	}
	equal("warnings", got, want)
}

func TestParseDefaults(t *testing.T) {
	for name, source := range map[string]string{
		"least":           "version: 1",
		"byte order mark": "\ufeffversion: 1\n",
		"line ends":       "# note\r\n\r\nversion: 1\r\n",
		"document marks":  "# note\n---\nversion: 1\n...\n# end\n",
		"empty sections":  "version: 1\nbuckets: {}\nroutes: {}\n",
	} {
		t.Run(name, func(t *testing.T) {
			p, warnings, err := policy.Parse("p.yaml", []byte(source))
			if err != nil || len(warnings) != 0 {
				t.Fatalf("error %v, warnings %v", err, warnings)
			}
			if p.TestMode || p.Switches != (policy.Switches{}) || p.Global != nil || p.BypassFlag != "" ||
				p.ClientIP != (policy.ClientIP{Required: false, Header: "x-forwarded-for", TrustedHops: 1}) ||
				p.OnUnreachable != policy.UnreachableLocal || p.OnFull != policy.FullAdmit ||
				len(p.Buckets) != 0 || len(p.Routes) != 0 {
				t.Errorf("got %+v", p)
			}
		})
	}
	p, _, err := policy.Parse("p.yaml", []byte("version: 1\nglobal: {limit: 9, window: 2s}\nbuckets: {b: {limit: 4, window: 3s}}"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Global.Rule.Limit() != 9 || p.Global.Rule.Window() != 2*time.Second || p.Global.Flags != nil {
		t.Errorf("global: got %+v", p.Global)
	}
	b, _ := p.Bucket("b")
	want := policy.Bucket{Name: "b", ID: "3e23e8160039594a", Rule: rule(t, 4, 3*time.Second),
		ExemptFromGlobal: false, KeyedBy: policy.ByCaller, Scope: policy.ScopeUser, Section: ""}
	if !reflect.DeepEqual(*b, want) {
		t.Errorf("bucket: got %+v, want %+v", *b, want)
	}
}

// A policy keeps what it was parsed from, whatever becomes of the caller's copy.
func TestParseKeepsItsSource(t *testing.T) {
	data := []byte("version: 1\n")
	p, _, err := policy.Parse("p.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	data[0] = 'x'
	if string(p.Source()) != "version: 1\n" {
		t.Errorf("the source became %q", p.Source())
	}
}

// The whole error of each file, one line for each problem.
func TestParseErrors(t *testing.T) {
	for _, c := range slices.Concat(errorCases, allowanceErrorCases) {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(refused(t, c.source), "\n")
			if want := strings.Join(c.want, "\n"); got != want {
				t.Errorf("source:\n%s\ngot:\n%s\nwant:\n%s", c.source, got, want)
			}
		})
	}
}

func TestErrorsAreCappedAtTwenty(t *testing.T) {
	source := func(wrong int) string {
		s := "version: 1\nbuckets:\n"
		for i := range wrong {
			s += fmt.Sprintf("  b%d: {limit: 0, window: 1s}\n", i)
		}
		return s
	}
	line := func(i int) string {
		return fmt.Sprintf(`p.yaml:%d: the limit of bucket "b%d" is 0, out of range; write a whole number from 1 to 1000000000`, i+3, i)
	}
	all := refused(t, source(20))
	if len(all) != 20 || all[0] != line(0) || all[19] != line(19) {
		t.Errorf("20 errors are shown as %d lines:\n%s", len(all), strings.Join(all, "\n"))
	}
	capped := refused(t, source(33))
	if len(capped) != 21 || capped[19] != line(19) || capped[20] != "p.yaml: and 13 more; mend these first" {
		t.Errorf("33 errors are shown as %d lines:\n%s", len(capped), strings.Join(capped, "\n"))
	}
	_, _, err := policy.Parse("p.yaml", []byte(source(33)))
	var list *policy.Errors
	if !errors.As(err, &list) || len(list.Problems) != 20 || list.More != 13 ||
		list.Problems[4].File != "p.yaml" || list.Problems[4].Line != 7 || "p.yaml:7: "+list.Problems[4].Text != line(4) {
		t.Errorf("got %+v", list)
	}
}

func TestWarningsAreCappedAtTwenty(t *testing.T) {
	source := "version: 1\nbuckets: {\"a::id\": {limit: 1, window: 1s}}\nroutes:\n"
	for i := range 33 {
		source += fmt.Sprintf("  GET /r%d: [\"a::id\"]\n", i)
	}
	_, warnings, err := policy.Parse("p.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 21 || warnings[19].Line != 23 || warnings[20].String() != "p.yaml:24: 13 more from here on" {
		t.Errorf("33 warnings are shown as %d, the last %v", len(warnings), warnings[len(warnings)-1])
	}
}

// What is too long is said so, before time is spent on it.
func TestPathsAreBounded(t *testing.T) {
	const says = `the path is too long; write at most 2048 bytes and 64 segments`
	for _, c := range []struct {
		path string
		good bool
	}{
		{strings.Repeat("/a", 64), true},
		{strings.Repeat("/a", 65), false},
		{strings.Repeat("/"+strings.Repeat("b", 255), 8), true},
		{strings.Repeat("/"+strings.Repeat("b", 255), 8) + "/", false},
	} {
		_, _, err := policy.Parse("p.yaml", []byte("version: 1\nroutes: {\"GET "+c.path+"\": []}\n"))
		if good := err == nil; good != c.good || !good && !strings.Contains(err.Error(), says) {
			t.Errorf("%d bytes: %v", len(c.path), err)
		}
	}
}

// Errors come in the order of the file, whichever part is read first.
func TestErrorsAreSortedByLine(t *testing.T) {
	got := refused(t, "version: 1\nroutes:\n  GET /a: [nope]\nbuckets:\n  a: {limit: 0, window: 1s}\ntest_mode: 1\n")
	for i, want := range []string{"p.yaml:3: ", "p.yaml:5: ", "p.yaml:6: "} {
		if len(got) != 3 || !strings.HasPrefix(got[i], want) {
			t.Fatalf("got:\n%s", strings.Join(got, "\n"))
		}
	}
}

// Long and odd text of the file does not break the form of a message.
func TestErrorsStayOnOneLine(t *testing.T) {
	long := strings.Repeat("é", 4000)
	for _, source := range []string{
		"version: 1\n\"a\\nb\": 1\n",
		"version: 1\nbuckets: {\"a\\r\\nb\": {limit: \"1\\n2\", window: \"3\\n4\"}}\n",
		"version: 1\nroutes: {\"GET /\\n\": [\"x\\ny\"], \"GET /x\\u2028\": []}\n",
		"version: 1\ntest_mode: a\n  b\n  c\n",
		"version: 1\n\"" + long + "\": 1\nbypass_flag: \"" + long + "\"\n",
		"version: 1\nbuckets: {? " + long + "\n : 1}\n",
	} {
		_, _, err := policy.Parse("p.yaml", []byte(source))
		var list *policy.Errors
		if !errors.As(err, &list) {
			t.Fatalf("%.60q: the error is %v", source, err)
		}
		for _, p := range list.Problems {
			if strings.ContainsAny(p.Text, "\r\n\u2028") || len(p.Text) > 1000 {
				t.Errorf("%.60q: the text has %d bytes: %.300q", source, len(p.Text), p.Text)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	var many, flow strings.Builder
	for i := range 16385 {
		fmt.Fprintf(&many, "  b%d: {limit: 1, window: 1s}\n", i)
		fmt.Fprintf(&flow, "GET /%d: [], ", i)
	}
	for _, c := range []struct{ name, source, want string }{
		{"size", "version: 1\n#" + strings.Repeat("x", 4<<20),
			"p.yaml:1: the file has 4194316 bytes; a policy has at most 4194304"},
		{"buckets", "version: 1\nbuckets:\n" + many.String(),
			"p.yaml:16387: more than 16384 entries; a policy has at most 16384 buckets and 16384 routes"},
		{"routes in one line", "version: 1\nroutes: {" + flow.String() + "}\n",
			"p.yaml:2: 16385 routes; a policy has at most 16384"},
		{"buckets in one line", "version: 1\nbuckets: {" + strings.ReplaceAll(many.String(), "\n", ",\n") + "}\n",
			"p.yaml:2: 16385 buckets; a policy has at most 16384"},
		{"deep lists", "version: 1\nroutes: " + strings.Repeat("[", 1<<16),
			"p.yaml:2: nested too deep; a policy needs four levels"},
		{"deep mappings", "version: 1\nroutes: " + strings.Repeat("{a: ", 1<<16),
			"p.yaml:2: nested too deep; a policy needs four levels"},
		{"deep dashes", "version: 1\nroutes:\n  " + strings.Repeat("- ", 1<<16),
			"p.yaml:3: nested too deep; a policy needs four levels"},
		{"deep tags", strings.Repeat("!t ", 1<<16) + "version: 1",
			"p.yaml:1: nested too deep; a policy needs four levels"},
		{"deep blocks", "a:\n b:\n  c:\n   d:\n    e:\n     f:\n      g:\n       h:\n        i: 1\n",
			"p.yaml:9: nested too deep; a policy needs four levels"},
		{"many nulls", "version: 1\nroutes: {" + strings.Repeat("a, ", 1<<16) + "}",
			"p.yaml:2: more than 100 entries without a value; give each its value or leave it out"},
		{"many nulls behind brackets", "version: 1\nroutes: {" + strings.Repeat("[], ", 1<<16) + "}",
			"p.yaml:2: more than 100 entries without a value; give each its value or leave it out"},
		{"many nulls in lines", "version: 1\nroutes:\n" + strings.Repeat(" a:\n", 16000),
			"p.yaml:103: more than 100 entries without a value; give each its value or leave it out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := refused(t, c.source); len(got) != 1 || got[0] != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), c.want)
			}
		})
	}
}

func TestAsLargeAsAllowed(t *testing.T) {
	var buckets, routes strings.Builder
	for i := range 16384 {
		fmt.Fprintf(&buckets, "b%d: {limit: 1, window: 1s,},\n", i)
		fmt.Fprintf(&routes, "GET /%d: [],\n", i)
	}
	const sixteen = "b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15"
	last := "GET /16383: [" + sixteen + "]"
	source := "version: 1\nbuckets: {\n" + buckets.String() + "}\nroutes: {\n" +
		strings.Replace(routes.String(), "GET /16383: []", last, 1) + "}\n"
	p, warnings, err := policy.Parse("p.yaml", []byte(source))
	if err != nil || len(warnings) != 0 {
		t.Fatalf("error %v, warnings %v", err, warnings)
	}
	if len(p.Buckets) != 16384 || p.Buckets[16383].Name != "b16383" || p.Buckets[16383].Index != 16383 {
		t.Errorf("got %d buckets", len(p.Buckets))
	}
	if len(p.Routes) != 16384 || p.Routes[16383].Name != "GET /16383" || len(p.Routes[16383].Buckets) != 16 {
		t.Errorf("got %d routes", len(p.Routes))
	}
}

func TestParseWindow(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		text string
		want time.Duration
	}{
		{"1ms", time.Millisecond}, {"1000us", time.Millisecond}, {"1000µs", time.Millisecond}, {"1000001ns", time.Millisecond + 1},
		{"0.5s", 500 * time.Millisecond}, {".5s", 500 * time.Millisecond}, {"10s", 10 * time.Second}, {"1h30m", 90 * time.Minute},
		{"1d", day}, {"1.5d", 36 * time.Hour}, {"1d12h", 36 * time.Hour}, {"12h1d", 36 * time.Hour}, {"366d", 366 * day}, {"8784h", 366 * day},
		{"365d23h59m60s", 366 * day},
	} {
		if got, err := policy.ParseWindow(c.text); err != nil || got != c.want {
			t.Errorf("%q: got %v and %v, want %v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"0s", "0d", "999us", "366d1ns", "8785h", "367d", "183d184d", "200000d", "99999999999999999999d", "99999999999999999999h", "9999999999999999999999ns"} {
		if got, err := policy.ParseWindow(text); !errors.Is(err, leaky.ErrWindow) {
			t.Errorf("%q: got %v and %v, want an ErrWindow", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "10", "s", "d", "-1s", "+1s", "1d-1h", "1s ", " 1s", "1 s", "1w", "1D", "1e3s", "0x1s", ".s", "1..5s", "1.2.3s", "1_0s", "١s", "1s,", "1m2"} {
		if got, err := policy.ParseWindow(text); err == nil || errors.Is(err, leaky.ErrWindow) {
			t.Errorf("%q: got %v and %v, want an error that is no ErrWindow", text, got, err)
		}
	}
}
