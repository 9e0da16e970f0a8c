package policy

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"
)

// The hash is the SHA-256 of the address and of nothing less: a part left out
// would join people who have nothing in common.
func TestHashEmail(t *testing.T) {
	for text, want := range map[string]string{
		"ann@example.org":            "438c4c7afe600cdf1e455c369bec76dc970fc8ca463447c7b387a347f3c79331",
		" \tAnn@Example.ORG\r\n":     "438c4c7afe600cdf1e455c369bec76dc970fc8ca463447c7b387a347f3c79331",
		"a+b@x.y":                    "a463032f707b34952bd97b5d2422304d58528f749c25727a11dc76624219e88d",
		"a@x.y":                      "c341b2d63a1796d8add810d414d4650090291c686da08ae5a230417abff3375e",
		"\"ann@home\"@example.org\n": "af3c60425a3c3edcc2a2c21d61cb74f95362c6723d93f0efdc35c97cbd97b6d2",
	} {
		hash, ok := hashEmail(text)
		if got := hex.EncodeToString(hash[:]); !ok || got != want {
			t.Errorf("%q: %s %v, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", " ", "@", "@x", "x@", " @x ", " x@ ", "nobody", "x@y@"} {
		if _, ok := hashEmail(text); ok {
			t.Errorf("%q is taken for an address", text)
		}
	}
}

// All nodes must agree on every key, and so must the next version. No request
// holds an empty value; it is no literal nevertheless.
func TestAppendBucket(t *testing.T) {
	const window = time.Duration(0x0102030405)
	b := &Bucket{Name: "n::a::b", Placeholders: []string{"a", "b"}}
	for _, c := range []struct {
		values map[string]string
		want   string
	}{
		{map[string]string{}, "k\x07n::a::b" + "\x00" + "\x00" + "\x00\x00\x00\x01\x02\x03\x04\x05"},
		{map[string]string{"a": "v"}, "k\x07n::a::b" + "\x01\x01v" + "\x00" + "\x00\x00\x00\x01\x02\x03\x04\x05"},
		{map[string]string{"b": "v"}, "k\x07n::a::b" + "\x00" + "\x01\x01v" + "\x00\x00\x00\x01\x02\x03\x04\x05"},
		{map[string]string{"a": "", "b": "vw"}, "k\x07n::a::b" + "\x01\x00" + "\x01\x02vw" + "\x00\x00\x00\x01\x02\x03\x04\x05"},
	} {
		got := appendBucket([]byte("k"), b, window, func(name string) (string, bool) {
			v, ok := c.values[name]
			return v, ok
		})
		if !bytes.Equal(got, []byte(c.want)) {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
}
