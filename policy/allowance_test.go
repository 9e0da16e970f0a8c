package policy_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/leaky"
	"weir/policy"
)

const allowanceColumns = "operation\trule\tkind\tkey\tlimit\twindow\tshape\tcode\tpath\tscope\toptional\toff_with\tcounts\tcleared_by_succeed\teffect\tother_path\twait_unit\tnotes"

// row writes a rule as the table does.
func row(a *policy.Allowance) string {
	text := func(is bool, s string) string {
		if is {
			return s
		}
		return ""
	}
	kind := a.Kind.String()
	if a.Counter != "" {
		kind += ":" + a.Counter
	}
	key := make([]string, len(a.Key))
	for i, part := range a.Key {
		key[i] = part.String()
	}
	window := a.Window().String()
	switch {
	case a.SlowMode:
		window = "interval"
	case a.Kind == policy.Imposed:
		window = ""
	}
	refuses := a.Kind != policy.CooldownStart
	form := a.Shape == policy.ShapeForm
	return strings.Join([]string{a.Operation, a.Name, kind, strings.Join(key, ","), strconv.FormatInt(a.Limit(), 10), window,
		text(refuses, a.Shape.String()), a.Code, a.Path, text(refuses && a.Shape == policy.Shape429, a.Scope.String()),
		text(a.Optional, "yes"), text(a.OffWith != policy.OffNever, a.OffWith.String()), text(a.Counts == policy.CountsChanged, "changed"),
		text(a.ClearedBySucceed, "yes"), a.Effect, a.OtherPath, text(form, a.WaitUnit.String()), a.Notes}, "\t")
}

// Every column of the table is in the default policy. The table has the rules of
// one operation apart from each other; their order among themselves counts.
func TestDefaultHasTheAllowancesOfTheTable(t *testing.T) {
	rows := table(t, "testdata/allowances.tsv", allowanceColumns)
	if len(rows) != 60 {
		t.Fatalf("the table has %d rules, want 60", len(rows))
	}
	var operations []string
	for _, r := range rows {
		if !slices.Contains(operations, r[0]) {
			operations = append(operations, r[0])
		}
	}
	if len(operations) != 38 {
		t.Fatalf("the table has %d operations, want 38", len(operations))
	}
	slices.SortStableFunc(rows, func(a, b []string) int {
		return cmp.Compare(slices.Index(operations, a[0]), slices.Index(operations, b[0]))
	})
	var got, want []string
	for _, r := range rows {
		const window = 5
		if d, err := time.ParseDuration(r[window]); err == nil {
			r[window] = d.String() // 15m0s
		} else if r[window] != "" && r[window] != "interval" {
			t.Fatalf("the window %q", r[window])
		}
		want = append(want, strings.Join(r, "\t")+strings.Repeat("\t", strings.Count(allowanceColumns, "\t")+1-len(r)))
	}
	p := mustDefault(t)
	for i, a := range p.Allowances {
		got = append(got, row(a))
		if a.Index != i || a.Label != a.Operation+"/"+a.Name {
			t.Errorf("rule %d has the index %d and the label %q", i, a.Index, a.Label)
		}
	}
	compare(t, got, want)
	for i, o := range p.Operations {
		if found, ok := p.Operation(o.Name); found != o || !ok || o.Name != operations[i] {
			t.Errorf("operation %d is %q, found by its name: %t", i, o.Name, ok)
		}
	}
	if _, ok := p.Operation("login"); ok {
		t.Error("an operation that no policy has is found")
	}
}

const allowancePolicy = `
version: 1
switches: {}
allowances:
  login:
    mail: {kind: bucket, key: email, limit: 5, window: 15m, off_with: disable_rate_limits}
    ip: {kind: bucket, key: ip64, limit: 10, window: 30m, off_with: relax_registration_rate_limits}
  change:
    name: {kind: bucket, key: [guild, account], limit: 5, window: 3h, shape: 400_form, code: TOO_OFTEN, path: name, other_path: tag, wait_unit: minutes, counts: changed}
    maybe: {kind: quota, key: [guild, ticket], limit: 2, window: 1m, optional: true}
  verify:
    code: {kind: "bucket:codes", key: account, limit: 10, window: 15m, cleared_by_succeed: true}
    started: {kind: cooldown_start, key: ticket, window: 30s}
    failures: {kind: lockout, key: ip, limit: 3, window: 1m}
    issued: {kind: after_issue, key: ticket, window: 20s}
    by_account: {kind: imposed, key: account}
    by_phone: {kind: imposed, key: phone, scope: shared}
  other:
    code: {kind: "bucket:codes", key: account, limit: 10, window: 15m}
    net: {kind: bucket, key: subnet, limit: 15, window: 1h}
    reporter: {kind: bucket, key: reporter, limit: 15, window: 1h}
  slow:
    mode: {kind: cooldown, key: [channel, account], window: interval, shape: 400_slowmode, code: SLOW, cleared_by_succeed: true}
`

func planAllowance(t *testing.T, p *policy.Policy, operation string, req policy.AllowanceRequest) (policy.AllowancePlan, error) {
	t.Helper()
	o, ok := p.Operation(operation)
	if !ok {
		t.Fatalf("there is no operation %s", operation)
	}
	return p.PlanAllowance(testKeys, o, &req)
}

// steps shows a plan as "label kind limit/window xcost", with ? for one that is
// only looked at and * for one in a group.
func steps(plan policy.AllowancePlan) string {
	var all []string
	for _, s := range plan.Steps {
		r := s.Check.Rule
		text := fmt.Sprintf("%s %s %d/%s x%d", s.Rule.Label, r.Kind(), r.Limit(), r.Window(), s.Check.Cost)
		if s.Check.LookOnly {
			text += "?"
		}
		if s.Check.Grouped() {
			text += "*"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func number(n int64) *int64 { return &n }
func truth(b bool) *bool    { return &b }

// What each action asks of which rules.
func TestPlanAllowance(t *testing.T) {
	everything := policy.Subject{Email: "A@b.c", IP: "192.0.2.1", Account: "1", Ticket: "t", Channel: "2", Guild: "3", Reporter: "1", Phone: "+1", Interval: number(30)}
	with := func(f func(*policy.Subject)) policy.Subject {
		s := everything
		f(&s)
		return s
	}
	const (
		mail, ip   = "login/mail bucket 5/15m0s x1", "login/ip bucket 10/30m0s x1"
		name       = "change/name bucket 5/3h0m0s x1"
		maybe      = "change/maybe quota 2/1m0s x1"
		year       = "1/8784h0m0s"
		verifyTake = "verify/code bucket 10/15m0s x1, verify/started cooldown_start 1/30s x1, verify/failures lockout 3/1m0s x1?, " +
			"verify/issued cooldown 1/20s x1?, verify/by_account cooldown " + year + " x1?, verify/by_phone cooldown " + year + " x1?"
		slow = "slow/mode cooldown 1/30s x1*"
	)
	relaxed := strings.Replace(allowancePolicy, "switches: {}", "switches: {relax_registration_rate_limits: true}", 1)
	disabled := strings.Replace(allowancePolicy, "switches: {}", "switches: {disable_rate_limits: true}", 1)
	tested := strings.Replace(allowancePolicy, "switches: {}", "test_mode: true", 1)
	for _, c := range []struct {
		name, rules, operation string
		request                policy.AllowanceRequest
		want                   string
	}{
		{"take", allowancePolicy, "login", policy.AllowanceRequest{Subject: everything}, mail + ", " + ip},
		{"peek", allowancePolicy, "login", policy.AllowanceRequest{Action: "peek", Subject: everything}, mail + ", " + ip},
		{"reset of what is given", allowancePolicy, "login", policy.AllowanceRequest{Action: "reset", Subject: policy.Subject{IP: "::1"}}, "login/ip bucket 10/30m0s x10"},
		{"relaxed", relaxed, "login", policy.AllowanceRequest{Subject: everything}, mail},
		{"relaxed, reset", relaxed, "login", policy.AllowanceRequest{Action: "reset", Subject: everything}, "login/mail bucket 5/15m0s x5, login/ip bucket 10/30m0s x10"},
		{"disabled", disabled, "login", policy.AllowanceRequest{Subject: everything}, ip},
		{"test mode", tested, "login", policy.AllowanceRequest{Subject: everything}, ip},
		{"test mode in earnest", tested, "login", policy.AllowanceRequest{Subject: everything, Test: &policy.Test{Enforce: true, GlobalLimit: number(1)}}, mail + ", " + ip},
		{"all", allowancePolicy, "change", policy.AllowanceRequest{Subject: everything}, name + ", " + maybe},
		{"optional", allowancePolicy, "change", policy.AllowanceRequest{Subject: with(func(s *policy.Subject) { s.Ticket = "" })}, name},
		{"unchanged", allowancePolicy, "change", policy.AllowanceRequest{Subject: with(func(s *policy.Subject) { s.Changed = truth(false) })}, maybe},
		{"changed", allowancePolicy, "change", policy.AllowanceRequest{Subject: with(func(s *policy.Subject) { s.Changed = truth(true) })}, name + ", " + maybe},
		{"what is only looked at", allowancePolicy, "verify", policy.AllowanceRequest{Action: "take", Subject: everything}, verifyTake},
		{"succeed", allowancePolicy, "verify", policy.AllowanceRequest{Action: "succeed", Subject: policy.Subject{Account: "1"}}, "verify/code bucket 10/15m0s x10"},
		{"fail", allowancePolicy, "verify", policy.AllowanceRequest{Action: "fail", Subject: policy.Subject{IP: "::1"}}, "verify/failures lockout 3/1m0s x1"},
		{"issue", allowancePolicy, "verify", policy.AllowanceRequest{Action: "issue", Subject: policy.Subject{Ticket: "t"}}, "verify/issued cooldown_start 1/20s x1"},
		{"impose on one", allowancePolicy, "verify", policy.AllowanceRequest{Action: "impose", Delay: "1d", Subject: policy.Subject{Phone: "+1"}}, "verify/by_phone cooldown_start 1/24h0m0s x1"},
		{"impose on both", allowancePolicy, "verify", policy.AllowanceRequest{Action: "impose", Delay: "1ms", Subject: everything}, "verify/by_account cooldown_start 1/1ms x1, verify/by_phone cooldown_start 1/1ms x1"},
		{"slow mode", allowancePolicy, "slow", policy.AllowanceRequest{Subject: everything}, slow},
		{"slow mode off", allowancePolicy, "slow", policy.AllowanceRequest{Subject: with(func(s *policy.Subject) { s.Interval = number(0) })}, ""},
		{"slow mode of a bot", allowancePolicy, "slow", policy.AllowanceRequest{Subject: with(func(s *policy.Subject) { s.Bot = true })}, ""},
		{"slow mode bypassed", allowancePolicy, "slow", policy.AllowanceRequest{Subject: with(func(s *policy.Subject) { s.Bypass, s.Interval = true, nil })}, ""},
		{"slow mode of no guild", allowancePolicy, "slow", policy.AllowanceRequest{Subject: with(func(s *policy.Subject) { s.GuildChannel = truth(false) })}, ""},
		{"slow mode of a guild", allowancePolicy, "slow", policy.AllowanceRequest{Subject: with(func(s *policy.Subject) { s.GuildChannel = truth(true) })}, slow},
		{"slow mode reset", allowancePolicy, "slow", policy.AllowanceRequest{Action: "reset", Subject: policy.Subject{Channel: "2", Account: "1"}}, "slow/mode group " + year + " x1"},
		{"slow mode after success", allowancePolicy, "slow", policy.AllowanceRequest{Action: "succeed", Subject: policy.Subject{Channel: "2", Account: "1"}}, "slow/mode group " + year + " x1"},
		{"slow mode reset of a channel", allowancePolicy, "slow", policy.AllowanceRequest{Action: "reset", Subject: policy.Subject{Channel: "2"}}, "slow/mode group " + year + " x1"},
	} {
		plan, err := planAllowance(t, mustParse(t, c.rules), c.operation, c.request)
		if got := steps(plan); err != nil || got != c.want {
			t.Errorf("%s: error %v\n got %s\nwant %s", c.name, err, got, c.want)
		}
	}
}

// Two subjects are one, or two: by fingerprint, by partition as the first part of
// the key says, and the clearing word by the channel alone.
func TestAllowanceKeys(t *testing.T) {
	p := mustParse(t, allowancePolicy)
	check := func(operation, rule string, s policy.Subject) leaky.Check {
		t.Helper()
		plan, err := planAllowance(t, p, operation, policy.AllowanceRequest{Subject: s})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range plan.Steps {
			if step.Rule.Name == rule {
				return step.Check
			}
		}
		t.Fatalf("no rule %s", rule)
		return leaky.Check{}
	}
	other := func(ip, reporter string) policy.Subject {
		return policy.Subject{Account: "1", IP: ip, Reporter: reporter}
	}
	login := func(email, ip string) policy.Subject { return policy.Subject{Email: email, IP: ip} }
	verify := policy.Subject{Account: "1", Ticket: "t", IP: "192.0.2.1", Phone: "+1"}
	exact := func(ip string) policy.Subject {
		s := verify
		s.IP = ip
		return s
	}
	change := func(guild, account string) policy.Subject { return policy.Subject{Guild: guild, Account: account} }
	slow := func(channel, account string, interval int64) policy.Subject {
		return policy.Subject{Channel: channel, Account: account, Interval: number(interval)}
	}
	for _, c := range []struct {
		name        string
		a, b        leaky.Check
		same, place bool // the same bucket; the same partition
	}{
		{"letter case and spaces", check("login", "mail", login("A@b.c", "::1")), check("login", "mail", login(" a@B.c\t", "::1")), true, true},
		{"another address", check("login", "mail", login("a@b.c", "::1")), check("login", "mail", login("ab@.c", "::1")), false, false},
		{"ip64 of one /64", check("login", "ip", login("a", "2001:db8::1")), check("login", "ip", login("a", "[2001:DB8::ffff]")), true, true},
		{"ip64 of another", check("login", "ip", login("a", "2001:db8::1")), check("login", "ip", login("a", "2001:db8:0:1::1")), false, false},
		{"ip64 mapped", check("login", "ip", login("a", "::ffff:192.0.2.1")), check("login", "ip", login("a", "192.0.2.1")), true, true},
		{"exact of one /64", check("verify", "failures", exact("2001:db8::1")), check("verify", "failures", exact("2001:db8::2")), false, false},
		{"exact written otherwise", check("verify", "failures", exact("2001:DB8:0::1%eth0")), check("verify", "failures", exact("2001:db8::1")), true, true},
		{"/24", check("other", "net", other("192.0.2.1", "1")), check("other", "net", other("::ffff:192.0.2.254", "1")), true, true},
		{"another /24", check("other", "net", other("192.0.2.1", "1")), check("other", "net", other("192.0.3.1", "1")), false, false},
		{"/48", check("other", "net", other("2001:db8:1:1::1", "1")), check("other", "net", other("2001:db8:1:ffff::1", "1")), true, true},
		{"another /48", check("other", "net", other("2001:db8:1::1", "1")), check("other", "net", other("2001:db8:2::1", "1")), false, false},
		{"reporters by e-mail", check("other", "reporter", other("::1", "A@b.c")), check("other", "reporter", other("::1", " a@b.c")), true, true},
		{"reporters by account", check("other", "reporter", other("::1", "a")), check("other", "reporter", other("::1", "A")), false, false},
		{"a shared counter", check("verify", "code", verify), check("other", "code", other("::1", "1")), true, true},
		{"rules of one account", check("verify", "code", verify), check("verify", "by_account", verify), false, true},
		{"parts that run together", check("change", "name", change("1", "23")), check("change", "name", change("12", "3")), false, false},
		{"accounts of one guild", check("change", "name", change("1", "2")), check("change", "name", change("1", "3")), false, true},
		{"intervals", check("slow", "mode", slow("1", "2", 30)), check("slow", "mode", slow("1", "2", 10)), false, true},
		{"channels", check("slow", "mode", slow("1", "2", 30)), check("slow", "mode", slow("2", "2", 30)), false, false},
	} {
		if same := c.a.Fingerprint == c.b.Fingerprint; same != c.same {
			t.Errorf("%s: one bucket: %t", c.name, same)
		}
		if place := c.a.Partition == c.b.Partition; place != c.place {
			t.Errorf("%s: one partition: %t", c.name, place)
		}
	}
	// What clears slow mode: a channel, and an account in it, whatever the interval.
	one, two, far := check("slow", "mode", slow("1", "2", 30)), check("slow", "mode", slow("1", "3", 10)), check("slow", "mode", slow("2", "2", 30))
	again := check("slow", "mode", slow("1", "2", 10))
	if one.Groups[0] != two.Groups[0] || one.Groups != again.Groups || one.Groups[1] == two.Groups[1] ||
		one.Groups[0] == far.Groups[0] || one.Groups[1] == far.Groups[1] || one.Groups[0] == one.Groups[1] || one.Groups[0]*one.Groups[1] == 0 {
		t.Errorf("groups %x %x %x %x", one.Groups, two.Groups, far.Groups, again.Groups)
	}
	for i, subject := range []policy.Subject{{Channel: "1"}, {Channel: "1", Account: "2"}} {
		reset, err := planAllowance(t, p, "slow", policy.AllowanceRequest{Action: "reset", Subject: subject})
		if c := reset.Steps[0].Check; err != nil || len(reset.Steps) != 1 || c.Fingerprint != one.Groups[i] || c.Partition != one.Partition {
			t.Errorf("a reset of %+v is about %x in %d, %v", subject, c.Fingerprint, c.Partition, err)
		}
	}
}

func TestBadAllowanceRequests(t *testing.T) {
	p := mustParse(t, allowancePolicy)
	tested := mustParse(t, strings.Replace(allowancePolicy, "switches: {}", "test_mode: true", 1))
	good := policy.Subject{Email: "a@b.c", IP: "::1", Account: "1", Ticket: "t", Channel: "2", Guild: "3", Reporter: "1", Phone: "+1", Interval: number(30)}
	with := func(f func(*policy.Subject)) policy.AllowanceRequest {
		s := good
		f(&s)
		return policy.AllowanceRequest{Subject: s}
	}
	for _, c := range []struct {
		policy    *policy.Policy
		operation string
		request   policy.AllowanceRequest
		want      string
	}{
		{p, "login", policy.AllowanceRequest{Action: "Take", Subject: good}, `action: unknown action "Take"; use one of take, peek, succeed, fail, issue, impose, reset`},
		{p, "login", policy.AllowanceRequest{Action: "succeed", Subject: good}, "action: no rule of login has the action succeed"},
		{p, "login", policy.AllowanceRequest{Action: "fail", Subject: good}, "action: no rule of login has the action fail"},
		{p, "login", policy.AllowanceRequest{Action: "issue", Subject: good}, "action: no rule of login has the action issue"},
		{p, "login", policy.AllowanceRequest{Action: "impose", Delay: "1s", Subject: good}, "action: no rule of login has the action impose"},
		{p, "login", policy.AllowanceRequest{Test: &policy.Test{}, Subject: good}, "test: the policy is not in test mode"},
		{tested, "login", policy.AllowanceRequest{Test: &policy.Test{GlobalLimit: number(0)}, Subject: good}, "test.global_limit: 0 is below 1"},
		{p, "verify", policy.AllowanceRequest{Action: "impose", Subject: good}, "delay: missing; the action impose needs one, such as 45s"},
		{p, "verify", policy.AllowanceRequest{Action: "take", Delay: "45s", Subject: good}, "delay: only the action impose has a delay"},
		{p, "verify", policy.AllowanceRequest{Action: "impose", Delay: "367d", Subject: good}, `delay: "367d" is no duration between 1ms and 366d, such as 45s`},
		{p, "verify", policy.AllowanceRequest{Action: "impose", Delay: "0s", Subject: good}, `delay: "0s" is no duration between 1ms and 366d, such as 45s`},
		{p, "verify", policy.AllowanceRequest{Action: "impose", Delay: "-1s", Subject: good}, `delay: "-1s" is no duration between 1ms and 366d, such as 45s`},
		{p, "verify", policy.AllowanceRequest{Action: "impose", Delay: "1s", Subject: policy.Subject{Ticket: "t"}}, "subject: it has the key of no rule of verify; give account, or phone"},
		{p, "slow", policy.AllowanceRequest{Action: "reset", Subject: policy.Subject{Account: "1"}}, "subject: it has the key of no rule of slow; give channel, or channel and account"},
		{p, "login", with(func(s *policy.Subject) { s.Email = "" }), "subject.email: missing; the rule login/mail counts for each"},
		{p, "login", with(func(s *policy.Subject) { s.Email = " \t" }), "subject.email: missing; the rule login/mail counts for each"},
		{p, "login", with(func(s *policy.Subject) { s.IP = "" }), "subject.ip: missing; the rule login/ip counts for each"},
		{p, "login", with(func(s *policy.Subject) { s.IP = "192.0.2.256" }), `subject.ip: "192.0.2.256" is no IP address`},
		{p, "other", with(func(s *policy.Subject) { s.IP = "localhost" }), `subject.ip: "localhost" is no IP address`},
		{p, "verify", with(func(s *policy.Subject) { s.IP = "[::1" }), `subject.ip: "[::1" is no IP address`},
		{p, "login", with(func(s *policy.Subject) { s.Email = strings.Repeat("x", 4097) }), "subject.email: 4097 bytes, at most 4096"},
		{p, "change", with(func(s *policy.Subject) { s.Account = "" }), "subject.account: missing; the rule change/name counts for each"},
		{p, "change", with(func(s *policy.Subject) { s.Guild = "" }), "subject.guild: missing; the rule change/name counts for each"},
		{p, "change", with(func(s *policy.Subject) { s.Changed, s.Guild = truth(false), "" }), "subject.guild: missing; the rule change/name counts for each"},
		{p, "change", with(func(s *policy.Subject) { s.Account = strings.Repeat("x", 257) }), "subject.account: 257 bytes, at most 256"},
		{p, "change", with(func(s *policy.Subject) { s.Path = "bio" }), `subject.path: "bio" is no form field of change; use name or tag`},
		{p, "other", with(func(s *policy.Subject) { s.Reporter = strings.Repeat("x", 257) }), "subject.reporter: 257 bytes, at most 256"},
		{p, "other", with(func(s *policy.Subject) { s.Reporter = "@" + strings.Repeat("x", 4096) }), "subject.reporter: 4097 bytes, at most 256"},
		{p, "verify", with(func(s *policy.Subject) { s.Ticket = strings.Repeat("x", 4097) }), "subject.ticket: 4097 bytes, at most 4096"},
		{p, "slow", with(func(s *policy.Subject) { s.Interval = nil }), "subject.interval: missing; give the seconds of the channel's slow mode, 0 if it has none"},
		{p, "slow", with(func(s *policy.Subject) { s.Interval = number(-1) }), "subject.interval: -1 is not between 0 and 31622400 seconds"},
		{p, "slow", with(func(s *policy.Subject) { s.Interval, s.Bot = number(31622401), true }), "subject.interval: 31622401 is not between 0 and 31622400 seconds"},
		{p, "slow", with(func(s *policy.Subject) { s.Channel, s.Bypass = "", true }), "subject.channel: missing; the rule slow/mode counts for each"},
	} {
		_, err := planAllowance(t, c.policy, c.operation, c.request)
		var field *policy.FieldError
		if !errors.As(err, &field) || err.Error() != c.want {
			t.Errorf("%s %+v:\n got %v\nwant %s", c.operation, c.request, err, c.want)
		}
	}
}

// The longest that is allowed.
func TestLongSubjects(t *testing.T) {
	p := mustParse(t, allowancePolicy)
	for operation, subject := range map[string]policy.Subject{
		"login":  {Email: strings.Repeat("x", 4096), IP: "::1"},
		"change": {Guild: strings.Repeat("x", 256), Account: strings.Repeat("y", 256), Ticket: strings.Repeat("z", 4096), Path: "tag"},
		"other":  {Account: "1", IP: "::1", Reporter: "@" + strings.Repeat("x", 4095)},
		"slow":   {Account: "1", Channel: "1", Interval: number(31622400)},
	} {
		if _, err := planAllowance(t, p, operation, policy.AllowanceRequest{Subject: subject}); err != nil {
			t.Errorf("%s: %v", operation, err)
		}
	}
}

// A start that nothing waits for is odd.
func TestStartOfNoCooldown(t *testing.T) {
	_, warnings, err := policy.Parse("p.yaml", []byte("version: 1\nallowances:\n  a:\n    s: {kind: cooldown_start, key: ticket, window: 30s}\n    t: {kind: \"cooldown_start:c\", key: ticket, window: 30s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, w.String())
	}
	const text = ` begins the wait of no cooldown; give it and a cooldown of another operation one counter, as in kind: "cooldown:name"`
	if want := `p.yaml:4: rule "a/s"` + text + "\n" + `p.yaml:5: rule "a/t"` + text; strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if _, warnings, err = policy.Parse("p.yaml", mustDefault(t).Source()); err != nil || slices.ContainsFunc(warnings, func(w policy.Problem) bool { return strings.Contains(w.Text, "cooldown") }) {
		t.Errorf("the default policy: %v %v", warnings, err)
	}
}
