package httpfront

import (
	"strings"
	"testing"
	"time"
)

// A delay is one number wherever it is shown, rounded up so that who waits that
// long is admitted.
func TestDelays(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		delay      time.Duration
		seconds    string // retry_after, reset_after, X-RateLimit-Reset-After
		retryAfter string // Retry-After
	}{
		{0, "0", "1"},
		{1, "0.001", "1"},
		{time.Microsecond, "0.001", "1"},
		{time.Millisecond - 1, "0.001", "1"},
		{time.Millisecond, "0.001", "1"},
		{time.Millisecond + 1, "0.002", "1"},
		{9 * time.Millisecond, "0.009", "1"},
		{10 * time.Millisecond, "0.01", "1"},
		{20 * time.Millisecond, "0.02", "1"},
		{50_200 * time.Microsecond, "0.051", "1"},
		{100 * time.Millisecond, "0.1", "1"},
		{166_666_666, "0.167", "1"},
		{166_666_667, "0.167", "1"},
		{167 * time.Millisecond, "0.167", "1"},
		{500 * time.Millisecond, "0.5", "1"},
		{999 * time.Millisecond, "0.999", "1"},
		{999_000_001, "1", "1"},
		{time.Second - 1, "1", "1"},
		{time.Second, "1", "1"},
		{time.Second + 1, "1.001", "2"},
		{time.Second + time.Millisecond, "1.001", "2"},
		{1010 * time.Millisecond, "1.01", "2"},
		{1100 * time.Millisecond, "1.1", "2"},
		{8_333_333_334, "8.334", "9"},
		{10 * time.Second, "10", "10"},
		{59_999_999_999, "60", "60"},
		{100 * time.Second, "100", "100"},
		{1000 * time.Second, "1000", "1000"},
		{time.Hour, "3600", "3600"},
		{day - 1, "86400", "86400"},
		{day, "86400", "86400"},
		{day + 1, "86400.001", "86401"},
		{366*day - time.Millisecond, "31622399.999", "31622400"},
		{366 * day, "31622400", "31622400"},
	} {
		m := ceilMillis(c.delay)
		same(t, c.delay.String(), m.seconds(), c.seconds)
		same(t, c.delay.String(), string(m.appendSeconds([]byte("x"))), "x"+c.seconds)
		same(t, c.delay.String()+" as Retry-After", m.wholeSeconds(), c.retryAfter)
	}
}

// The second in which a bucket will be empty is the floor of now and the delay,
// and always one to come.
func TestResetSecond(t *testing.T) {
	n := newFront(t, setup{rules: oneBucket})
	for _, c := range []struct {
		since time.Duration // since the beginning, a whole second
		delay millis
		want  int64
	}{
		{0, 0, 1_767_225_601},
		{0, 1, 1_767_225_601},
		{0, 999, 1_767_225_601},
		{0, 1000, 1_767_225_601},
		{0, 1999, 1_767_225_601},
		{0, 2000, 1_767_225_602},
		{999 * time.Millisecond, 0, 1_767_225_601},
		{999 * time.Millisecond, 1, 1_767_225_601},
		{999_999_999, 1, 1_767_225_601},
		{999_999_999, 1001, 1_767_225_602},
		{500 * time.Millisecond, 1499, 1_767_225_601},
		{500 * time.Millisecond, 1500, 1_767_225_602},
		{0, 86_400_000, 1_767_312_000},
		{0, 31_622_400_000, 1_798_848_000},
	} {
		n.clock.ns.Store(beginning*int64(time.Second) + int64(c.since))
		if got := n.front.resetSecond(c.delay); got != c.want {
			t.Errorf("%s and %s s: %d, want %d", c.since, c.delay.seconds(), got, c.want)
		}
	}
}

// Header, body and bucket of one refusal show one and the same number.
func TestOneNumberForADelay(t *testing.T) {
	n := start(t, setup{rules: "version: 1\nbuckets: {odd: {limit: 7, window: 10s, scope: shared}}\nroutes: {GET /odd: [odd]}\n"})
	const request = `{"route":"GET /odd","caller":{"account":"1"}}`
	n.decide("[" + request + "," + request + "," + request + "," + request + "," + request + "," + request + "," + request + "]")
	n.clock.ns.Add(1)
	same(t, "a nanosecond later", n.decide(request),
		`{"allowed":false,"status":429,"headers":{"Retry-After":"2","X-RateLimit-Scope":"shared","X-RateLimit-Limit":"7","X-RateLimit-Remaining":"0",`+
			`"X-RateLimit-Reset":"1767225610","X-RateLimit-Reset-After":"10","X-RateLimit-Bucket":"990cb8ebd0afb715"},`+
			`"body":{"code":"RATE_LIMITED","message":"`+english+`","global":false,"retry_after":1.429},"effects":[],"degraded":false,`+
			`"buckets":[{"bucket":"odd","allowed":false,"limit":7,"remaining":0,"retry_after":1.429,"reset_after":10}]}`)
	n.clock.ns.Add(1_428_571_426)
	if a := n.decide(request); !strings.HasPrefix(a, `{"allowed":false,`) {
		t.Errorf("a nanosecond early: %s", a)
	}
	n.clock.ns.Add(1)
	if a := n.decide(request); !strings.HasPrefix(a, `{"allowed":true,`) {
		t.Errorf("after the exact delay: %s", a)
	}
}
