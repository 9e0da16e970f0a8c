package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// allowance asks a node about an operation.
func (f *fleet) allowance(node int, operation, body string) answered {
	f.t.Helper()
	resp, err := f.http.Post("http://"+f.net.at(node, 8080)+"/v1/allowances/"+operation, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	var a answered
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || resp.StatusCode != http.StatusOK {
		f.t.Fatalf("%s %s: HTTP %d, %v", operation, body, resp.StatusCode, err)
	}
	return a
}

// The owners of a third of all subjects are killed: who was locked out stays
// out, and what was cleared a moment before stays cleared.
func TestLockoutsSurviveAKill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "default.yaml")
	if err := os.WriteFile(file, defaultPolicy(t).Source(), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, 3, append([]string{"--policy", file}, patient...)...)
	const subjects = 60
	ip := func(i int) string { return fmt.Sprintf(`"subject":{"ip":"192.0.2.%d","code":"c%d"}`, i, i) }
	account := func(i int) string { return fmt.Sprintf(`"subject":{"account":"a%d"}`, i) }
	message := func(i int) string {
		return fmt.Sprintf(`{"subject":{"account":"1","channel":"c%d","interval":3600}}`, i)
	}
	want := func(what string, a answered, allowed bool) {
		t.Helper()
		if a.Allowed != allowed {
			t.Errorf("%s: allowed %t, want %t: %+v", what, a.Allowed, allowed, a)
		}
	}
	for i := range subjects {
		for n := range 5 {
			f.allowance(n%3+1, "get_desktop_handoff", `{"action":"fail",`+ip(i)+`}`)
		}
		for n := range 10 {
			f.allowance(n%3+1, "sudo_totp", `{`+account(i)+`}`)
		}
		want("before", f.allowance(1, "sudo_totp", `{`+account(i)+`}`), false)
		want("a message", f.allowance(2, "send_message", message(i)), true)
	}
	eventually(t, "backups know", func() bool { return f.copied(1, 2, 3) })
	for i := range subjects {
		for _, a := range []answered{
			f.allowance(1, "sudo_totp", `{"action":"succeed",`+account(i)+`}`),
			f.allowance(3, "send_message", fmt.Sprintf(`{"action":"reset","subject":{"channel":"c%d"}}`, i)),
		} {
			if !a.Allowed || a.Degraded {
				t.Errorf("clearing: %+v", a)
			}
		}
	}
	if err := f.hide(2).cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	degraded := 0
	for i := range subjects {
		node := []int{1, 3}[i%2]
		locked := f.allowance(node, "complete_desktop_handoff", `{`+ip(i)+`}`)
		want("locked out", locked, false)
		if locked.Degraded {
			degraded++
		}
		cleared := f.allowance(node, "sudo_totp", `{`+account(i)+`}`)
		want("cleared", cleared, true)
		if left := cleared.Buckets[0].Remaining; left != 9 {
			t.Errorf("account %d has %d left, want 9", i, left)
		}
		want("slow mode cleared", f.allowance(node, "send_message", message(i)), true)
		want("and begun again", f.allowance(4-node, "send_message", message(i)), false)
	}
	t.Logf("lock-outs of %d subjects survive, %d answers were degraded", subjects, degraded)
}
