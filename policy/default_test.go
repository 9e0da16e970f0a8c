package policy_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"weir/policy"
)

// table returns the rows of a tab-separated file, the first row less its
// heading, which must be as given.
func table(t *testing.T, file, heading string) [][]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if lines[0] != heading {
		t.Fatalf("%s has the columns %q, want %q", file, lines[0], heading)
	}
	rows := make([][]string, 0, len(lines)-1)
	for _, line := range lines[1:] {
		rows = append(rows, strings.Split(line, "\t"))
	}
	return rows
}

func mustDefault(t *testing.T) *policy.Policy {
	t.Helper()
	p, err := policy.Default()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compare reports the first rows in which two tables of one line each differ.
func compare(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("the policy has %d rows, the table %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("row %d:\ngot  %q\nwant %q", i+1, got[i], want[i])
		}
	}
}

func TestDefaultHasTheBucketsOfTheTable(t *testing.T) {
	rows := table(t, "testdata/route-buckets.tsv", "section\tbucket\tlimit\twindow_ms\texempt_from_global\tkeyed_by\tscope\tbucket_id")
	if len(rows) != 290 {
		t.Fatalf("the table has %d buckets, want 290", len(rows))
	}
	want := make([]string, len(rows))
	for i, row := range rows {
		want[i] = strings.Join(row, "\t")
	}
	p := mustDefault(t)
	got := make([]string, len(p.Buckets))
	for i, b := range p.Buckets {
		got[i] = strings.Join([]string{b.Section, b.Name, strconv.FormatInt(b.Limit(), 10),
			strconv.FormatFloat(float64(b.Window().Nanoseconds())/1e6, 'f', -1, 64),
			strconv.FormatBool(b.ExemptFromGlobal), b.KeyedBy.String(), b.Scope.String(), b.ID}, "\t")
		if b.Index != i {
			t.Errorf("bucket %s has the index %d, want %d", b.Name, b.Index, i)
		}
		if found, _ := p.Bucket(b.Name); found != b {
			t.Errorf("bucket %s is not found by its name", b.Name)
		}
	}
	compare(t, got, want)
}

func TestDefaultHasTheRoutesOfTheTable(t *testing.T) {
	rows := table(t, "testdata/routes.tsv", "method\tpath\tbuckets")
	if len(rows) != 517 {
		t.Fatalf("the table has %d routes, want 517", len(rows))
	}
	want := make([]string, len(rows))
	for i, row := range rows {
		want[i] = strings.Join(row, "\t")
	}
	p := mustDefault(t)
	got := make([]string, len(p.Routes))
	for i, r := range p.Routes {
		names := make([]string, len(r.Buckets))
		for j, rb := range r.Buckets {
			names[j] = rb.Bucket.Name
			if rb.Condition != "" {
				names[j] += "?" + rb.Condition
			}
		}
		got[i] = strings.Join([]string{r.Method, r.Path, strings.Join(names, ",")}, "\t")
		if r.Name != r.Method+" "+r.Path {
			t.Errorf("route %d is called %q", i, r.Name)
		}
		if found, _ := p.Route(r.Name); found != r {
			t.Errorf("route %s is not found by its name", r.Name)
		}
	}
	compare(t, got, want)
}

func TestDefaultSettings(t *testing.T) {
	p := mustDefault(t)
	if p.TestMode || p.Switches != (policy.Switches{}) ||
		p.ClientIP != (policy.ClientIP{Required: false, Header: "x-forwarded-for", TrustedHops: 1}) ||
		p.BypassFlag != "RATE_LIMIT_BYPASS" || p.OnUnreachable != policy.UnreachableLocal || p.OnFull != policy.FullAdmit {
		t.Errorf("got %+v", p)
	}
	g := p.Global
	if g.Rule.Limit() != 50 || g.Rule.Window().String() != "1s" || len(g.Flags) != 1 ||
		g.Flags[0].Flag != "HIGH_GLOBAL_RATE_LIMIT" || g.Flags[0].Rule.Limit() != 1200 || g.Flags[0].Rule.Window().String() != "1s" ||
		g.Bucket.Name != "global" || g.Bucket.Index != 290 {
		t.Errorf("global: got %+v", g)
	}
}

func TestDefaultWarnings(t *testing.T) {
	p := mustDefault(t)
	_, warnings, err := policy.Parse("default.yaml", p.Source())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"GET /emojis/:emoji_id/metadata :user_id",
		"GET /emojis/:emoji_id/source :user_id",
		"DELETE /oauth2/applications/:id :client_id",
		"PATCH /oauth2/applications/:id :client_id",
		"PATCH /oauth2/applications/:id/bot :client_id",
		"POST /oauth2/applications/:id/bot/reset-token :client_id",
		"POST /oauth2/applications/:id/client-secret/reset :client_id",
		"GET /stickers/:sticker_id/metadata :user_id",
		"GET /stickers/:sticker_id/source :user_id",
		"POST /voice/channels/:channel_id/entrance-sound :user_id",
	}
	if len(warnings) != len(want) {
		t.Fatalf("%d warnings, want %d: %v", len(warnings), len(want), warnings)
	}
	lines := strings.Split(string(p.Source()), "\n")
	for i, w := range warnings {
		route, placeholder := want[i][:strings.LastIndex(want[i], " ")], want[i][strings.LastIndex(want[i], " ")+1:]
		if !strings.HasPrefix(w.Text, `route "`+route+`" has no parameter `+placeholder+" for bucket ") {
			t.Errorf("warning %d: got %q, want one of %s", i, w.Text, want[i])
		}
		if w.File != "default.yaml" || !strings.HasPrefix(lines[w.Line-1], "  "+route+": [") {
			t.Errorf("warning %d points at %s:%d: %q", i, w.File, w.Line, lines[w.Line-1])
		}
	}
}

func TestDefaultUnusedBuckets(t *testing.T) {
	p := mustDefault(t)
	used := map[string]bool{}
	for _, r := range p.Routes {
		for _, rb := range r.Buckets {
			used[rb.Bucket.Name] = true
		}
	}
	var unused int
	for _, b := range p.Buckets {
		if !used[b.Name] {
			unused++
		}
	}
	if unused != 24 {
		t.Errorf("%d buckets are in no route, want 24", unused)
	}
	var none int
	for _, r := range p.Routes {
		if len(r.Buckets) == 0 {
			none++
		}
	}
	if none != 8 {
		t.Errorf("%d routes count no bucket, want 8", none)
	}
}

// What the comment at its head shows can be copied.
func TestDefaultExamples(t *testing.T) {
	head, _, _ := strings.Cut(string(mustDefault(t).Source()), "\nversion: 1\n")
	example := regexp.MustCompile(`(?m)^# +((?:version|global|buckets|routes|on_unreachable|on_full|client_ip|switches|test_mode):.*?)(?:  +.*)?$`)
	var lines []string
	for _, m := range example.FindAllStringSubmatch(head, -1) {
		lines = append(lines, m[1])
		if m[1] == "routes:" {
			lines = append(lines, `  GET /guilds/:guild_id: ["guild:read::guild_id"]`)
		}
	}
	if len(lines) != 10 || !strings.Contains(head, "# routes:\n# "+lines[4]+"\n") {
		t.Fatalf("the examples are %q", lines)
	}
	p, warnings, err := policy.Parse("examples.yaml", []byte(strings.Join(lines, "\n")))
	if err != nil || len(warnings) != 0 || len(p.Buckets) != 1 || len(p.Routes) != 1 {
		t.Errorf("%v, %v", err, warnings)
	}
}
