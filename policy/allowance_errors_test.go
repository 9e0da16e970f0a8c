package policy_test

import "strings"

// allowanceErrorCases are files with something wrong in an operation.
var allowanceErrorCases = []errorCase{
	{"operations that are none", "version: 1\nallowances: [a]\n", []string{
		"p.yaml:2: allowances is a list; write a mapping such as login: {email: {kind: bucket, key: email, limit: 5, window: 15m}}",
	}},
	{"names", "version: 1\nallowances:\n  a-b: {r: {kind: bucket, key: email, limit: 5, window: 15m}}\n  a: {\"r/s\": {kind: bucket, key: email, limit: 5, window: 15m}}\n", []string{
		`p.yaml:3: the operation name "a-b" is malformed; write letters, digits and _`,
		`p.yaml:4: the rule name "r/s" is malformed; write letters, digits and _`,
	}},
	{"rules", "version: 1\nallowances:\n  a: {}\n  b: r\n  c: {r: 5}\n", []string{
		`p.yaml:3: operation "a" has 0 rules; write 1 to 16`,
		`p.yaml:4: operation "b" is r; write a mapping such as email: {kind: bucket, key: email, limit: 5, window: 15m}`,
		`p.yaml:5: rule "c/r" is 5; write a mapping such as {kind: bucket, key: email, limit: 5, window: 15m}`,
	}},
	{"too many rules", "version: 1\nallowances:\n  a:\n" + strings.Repeat("    r: {kind: bucket, key: email, limit: 5, window: 15m}\n", 17), []string{
		`p.yaml:3: operation "a" has 17 rules; write 1 to 16`,
	}},
	{"twice", "version: 1\nallowances:\n  a:\n    r: {kind: bucket, key: email, limit: 5, window: 15m}\n    r: {kind: bucket, key: email, limit: 5, window: 15m}\n", []string{
		`p.yaml:5: operation "a" has the rule "r" twice, first in line 4; keep one`,
	}},
	{"nothing said", "version: 1\nallowances:\n  a:\n    r: {}\n    s: {kind: bucket}\n    t: {kind: cooldown, key: account}\n", []string{
		`p.yaml:4: rule "a/r" has no key; write one or a list of account, email, ip64, ip, subnet, ticket, channel, guild, message, reporter, phone, code`,
		`p.yaml:4: rule "a/r" has no kind; write one of bucket, cooldown, cooldown_start, after_issue, quota, lockout, imposed, and "kind:name" to share a counter`,
		`p.yaml:5: rule "a/s" has no key; write one or a list of account, email, ip64, ip, subnet, ticket, channel, guild, message, reporter, phone, code`,
		`p.yaml:5: rule "a/s" has no limit; add one, such as limit: 5`,
		`p.yaml:5: rule "a/s" has no window; add one, such as window: 15m`,
		`p.yaml:6: rule "a/t" has no window; add one, such as window: 15m`,
	}},
	{"kind", "version: 1\nallowances:\n  a:\n    r: {kind: leaky, key: ip, limit: 5, window: 15m}\n    s: {kind: \"bucket:\", key: ip, limit: 5, window: 15m}\n    t: {kind: 7, key: ip}\n", []string{
		`p.yaml:4: the kind of rule "a/r" is leaky; write one of bucket, cooldown, cooldown_start, after_issue, quota, lockout, imposed, and "kind:name" to share a counter`,
		`p.yaml:5: the kind of rule "a/s" is "bucket:"; write one of bucket, cooldown, cooldown_start, after_issue, quota, lockout, imposed, and "kind:name" to share a counter`,
		`p.yaml:6: the kind of rule "a/t" is 7; write text such as bucket, in quotes if need be`,
	}},
	{"key", "version: 1\nallowances:\n  a:\n    r: {kind: bucket, key: user, limit: 5, window: 15m}\n    s: {kind: bucket, key: [], limit: 5, window: 15m}\n    t: {kind: bucket, key: [ip, {}, ip], limit: 5, window: 15m}\n", []string{
		`p.yaml:4: a part of the key of rule "a/r" is user; write one or a list of account, email, ip64, ip, subnet, ticket, channel, guild, message, reporter, phone, code`,
		`p.yaml:5: the key of rule "a/s" has 0 parts; write 1 to 4`,
		`p.yaml:6: a part of the key of rule "a/t" is a mapping; write one or a list of account, email, ip64, ip, subnet, ticket, channel, guild, message, reporter, phone, code`,
		`p.yaml:6: the key of rule "a/t" has ip twice; keep one`,
	}},
	{"limit and window", "version: 1\nallowances:\n  a:\n    r: {kind: cooldown, key: ip, limit: 2, window: 15m}\n    s: {kind: quota, key: ip, limit: 1000, window: 15m}\n    t: {kind: bucket, key: ip, limit: 1000000, window: 1ms}\n    u: {kind: imposed, key: ip, window: 1m}\n    v: {kind: quota, key: ip, limit: 2, window: interval}\n", []string{
		`p.yaml:4: the limit of rule "a/r" is 2, out of range; write a whole number from 1 to 1`,
		`p.yaml:5: the limit of rule "a/s" is 1000, out of range; write a whole number from 1 to 999`,
		`p.yaml:6: rule "a/t" allows 1000000 per 1ms, which is under 1µs for each; write a limit of at most 1000 or a window of at least 1s`,
		`p.yaml:7: rule "a/u" has a window; each impose says its delay, leave the window out`,
		`p.yaml:8: the window of rule "a/v" is interval, which only a cooldown can have; write a duration`,
	}},
	{"two slow modes", "version: 1\nallowances:\n  a:\n    r: {kind: cooldown, key: channel, window: interval}\n    s: {kind: cooldown, key: account, window: interval}\n", []string{
		`p.yaml:5: operation "a" has two rules whose window is interval; keep one`,
	}},
	{"refusal", "version: 1\nallowances:\n  a:\n    r: {kind: bucket, key: ip, limit: 5, window: 15m, shape: 400_form}\n    s: {kind: bucket, key: ip, limit: 5, window: 15m, shape: 400, path: x}\n" +
		"    t: {kind: bucket, key: ip, limit: 5, window: 15m, shape: 400_root, scope: user, wait_unit: none}\n    u: {kind: cooldown_start, key: ip, window: 15m, code: A}\n" +
		"    v: {kind: bucket, key: ip, limit: 5, window: 15m, code: a-b, effect: \"c d\"}\n    w: {kind: bucket, key: ip, limit: 5, window: 15m, shape: 400_form, code: A, path: a b, wait_unit: hours}\n", []string{
		`p.yaml:4: rule "a/r" has no code; add one, such as code: TOO_OFTEN`,
		`p.yaml:4: rule "a/r" has no path; add the form field that it refuses, such as path: username`,
		`p.yaml:4: rule "a/r" has no wait_unit; add minutes, seconds or none`,
		`p.yaml:5: the shape of rule "a/s" is 400; write 429 or 429_resend or 400_form or 400_root or 403_root or 400_slowmode`,
		`p.yaml:5: rule "a/s" has path, which belongs to the shape 400_form; leave it out`,
		`p.yaml:6: rule "a/t" has scope, which belongs to the shape 429; leave it out`,
		`p.yaml:6: rule "a/t" has wait_unit, which belongs to the shape 400_form; leave it out`,
		`p.yaml:6: rule "a/t" has no code; add one, such as code: TOO_OFTEN`,
		`p.yaml:7: rule "a/u" has code, which belongs to rules that can refuse; leave it out`,
		`p.yaml:8: the effect of rule "a/v" is "c d"; write letters, digits and _, such as destroy_ticket`,
		`p.yaml:8: the code of rule "a/v" is a-b; write letters, digits and _, such as RATE_LIMITED`,
		`p.yaml:9: the path of rule "a/w" is a b; write up to 256 bytes without spaces, such as username`,
		`p.yaml:9: wait_unit of rule "a/w" is hours; write none or minutes or seconds`,
	}},
	{"other words", "version: 1\nallowances:\n  a:\n    r: {kind: bucket, key: ip, limit: 5, window: 15m, off_with: rain, counts: some, scope: all, optional: perhaps, hue: 1}\n", []string{
		`p.yaml:4: rule "a/r" has an unknown field "hue"; it may have kind, key, limit, window, shape, code, path, other_path, wait_unit, scope, optional, off_with, counts, cleared_by_succeed, effect, notes`,
		`p.yaml:4: scope of rule "a/r" is all; write user or shared`,
		`p.yaml:4: optional of rule "a/r" is perhaps; write true or false`,
		`p.yaml:4: off_with of rule "a/r" is rain; write never or disable_rate_limits or relax_registration_rate_limits`,
		`p.yaml:4: counts of rule "a/r" is some; write all or changed`,
	}},
	{"shared counter", "version: 1\nallowances:\n  a:\n    r: {kind: \"bucket:c\", key: ip, limit: 5, window: 15m}\n    s: {kind: \"bucket:c\", key: ip, limit: 5, window: 15m}\n" +
		"  b:\n    r: {kind: \"quota:c\", key: ip, limit: 5, window: 15m}\n  c:\n    s: {kind: \"bucket:c\", key: ip64, limit: 5, window: 15m}\n  g:\n    t: {kind: \"bucket:c\", key: ip, limit: 5, window: 900s}\n" +
		"  d:\n    u: {kind: \"cooldown:d\", key: ip, window: 1m}\n  e:\n    v: {kind: \"cooldown_start:d\", key: ip, window: 1m}\n  f:\n    w: {kind: \"cooldown_start:d\", key: ip, window: 2m}\n", []string{
		`p.yaml:5: operation "a" has two rules with the counter c, which one call would charge twice; keep one`,
		`p.yaml:7: rule "b/r" shares the counter c with rule "a/r"; give both the same kind, key, limit and window`,
		`p.yaml:9: rule "c/s" shares the counter c with rule "a/r"; give both the same kind, key, limit and window`,
		`p.yaml:17: rule "f/w" shares the counter d with rule "d/u"; give both the same kind, key, limit and window`,
	}},
	{"called as a bucket", "version: 1\nbuckets: {\"login/mail\": {limit: 1, window: 1s}}\nallowances:\n  login:\n    mail: {kind: bucket, key: email, limit: 5, window: 15m}\n", []string{
		`p.yaml:5: rule "login/mail" is called as a bucket is; rename one of them`,
	}},
	{"a start that refuses", "version: 1\nallowances:\n  a:\n    s: {kind: \"cooldown_start:c\", key: ticket, window: 30s, path: username, wait_unit: minutes, other_path: b, shape: 400_root}\n", []string{
		`p.yaml:4: rule "a/s" has shape, which belongs to rules that can refuse; leave it out`,
		`p.yaml:4: rule "a/s" has path, which belongs to rules that can refuse; leave it out`,
		`p.yaml:4: rule "a/s" has other_path, which belongs to rules that can refuse; leave it out`,
		`p.yaml:4: rule "a/s" has wait_unit, which belongs to rules that can refuse; leave it out`,
	}},
}
