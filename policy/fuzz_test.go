package policy_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/policy"
)

// Whatever the file holds: no panic, and either a policy that parses to the
// same again, or at most twenty problems that point into the file.
func FuzzParse(f *testing.F) {
	whole, err := os.ReadFile("default.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[bytes.Index(whole, []byte("\nversion: 1")):][:6000])
	f.Add([]byte(custom))
	for _, c := range slices.Concat(errorCases, allowanceErrorCases) {
		f.Add([]byte(c.source))
	}
	for _, s := range []string{"", "\n", "{", "[", "- ", "? ", ": ", "&", "*", "!", "|", ">", "%", "---", "...", "'", "\"", "\t", "<<: ",
		"{a, b: , ? c : d}", "[a: b, ? c]", "? a\n: b\n", "%YAML 1.2\n---\na", "a: |\n b\n", "a: >-\n  b\n\n", "\r\r", "a: [\n# c\n]", "!!int", "a: !!str"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, warnings, err := policy.Parse("p.yaml", data)
		if err == nil {
			again, _, err := policy.Parse("p.yaml", p.Source())
			if err != nil || again.Hash() != p.Hash() || len(again.Buckets) != len(p.Buckets) || len(again.Routes) != len(p.Routes) {
				t.Fatalf("the policy's own source is not the same policy: %v", err)
			}
			for _, r := range p.Routes {
				for _, rb := range r.Buckets {
					if p.Buckets[rb.Bucket.Index] != rb.Bucket || rb.Bucket.Limit() < 1 {
						t.Fatalf("route %s has a bucket that is not declared", r.Name)
					}
				}
			}
			checkProblems(t, data, warnings)
			return
		}
		var list *policy.Errors
		if !errors.As(err, &list) || p != nil || len(list.Problems) < 1 || len(list.Problems) > 20 {
			t.Fatalf("policy %v, error %v", p, err)
		}
		checkProblems(t, data, list.Problems)
	})
}

func checkProblems(t *testing.T, data []byte, problems []policy.Problem) {
	t.Helper()
	lines := 1 + bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r"))
	last := 1
	for _, p := range problems {
		if p.File != "p.yaml" || p.Line < last || p.Line > lines {
			t.Fatalf("%s is out of order or outside the file's %d lines", p, lines)
		}
		if strings.ContainsAny(p.Text, "\n\r") || !strings.Contains(p.Text, "; ") {
			t.Fatalf("%q is not of the form of a problem", p.Text)
		}
		last = p.Line
	}
}
