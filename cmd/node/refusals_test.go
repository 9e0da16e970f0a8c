package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ruleRow is a row of the allowance table.
type ruleRow struct {
	index           int
	operation, rule string
	kind            string // without the name of its counter
	key             []string
	limit           int
	wait            time.Duration // from exhausted until one more is due; 0 of a rule that never refuses
	refusal         string        // the whole answer, with … for rules that came before
}

func tsv(t *testing.T, file string) [][]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(data)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows[1:]
}

// ruleTable joins the table with the refusals, whole, that the contract makes of
// its rows. These were worked out from the table and from the English texts, not
// taken from answers.
func ruleTable(t *testing.T) []ruleRow {
	t.Helper()
	refusals := map[string][]string{}
	for _, r := range tsv(t, "testdata/refusals.tsv") {
		refusals[r[0]+"/"+r[1]] = r[2:]
	}
	var rows []ruleRow
	for i, r := range tsv(t, "../../policy/testdata/allowances.tsv") {
		row := ruleRow{index: i, operation: r[0], rule: r[1], key: strings.Split(r[3], ",")}
		row.kind, _, _ = strings.Cut(r[2], ":")
		var err error
		if row.limit, err = strconv.Atoi(r[4]); err != nil {
			t.Fatal(err)
		}
		if refusal, ok := refusals[row.operation+"/"+row.rule]; ok {
			ms, err := strconv.Atoi(refusal[0])
			if err != nil {
				t.Fatal(err)
			}
			row.wait, row.refusal = time.Duration(ms)*time.Millisecond, refusal[1]
		}
		rows = append(rows, row)
	}
	if len(rows) != 60 || len(refusals) != 58 {
		t.Fatalf("%d rules, %d refusals, want 60 and 58", len(rows), len(refusals))
	}
	return rows
}

// subject is one that has this rule's key in common with all of its n, and
// nothing else with any.
func (r *ruleRow) subject(all []ruleRow, n int) string {
	s := map[string]any{"interval": 30}
	for _, other := range all {
		if other.operation != r.operation {
			continue
		}
		for _, part := range other.key {
			s[strings.TrimSuffix(part, "64")] = fmt.Sprintf("%s of %d, call %d", part, r.index, n)
		}
	}
	delete(s, "subnet")
	s["ip"] = fmt.Sprintf("10.%d.%d.1", r.index, n) // a network of its own
	for _, part := range r.key {
		switch part {
		case "ip", "ip64":
			s["ip"] = fmt.Sprintf("10.%d.0.1", r.index)
		case "subnet":
			s["ip"] = fmt.Sprintf("10.%d.0.%d", r.index, n)
		default:
			s[part] = fmt.Sprintf("%s of %d", part, r.index)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Every rule of the table: its limit is accepted, then come its refusal, whole,
// and again acceptance when it is due and not before.
func TestEveryRuleRefuses(t *testing.T) {
	c := startCluster(t, 3, defaultPolicy(t), newStoppedClock())
	rows := ruleTable(t)
	calls := map[string]int{}
	ask := func(r *ruleRow, action string) string {
		calls[r.operation+r.rule]++
		return c.allowance(r.operation, fmt.Sprintf(`{"action":%q,"subject":%s}`, action, r.subject(rows, calls[r.operation+r.rule])))
	}
	for i := range rows {
		r := &rows[i]
		what := r.operation + "/" + r.rule
		fill, times := "take", r.limit
		switch r.kind {
		case "lockout":
			fill = "fail"
		case "after_issue":
			fill = "issue"
		case "imposed":
			times = 0
			if answer := c.allowance(r.operation, fmt.Sprintf(`{"action":"impose","delay":"45s","subject":{%q:%q}}`, r.key[0], fmt.Sprintf("%s of %d", r.key[0], i))); !strings.HasPrefix(answer, `{"allowed":true,"headers":{},"effects":[],"degraded":false,`) {
				t.Errorf("%s: impose: %s", what, answer)
			}
		case "cooldown_start":
			times = 3
		}
		for n := range times {
			answer := ask(r, fill)
			if !strings.HasPrefix(answer, `{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[{"bucket":"`+r.operation) {
				t.Fatalf("%s: call %d of %d: %s", what, n+1, times, answer)
			}
		}
		if r.wait == 0 {
			continue
		}
		answer := ask(r, "take")
		before, after, _ := strings.Cut(r.refusal, "…")
		if !strings.HasPrefix(answer, before) || !strings.HasSuffix(answer, after) {
			t.Errorf("%s:\n got %s\nwant %s", what, answer, r.refusal)
			continue
		}
		if strings.Contains(answer[len(before):len(answer)-len(after)], `"allowed":false`) {
			t.Errorf("%s: a rule before refuses: %s", what, answer)
		}
	}
	rows = slices.DeleteFunc(rows, func(r ruleRow) bool { return r.wait == 0 })
	all := ruleTable(t)
	slices.SortStableFunc(rows, func(a, b ruleRow) int { return cmp.Compare(a.wait, b.wait) })
	began := c.clock.Now()
	for i := range rows {
		r := &rows[i]
		again := func(want bool) {
			calls[r.operation+r.rule]++
			answer := c.allowance(r.operation, `{"subject":`+r.subject(all, calls[r.operation+r.rule])+`}`)
			if got := parse[answered](t, answer).Allowed; got != want {
				t.Errorf("%s/%s after %s: allowed %t, want %t: %s", r.operation, r.rule, c.clock.Now().Sub(began), got, want, answer)
			}
		}
		if early := began.Add(r.wait - time.Millisecond); c.clock.Now().Before(early) {
			c.clock.Advance(early.Sub(c.clock.Now()))
			for j := i; j < len(rows) && rows[j].wait == r.wait; j++ {
				r = &rows[j]
				again(false)
			}
			c.clock.Advance(time.Millisecond)
			r = &rows[i]
		}
		again(true)
	}
}

// Of a rule that only starts a cooldown every call is accepted, and the wait is
// that of the operation that it is for.
func TestEveryStartBeginsItsCooldown(t *testing.T) {
	c := startCluster(t, 3, defaultPolicy(t), newStoppedClock())
	const refusal = `{"allowed":false,"status":429,"headers":{"Retry-After":"30","X-RateLimit-Scope":"user","X-RateLimit-Limit":"1",` +
		`"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1767225630","X-RateLimit-Reset-After":"30"},` +
		`"body":{"code":"RATE_LIMITED","message":"` + english + `","global":false,"retry_after":30},"effects":[],"degraded":false,` +
		`"buckets":[{"bucket":"%s/ticket","allowed":false,"limit":1,"remaining":0,"retry_after":30,"reset_after":30}]}`
	for start, resend := range map[string]string{
		"start_email_change":    "resend_original_email_code",
		"start_password_change": "resend_password_change_code",
	} {
		for i := range 3 {
			account := fmt.Sprintf(`"account":"a%d"`, i)
			same(t, start, c.allowance(start, `{"subject":{"ticket":"t",`+account+`}}`),
				`{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[`+
					`{"bucket":"`+start+`/account","allowed":true,"limit":3,"remaining":2,"retry_after":0,"reset_after":300},`+
					`{"bucket":"`+start+`/ticket","allowed":true,"limit":1,"remaining":0,"retry_after":0,"reset_after":30}]}`)
			same(t, resend, c.allowance(resend, `{"subject":{"ticket":"t",`+account+`}}`), fmt.Sprintf(refusal, resend))
		}
		// Without a ticket there is nothing to start.
		same(t, start, c.allowance(start, `{"subject":{"account":"b"}}`), `{"allowed":true,"headers":{},"effects":[],"degraded":false,"buckets":[`+
			`{"bucket":"`+start+`/account","allowed":true,"limit":3,"remaining":2,"retry_after":0,"reset_after":300}]}`)
	}
}
