package policy_test

// errorCase is a file with something wrong, and its whole error.
type errorCase struct {
	name   string
	source string
	want   []string
}

var errorCases = []errorCase{
	// The file as a whole.
	{"empty", "", []string{"p.yaml:1: the file is empty; the least that a policy holds is version: 1"}},
	{"comments only", "# a\n# b\n", []string{"p.yaml:1: the file is empty; the least that a policy holds is version: 1"}},
	{"document mark only", "---\n", []string{"p.yaml:1: the file is empty; the least that a policy holds is version: 1"}},
	{"not UTF-8", "version: 1\n# \xff\n", []string{"p.yaml:2: not UTF-8; save the file as UTF-8 text"}},
	{"NUL", "version: 1\nbypass_flag: \"a\x00b\"\n", []string{"p.yaml:2: a NUL byte; save the file as UTF-8 text"}},
	{"second document", "version: 1\n---\nversion: 1\n", []string{"p.yaml:2: a second YAML document begins here; a policy is one document"}},
	{"empty second document", "version: 1\n---\n", []string{"p.yaml:2: a second YAML document begins here; a policy is one document"}},
	{"empty first document", "---\n---\nversion: 1\n", []string{"p.yaml:2: a second YAML document begins here; a policy is one document"}},
	{"second document after dots", "version: 1\n...\nversion: 1\n", []string{"p.yaml:3: a second YAML document begins here; a policy is one document"}},
	{"directive", "%YAML 1.2\n---\nversion: 1\n", []string{"p.yaml:1: a YAML directive (%); policies have none, leave it out"}},
	{"list", "- version: 1\n", []string{"p.yaml:1: the policy is a list; write a mapping such as version: …"}},
	{"text", "version 1\n", []string{"p.yaml:1: the policy is version 1; write a mapping such as version: …"}},
	{"syntax", "version: 1\nbuckets: {a: [}\n", []string{"p.yaml:2: could not find '{' character corresponding to '}'; mend the YAML"}},
	{"open quote", "version: 1\nbypass_flag: \"A\n", []string{"p.yaml:2: could not find end character of double-quoted text; mend the YAML"}},
	{"tab", "version: 1\nbuckets:\n\ta: {limit: 1, window: 1s}\n", []string{"p.yaml:3: a tab; YAML is indented and spaced with spaces"}},
	{"segments that no request has", "version: 1\nroutes:\n  GET /{id}: []\n  GET /a%20b: []\n  GET /a/../b: []\n  GET /./b: []\n", []string{
		`p.yaml:3: route "GET /{id}": a brace in "{id}"; write a parameter with a colon, such as :guild_id`,
		`p.yaml:4: route "GET /a%20b": a % in "a%20b"; write the character itself, for paths are matched decoded`,
		`p.yaml:5: route "GET /a/../b": the segment "..", which no request has; write the path that it leads to`,
		`p.yaml:6: route "GET /./b": the segment ".", which no request has; write the path that it leads to`,
	}},
	{"indented too far", "version: 1\n\n buckets: {}\n", []string{"p.yaml:3: a name with a colon where none can be; indent it like those beside it, and put text that holds a colon in quotes"}},
	{"a field indented too far", "version: 1\nbuckets:\n  a:\n    limit: 5\n      window: 1s\n", []string{"p.yaml:5: a name with a colon where none can be; indent it like those beside it, and put text that holds a colon in quotes"}},
	{"indented too little", "version: 1\nbuckets:\n    a:\n      limit: 5\n   window: 1s\n", []string{"p.yaml:5: something that belongs nowhere; indent it like what it stands beside"}},
	{"a colon in text", "version: 1\nbypass_flag: a: b\n", []string{"p.yaml:2: a name with a colon where none can be; indent it like those beside it, and put text that holds a colon in quotes"}},
	{"a colon in a bucket's name", "version: 1\nbuckets: {guild:read: {limit: 1, window: 1s}}\n", []string{"p.yaml:2: a { that does not go on as one; write {limit: 60, window: 10s}, and put names and text with colons or braces in quotes"}},
	{"a colon in a route", "version: 1\nroutes: {GET /a/:id: []}\n", []string{"p.yaml:2: a { that does not go on as one; write {limit: 60, window: 10s}, and put names and text with colons or braces in quotes"}},
	{"a variable", "version: 1\nbuckets:\n  a: {limit: ${LIMIT}, window: 1s}\n", []string{"p.yaml:3: a { that does not go on as one; write {limit: 60, window: 10s}, and put names and text with colons or braces in quotes"}},
	{"two commas", "version: 1\nbuckets:\n  a: {limit: 1,, window: 1s}\n", []string{"p.yaml:3: a { or [ where it cannot be; write {limit: 60, window: 10s}, with a comma between two fields"}},
	{"a list as a name", "version: 1\nbuckets:\n  [a]: c\n", []string{"p.yaml:3: a { or [ where it cannot be; write {limit: 60, window: 10s}, with a comma between two fields"}},
	{"a sign in front", "version: 1\nbypass_flag: @A\n", []string{"p.yaml:2: text that begins with a sign of YAML's own; put it in quotes"}},
	{"a line without a value", "version: 1\nbuckets:\n  a: {limit: 1, window: 1s}\n  b\n", []string{"p.yaml:4: a line without a value; write a colon and a space behind the name, as in limit: 60"}},
	{"anchor and alias", "version: 1\nbuckets:\n  a: &x {limit: 1, window: 1s}\n  b: *x\n", []string{
		"p.yaml:3: an anchor (&); policies have none, write the value itself",
		"p.yaml:4: an alias (*); policies have none, write the value itself (text that begins with * needs quotes)",
	}},
	{"anchor in a list", "version: 1\nbuckets: {a: {limit: 1, window: 1s}}\nroutes:\n  GET /: [&x a]\n", []string{
		"p.yaml:4: an anchor (&); policies have none, write the value itself",
	}},
	{"tag", "version: !!int 1\nbypass_flag: !flag A\n", []string{
		"p.yaml:1: a tag (!!int); policies have none, leave it out",
		"p.yaml:2: a tag (!flag); policies have none, leave it out",
	}},
	{"merge key", "version: 1\nglobal:\n  <<: {limit: 1}\n  limit: 1\n  window: 1s\n", []string{
		"p.yaml:3: a merge key (<<); policies have none, write the fields themselves",
	}},
	{"complex key", "version: 1\n? test_mode\n: true\n", []string{"p.yaml:2: a key after ?; write it as name: value"}},
	{"list of empty items", "version: 1\nroutes:\n  GET /:\n" + "    -\n    -\n    -\n    -\n    -\n    -\n    -\n", []string{
		"p.yaml:4: a bucket of route \"GET /\" is empty; write text such as \"guild:read::guild_id\", in quotes if need be",
		"p.yaml:5: a bucket of route \"GET /\" is empty; write text such as \"guild:read::guild_id\", in quotes if need be",
		"p.yaml:6: a bucket of route \"GET /\" is empty; write text such as \"guild:read::guild_id\", in quotes if need be",
		"p.yaml:7: a bucket of route \"GET /\" is empty; write text such as \"guild:read::guild_id\", in quotes if need be",
		"p.yaml:8: a bucket of route \"GET /\" is empty; write text such as \"guild:read::guild_id\", in quotes if need be",
		"p.yaml:9: a bucket of route \"GET /\" is empty; write text such as \"guild:read::guild_id\", in quotes if need be",
		"p.yaml:10: a bucket of route \"GET /\" is empty; write text such as \"guild:read::guild_id\", in quotes if need be",
	}},
	{"key that is no text", "version: 1\n7: a\nbuckets:\n  true: {limit: 1, window: 1s}\n", []string{
		"p.yaml:2: the name 7 is not text; put it in quotes",
		"p.yaml:4: the name true is not text; put it in quotes",
	}},

	// Settings.
	{"no version", "test_mode: true\n", []string{"p.yaml:1: the policy has no version; add version: 1"}},
	{"other version", "# a\nversion: 2\n", []string{"p.yaml:2: version is 2, which is not known; write version: 1"}},
	{"version as text", "version: \"1\"\n", []string{"p.yaml:1: version is \"1\", which is not known; write version: 1"}},
	{"version as float", "version: 1.0\n", []string{"p.yaml:1: version is 1.0, which is not known; write version: 1"}},
	{"version empty", "version:\n", []string{"p.yaml:1: version is empty, which is not known; write version: 1"}},
	{"unknown fields", "version: 1\ntestmode: true\nforward: 1\nswitches: {disable: true}\nclient_ip: {requird: true}\nglobal: {limit: 1, window: 1s, flag: {}}\nbuckets: {a: {limit: 1, window: 1s, name: a}}\n", []string{
		"p.yaml:2: the policy has an unknown field \"testmode\"; did you mean test_mode?",
		"p.yaml:3: the policy has an unknown field \"forward\"; it may have version, test_mode, switches, client_ip, global, bypass_flag, on_unreachable, on_full, buckets, routes, allowances",
		"p.yaml:4: switches has an unknown field \"disable\"; it may have disable_rate_limits, relax_registration_rate_limits",
		"p.yaml:5: client_ip has an unknown field \"requird\"; did you mean required?",
		"p.yaml:6: global has an unknown field \"flag\"; did you mean flags?",
		"p.yaml:7: bucket \"a\" has an unknown field \"name\"; it may have limit, window, exempt_from_global, keyed_by, scope, section",
	}},
	{"fields twice", "version: 1\nglobal:\n  limit: 1\n  window: 1s\n  limit: 2\n  flags: {A: 1, B: 2, A: 3}\n'version': 1\nbuckets: {a: {limit: 1, window: 1s, limit: 1}}\n", []string{
		"p.yaml:5: global has the field \"limit\" twice, first in line 3; keep one",
		"p.yaml:6: global has the flag \"A\" twice, first in line 6; keep one",
		"p.yaml:7: the policy has the field \"version\" twice, first in line 1; keep one",
		"p.yaml:8: bucket \"a\" has the field \"limit\" twice, first in line 8; keep one",
	}},
	{"booleans", "version: 1\ntest_mode: yes\nswitches: {disable_rate_limits: True, relax_registration_rate_limits: \"true\"}\nclient_ip: {required: 1}\nbuckets: {a: {limit: 1, window: 1s, exempt_from_global: []}}\n", []string{
		"p.yaml:2: test_mode is yes; write true or false",
		"p.yaml:3: disable_rate_limits is True; write true or false",
		"p.yaml:3: relax_registration_rate_limits is \"true\"; write true or false",
		"p.yaml:4: client_ip.required is 1; write true or false",
		"p.yaml:5: exempt_from_global of bucket \"a\" is a list; write true or false",
	}},
	{"words", "version: 1\non_unreachable: alow\non_full: true\nbuckets: {a: {limit: 1, window: 1s, keyed_by: ip, scope: global}}\n", []string{
		"p.yaml:2: on_unreachable is alow; write local or allow or deny",
		"p.yaml:3: on_full is true; write admit or refuse",
		"p.yaml:4: keyed_by of bucket \"a\" is ip; write caller or email",
		"p.yaml:4: scope of bucket \"a\" is global; write user or shared",
	}},
	{"texts", "version: 1\nbypass_flag: 1\nclient_ip: {header: \"\"}\nbuckets: {a: {limit: 1, window: 1s, section: {}}}\n", []string{
		"p.yaml:2: bypass_flag is 1; write text such as SOME_FLAG, in quotes if need be",
		"p.yaml:3: client_ip.header is empty text; write text such as x-forwarded-for, or leave it out",
		"p.yaml:4: the section of bucket \"a\" is a mapping; write text such as auth, in quotes if need be",
	}},
	{"block of text", "version: 1\nbypass_flag: |\n  A\n", []string{"p.yaml:2: bypass_flag is a block of text; write text such as SOME_FLAG, in quotes if need be"}},
	{"flags", "version: 1\nbypass_flag: \"A B\"\nglobal: {limit: 1, window: 1ms, flags: {\"A,B\": 1, C: 1001, D: none}}\n", []string{
		"p.yaml:2: bypass_flag is \"A B\", not a flag's name; write up to 256 bytes without spaces and commas",
		"p.yaml:3: global flag \"A,B\" is not a flag's name; write up to 256 bytes without spaces and commas",
		"p.yaml:3: global flag \"C\" allows 1001 per 1ms, which is under 1µs for each; write a limit of at most 1000 or a window of at least 1.001ms",
		"p.yaml:3: the limit of global flag \"D\" is none; write a whole number in plain digits, from 1 to 1000000000",
	}},
	{"client_ip", "version: 1\nclient_ip: {header: \"x: y\", trusted_hops: 0}\n", []string{
		"p.yaml:2: client_ip.header is \"x: y\", not a header's name; write one such as x-forwarded-for",
		"p.yaml:2: client_ip.trusted_hops is 0, out of range; write a whole number from 1 to 1000",
	}},
	{"kinds of sections", "version: 1\nswitches: []\nclient_ip: x-forwarded-for\nglobal:\nbuckets: [a]\nroutes: 5\n", []string{
		"p.yaml:2: switches is a list; write a mapping such as disable_rate_limits: …",
		"p.yaml:3: client_ip is x-forwarded-for; write a mapping such as required: …",
		"p.yaml:4: global is empty; write a mapping such as limit: …",
		"p.yaml:5: buckets is a list; write a mapping such as \"auth:login\": {limit: 10, window: 10s}",
		"p.yaml:6: routes is 5; write a mapping such as GET /guilds/:guild_id: [\"guild:read::guild_id\"]",
	}},

	// Numbers and windows.
	{"limits", "version: 1\nbuckets:\n  a: {limit: 1.5, window: 1s}\n  b: {limit: 1e3, window: 1s}\n  c: {limit: 0x10, window: 1s}\n  d: {limit: 0o7, window: 1s}\n" +
		"  e: {limit: 1_000, window: 1s}\n  f: {limit: +5, window: 1s}\n  g: {limit: \"5\", window: 1s}\n  h: {limit: -5, window: 1s}\n  i: {limit: 010, window: 1s}\n" +
		"  j: {limit: , window: 1s}\n  k: {limit: [5], window: 1s}\n  l: {limit: .inf, window: 1s}\n  m: {limit: 5 000, window: 1s}\n", []string{
		"p.yaml:3: the limit of bucket \"a\" is 1.5; write a whole number in plain digits, from 1 to 1000000000",
		"p.yaml:4: the limit of bucket \"b\" is 1e3; write a whole number in plain digits, from 1 to 1000000000",
		"p.yaml:5: the limit of bucket \"c\" is 0x10; write a whole number in plain digits, from 1 to 1000000000",
		"p.yaml:6: the limit of bucket \"d\" is 0o7; write a whole number in plain digits, from 1 to 1000000000",
		"p.yaml:7: the limit of bucket \"e\" is 1_000; write a whole number in plain digits, from 1 to 1000000000",
		"p.yaml:8: the limit of bucket \"f\" is +5; write a whole number in plain digits, from 1 to 1000000000",
		"p.yaml:9: the limit of bucket \"g\" is the text \"5\"; write the digits without quotes",
		"p.yaml:10: the limit of bucket \"h\" is -5; write a whole number in plain digits, from 1 to 1000000000",
		"p.yaml:11: the limit of bucket \"i\" is 010; write a whole number in plain digits, from 1 to 1000000000",
		"p.yaml:12: the limit of bucket \"j\" is empty; write a whole number in plain digits, from 1 to 1000000000",
		"p.yaml:13: the limit of bucket \"k\" is a list; write a whole number in plain digits, from 1 to 1000000000",
		"p.yaml:14: the limit of bucket \"l\" is .inf; write a whole number in plain digits, from 1 to 1000000000",
		"p.yaml:15: the limit of bucket \"m\" is 5 000; write a whole number in plain digits, from 1 to 1000000000",
	}},
	{"limits out of range", "version: 1\nbuckets:\n  a: {limit: 0, window: 1s}\n  b: {limit: 1000000001, window: 366d}\n  c: {limit: 99999999999999999999, window: 1s}\n", []string{
		"p.yaml:3: the limit of bucket \"a\" is 0, out of range; write a whole number from 1 to 1000000000",
		"p.yaml:4: the limit of bucket \"b\" is 1000000001, out of range; write a whole number from 1 to 1000000000",
		"p.yaml:5: the limit of bucket \"c\" is 99999999999999999999, out of range; write a whole number from 1 to 1000000000",
	}},
	{"windows", "version: 1\nbuckets:\n  a: {limit: 1, window: 60}\n  b: {limit: 1, window: 999us}\n  c: {limit: 1, window: 366d1ns}\n  d: {limit: 1, window: 1 s}\n" +
		"  e: {limit: 1, window: -1s}\n  f: {limit: 1, window: 1w}\n  g: {limit: 1, window: ~}\n  h: {limit: 1, window: {s: 1}}\n  i: {limit: 1, window: 99999999999999999999h}\n", []string{
		"p.yaml:3: the window of bucket \"a\" is 60, without a unit; write a duration such as 60s",
		"p.yaml:4: the window of bucket \"b\" is 999us, out of range; write 1ms to 366d",
		"p.yaml:5: the window of bucket \"c\" is 366d1ns, out of range; write 1ms to 366d",
		"p.yaml:6: the window of bucket \"d\" is 1 s, which is no duration; write one such as 10s, 1m, 1h or 1d",
		"p.yaml:7: the window of bucket \"e\" is -1s, which is no duration; write one such as 10s, 1m, 1h or 1d",
		"p.yaml:8: the window of bucket \"f\" is 1w, which is no duration; write one such as 10s, 1m, 1h or 1d",
		"p.yaml:9: the window of bucket \"g\" is empty; write a duration such as 10s, 1m, 1h or 1d",
		"p.yaml:10: the window of bucket \"h\" is a mapping; write a duration such as 10s, 1m, 1h or 1d",
		"p.yaml:11: the window of bucket \"i\" is 99999999999999999999h, out of range; write 1ms to 366d",
	}},
	{"under a microsecond", "version: 1\nglobal: {limit: 1000000000, window: 16m39s}\nbuckets:\n  a:\n    window: 1ms\n    limit: 1001\n", []string{
		"p.yaml:2: global allows 1000000000 per 16m39s, which is under 1µs for each; write a limit of at most 999000000 or a window of at least 16m40s",
		"p.yaml:6: bucket \"a\" allows 1001 per 1ms, which is under 1µs for each; write a limit of at most 1000 or a window of at least 1.001ms",
	}},
	{"limit or window missing", "version: 1\nglobal: {flags: {A: 5}}\nbuckets:\n  a: {window: 1s}\n  b:\n    limit: 1\n  c: {}\n", []string{
		"p.yaml:2: global has no limit; add one, such as limit: 60",
		"p.yaml:2: global has no window; add one, such as window: 10s",
		"p.yaml:4: bucket \"a\" has no limit; add one, such as limit: 60",
		"p.yaml:5: bucket \"b\" has no window; add one, such as window: 10s",
		"p.yaml:7: bucket \"c\" has no limit; add one, such as limit: 60",
		"p.yaml:7: bucket \"c\" has no window; add one, such as window: 10s",
	}},

	// Buckets.
	{"buckets twice", "version: 1\nbuckets:\n  \"a\": {limit: 1, window: 1s}\n  b: {limit: 1, window: 1s}\n  'a': {limit: 2, window: 1s}\n", []string{
		"p.yaml:5: the policy has the bucket \"a\" twice, first in line 3; keep one",
	}},
	{"kinds of buckets", "version: 1\nbuckets:\n  a: 60\n  b: [60, 10s]\n  c:\n  d: {limit: 1, window: 1s}\n", []string{
		"p.yaml:3: bucket \"a\" is 60; write a mapping such as {limit: 60, window: 10s}",
		"p.yaml:4: bucket \"b\" is a list; write a mapping such as {limit: 60, window: 10s}",
		"p.yaml:5: bucket \"c\" is empty; write a mapping such as {limit: 60, window: 10s}",
	}},
	{"bucket names", "version: 1\nbuckets:\n  global: {limit: 1, window: 1s}\n  \"\": {limit: 1, window: 1s}\n  a b: {limit: 1, window: 1s}\n  a?b: {limit: 1, window: 1s}\n  \"a\\tb\": {limit: 1, window: 1s}\n  \"a\\u200bb\": {limit: 1, window: 1s}\n", []string{
		"p.yaml:3: the name \"global\" is that of the global bucket; write another",
		"p.yaml:4: the bucket name \"\" is malformed; write 1 to 256 bytes of printable characters without spaces and \"?\"",
		"p.yaml:5: the bucket name \"a b\" is malformed; write 1 to 256 bytes of printable characters without spaces and \"?\"",
		"p.yaml:6: the bucket name \"a?b\" is malformed; write 1 to 256 bytes of printable characters without spaces and \"?\"",
		"p.yaml:7: the bucket name \"a\\tb\" is malformed; write 1 to 256 bytes of printable characters without spaces and \"?\"",
		"p.yaml:8: the bucket name \"a\\u200bb\" is malformed; write 1 to 256 bytes of printable characters without spaces and \"?\"",
	}},
	{"placeholders", "version: 1\nbuckets:\n  \"a::\": {limit: 1, window: 1s}\n  \"a:\": {limit: 1, window: 1s}\n  \"a:::b\": {limit: 1, window: 1s}\n  \"::a\": {limit: 1, window: 1s}\n  \":\": {limit: 1, window: 1s}\n" +
		"  \"a::b-c\": {limit: 1, window: 1s}\n  \"a::1b\": {limit: 1, window: 1s}\n  \"a::é\": {limit: 1, window: 1s}\n  \"a::b:c::b\": {limit: 1, window: 1s}\n  \"a::b::\": {limit: 1, window: 1s}\n", []string{
		"p.yaml:3: bucket \"a::\": a colon too many; write two before a placeholder and one between other parts",
		"p.yaml:4: bucket \"a:\": a colon at the end; leave it out, or write a parameter behind it, such as ::guild_id",
		"p.yaml:5: bucket \"a:::b\": a colon too many; write two before a placeholder and one between other parts",
		"p.yaml:6: bucket \"::a\": a colon too many; write two before a placeholder and one between other parts",
		"p.yaml:7: bucket \":\": a colon too many; write two before a placeholder and one between other parts",
		"p.yaml:8: bucket \"a::b-c\": malformed placeholder \"b-c\"; write letters, digits and _, such as ::guild_id",
		"p.yaml:9: bucket \"a::1b\": malformed placeholder \"1b\"; write letters, digits and _, such as ::guild_id",
		"p.yaml:10: bucket \"a::é\": malformed placeholder \"é\"; write letters, digits and _, such as ::guild_id",
		"p.yaml:11: bucket \"a::b:c::b\": the placeholder \"b\" twice; keep one",
		"p.yaml:12: bucket \"a::b::\": a colon too many; write two before a placeholder and one between other parts",
	}},

	// Routes.
	{"routes twice", "version: 1\nroutes:\n  GET /a/:x/b: []\n  POST /a/:y/b: []\n  \"GET /a/:x/b\": []\n  GET /a/:y/b: []\n  GET /a/x/b: []\n  GET /a/:x/b/: []\n  GET /a/*: []\n", []string{
		"p.yaml:5: the policy has the route \"GET /a/:x/b\" twice, first in line 3; keep one",
		"p.yaml:6: route \"GET /a/:y/b\" matches what \"GET /a/:x/b\" in line 3 matches; keep one",
	}},
	{"methods", "version: 1\nroutes:\n  get /a: []\n  TRACE /a: []\n  /a: []\n  GET: []\n", []string{
		"p.yaml:3: route \"get /a\": no known method in front; write one of GET HEAD POST PUT PATCH DELETE OPTIONS, a space and the path",
		"p.yaml:4: route \"TRACE /a\": no known method in front; write one of GET HEAD POST PUT PATCH DELETE OPTIONS, a space and the path",
		"p.yaml:5: route \"/a\": no known method in front; write one of GET HEAD POST PUT PATCH DELETE OPTIONS, a space and the path",
		"p.yaml:6: route \"GET\": no known method in front; write one of GET HEAD POST PUT PATCH DELETE OPTIONS, a space and the path",
	}},
	{"paths", "version: 1\nroutes:\n  GET a: []\n  GET  /a: []\n  GET /a//b: []\n  GET //: []\n  GET /a?b=c: []\n  \"GET /a#b\": []\n  GET /a b: []\n  GET /*/a: []\n  GET /a*: []\n  GET /**: []\n  GET /*/: []\n", []string{
		"p.yaml:3: route \"GET a\": the path does not begin with /; write one space after the method, then a path such as /guilds/:guild_id",
		"p.yaml:4: route \"GET  /a\": the path does not begin with /; write one space after the method, then a path such as /guilds/:guild_id",
		"p.yaml:5: route \"GET /a//b\": an empty segment; write one / between segments",
		"p.yaml:6: route \"GET //\": an empty segment; write one / between segments",
		"p.yaml:7: route \"GET /a?b=c\": malformed segment \"a?b=c\"; write up to 256 bytes of printable characters without spaces, ? and #",
		"p.yaml:8: route \"GET /a#b\": malformed segment \"a#b\"; write up to 256 bytes of printable characters without spaces, ? and #",
		"p.yaml:9: route \"GET /a b\": malformed segment \"a b\"; write up to 256 bytes of printable characters without spaces, ? and #",
		"p.yaml:10: route \"GET /*/a\": a * in \"*\"; it can only be the whole last segment, as in /dl/*",
		"p.yaml:11: route \"GET /a*\": a * in \"a*\"; it can only be the whole last segment, as in /dl/*",
		"p.yaml:12: route \"GET /**\": a * in \"**\"; it can only be the whole last segment, as in /dl/*",
		"p.yaml:13: route \"GET /*/\": a * in \"*\"; it can only be the whole last segment, as in /dl/*",
	}},
	{"parameters", "version: 1\nroutes:\n  \"GET /:\": []\n  GET /:a-b: []\n  GET /:1a: []\n  GET /:a:b: []\n  GET /:a/:b/:a: []\n", []string{
		"p.yaml:3: route \"GET /:\": malformed parameter \":\"; write letters, digits and _, such as :guild_id",
		"p.yaml:4: route \"GET /:a-b\": malformed parameter \":a-b\"; write letters, digits and _, such as :guild_id",
		"p.yaml:5: route \"GET /:1a\": malformed parameter \":1a\"; write letters, digits and _, such as :guild_id",
		"p.yaml:6: route \"GET /:a:b\": malformed parameter \":a:b\"; write letters, digits and _, such as :guild_id",
		"p.yaml:7: route \"GET /:a/:b/:a\": the parameter \":a\" twice; call one of them differently",
	}},
	{"kinds of routes", "version: 1\nbuckets: {a: {limit: 1, window: 1s}}\nroutes:\n  GET /a: a\n  GET /b:\n  GET /c: {a: a}\n  GET /d: [1, [a], \"\", ~]\n", []string{
		"p.yaml:4: route \"GET /a\": its buckets are a; write a list such as [\"guild:read::guild_id\"], [] for none",
		"p.yaml:5: route \"GET /b\": its buckets are empty; write a list such as [\"guild:read::guild_id\"], [] for none",
		"p.yaml:6: route \"GET /c\": its buckets are a mapping; write a list such as [\"guild:read::guild_id\"], [] for none",
		"p.yaml:7: a bucket of route \"GET /d\" is 1; write text such as \"guild:read::guild_id\", in quotes if need be",
		"p.yaml:7: a bucket of route \"GET /d\" is a list; write text such as \"guild:read::guild_id\", in quotes if need be",
		"p.yaml:7: a bucket of route \"GET /d\" is empty text; write text such as \"guild:read::guild_id\", or leave it out",
		"p.yaml:7: a bucket of route \"GET /d\" is empty; write text such as \"guild:read::guild_id\", in quotes if need be",
	}},
	{"no such bucket", "version: 1\nbuckets:\n  \"guild:emojis:list::guild_id\": {limit: 1, window: 1s}\n  \"a\": {limit: 1, window: 1s}\nroutes:\n  GET /a:\n    - a\n    - guild:emoji:list::guild_id\n    - guild:emojis:list\n    - guild:stickers:list\n    - \"?x\"\n  GET /b: [global]\n", []string{
		"p.yaml:8: route \"GET /a\": no bucket is called \"guild:emoji:list::guild_id\"; did you mean \"guild:emojis:list::guild_id\"?",
		"p.yaml:9: route \"GET /a\": no bucket is called \"guild:emojis:list\"; did you mean \"guild:emojis:list::guild_id\"?",
		"p.yaml:10: route \"GET /a\": no bucket is called \"guild:stickers:list\"; declare it under buckets",
		"p.yaml:11: route \"GET /a\": no bucket is called \"\"; declare it under buckets",
		"p.yaml:12: route \"GET /b\": no bucket is called \"global\"; declare it under buckets",
	}},
	{"a bucket with an error is declared all the same", "version: 1\nbuckets: {a: {limit: 0, window: 1s}}\nroutes: {GET /: [a]}\n", []string{
		"p.yaml:2: the limit of bucket \"a\" is 0, out of range; write a whole number from 1 to 1000000000",
	}},
	{"conditions and repeats", "version: 1\nbuckets: {a: {limit: 1, window: 1s}, b: {limit: 1, window: 1s}}\nroutes:\n  GET /a: [a, b, a]\n  GET /b: [\"a?x\", a?y]\n  GET /c: [\"a?\"]\n  GET /d: [a?X, a?1, a?x-y, a?x?y, a?_x]\n", []string{
		"p.yaml:4: route \"GET /a\" has the bucket \"a\" twice; keep one",
		"p.yaml:5: route \"GET /b\" has the bucket \"a\" twice; keep one",
		"p.yaml:6: route \"GET /c\": malformed condition \"\"; write a small letter, then small letters, digits and _, such as ?group",
		"p.yaml:7: route \"GET /d\": malformed condition \"X\"; write a small letter, then small letters, digits and _, such as ?group",
		"p.yaml:7: route \"GET /d\": malformed condition \"1\"; write a small letter, then small letters, digits and _, such as ?group",
		"p.yaml:7: route \"GET /d\": malformed condition \"x-y\"; write a small letter, then small letters, digits and _, such as ?group",
		"p.yaml:7: route \"GET /d\": malformed condition \"x?y\"; write a small letter, then small letters, digits and _, such as ?group",
		"p.yaml:7: route \"GET /d\": malformed condition \"_x\"; write a small letter, then small letters, digits and _, such as ?group",
	}},
	{"too many buckets", "version: 1\nbuckets: {a: {limit: 1, window: 1s}}\nroutes:\n  GET /: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]\n", []string{
		"p.yaml:4: route \"GET /\" has 17 buckets; a route has at most 16",
	}},
}
