package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/policy"
)

// fence is one fenced block of a page: what it is of, and its text.
type fence struct{ language, text string }

func fences(t *testing.T, file string) (page string, blocks []fence) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page = string(data)
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, fence{m[1], m[2]})
	}
	return page, blocks
}

const allowancesPage = "../../httpfront/allowances.md"

// The examples of the page about limits inside handlers, run one after another:
// the last call of each block gets the answer below it.
func TestExamplesOfAllowances(t *testing.T) {
	_, blocks := fences(t, allowancesPage)
	c := startCluster(t, 3, defaultPolicy(t), newStoppedClock())
	step := regexp.MustCompile(`(?s)sleep (\d+)|curl -s http://127\.0\.0\.1:8080(/v1/allowances/\w+) -H 'Content-Type: application/json' -d '(.*?)'`)
	examples := 0
	for i, b := range blocks {
		if b.language != "sh" {
			continue
		}
		if i+1 == len(blocks) || blocks[i+1].language != "json" {
			t.Fatalf("no answer below\n%s", b.text)
		}
		times := 1
		if strings.HasPrefix(b.text, "for i in 1 2 3 4 5 6; do ") {
			times = 6
		}
		var answer string
		for range times {
			for _, m := range step.FindAllStringSubmatch(b.text, -1) {
				if m[1] != "" {
					pause, err := time.ParseDuration(m[1] + "s")
					if err != nil {
						t.Fatal(err)
					}
					c.clock.Advance(pause)
					continue
				}
				var status int
				if status, answer = c.postTo(m[2], "application/json", m[3]); status != 200 {
					t.Fatalf("%s\nHTTP %d: %s", b.text, status, answer)
				}
			}
		}
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(blocks[i+1].text)); err != nil {
			t.Fatalf("%v in\n%s", err, blocks[i+1].text)
		}
		same(t, b.text, answer, want.String())
		examples++
	}
	if examples < 10 {
		t.Errorf("%d examples were found", examples)
	}
}

// The page tells of every operation, and of none that there is not.
func TestEveryOperationIsTold(t *testing.T) {
	page, blocks := fences(t, allowancesPage)
	var told, declared []string
	for line := range strings.Lines(page) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 3 || !strings.Contains(page[:strings.Index(page, line)], "## Logging in") {
			continue
		}
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[0], -1) {
			told = append(told, m[1])
		}
	}
	for _, o := range defaultPolicy(t).Operations {
		declared = append(declared, o.Name)
	}
	slices.Sort(told)
	slices.Sort(declared)
	same(t, "operations", strings.Join(told, " "), strings.Join(declared, " "))
	for _, b := range blocks {
		if b.language == "yaml" {
			if _, warnings, err := policy.Parse("page", []byte(b.text)); err != nil || len(warnings) > 0 {
				t.Errorf("%v %v in\n%s", err, warnings, b.text)
			}
		}
	}
}
