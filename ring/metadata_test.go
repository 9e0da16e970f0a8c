package ring

import (
	"bytes"
	"strings"
	"testing"
)

func TestMetadataBytes(t *testing.T) {
	m := Member{Boot: 0x0102030405060708, State: Leaving, RPC: "r:1", HTTP: "h", Admin: "", Version: "v2", Policy: "p"}
	got, err := encodeMetadata(m, Format)
	if err != nil {
		t.Fatal(err)
	}
	want := []byte("\x01" + "\x00\x00\x00\x01" + "\x01\x02\x03\x04\x05\x06\x07\x08" + "\x02" + "\x03r:1" + "\x01h" + "\x00" + "\x02v2" + "\x01p")
	if !bytes.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	back, format, err := decodeMetadata(append(got, "more of a later version"...), Format)
	if err != nil || format != 1 || back != m {
		t.Fatalf("%+v, %d, %v", back, format, err)
	}
	for n := range len(got) {
		if _, _, err := decodeMetadata(got[:n], Format); err == nil {
			t.Errorf("the first %d bytes of %d are taken", n, len(got))
		}
	}
	if _, format, err := decodeMetadata([]byte("\x01\x00\x00\x00\x09\xff\xff\xff\xff\xff\xff\xff\xff\xff"), Format); err != nil || format != 9 {
		t.Errorf("of another format: %d, %v", format, err)
	}
}

func FuzzDecodeMetadata(f *testing.F) {
	good, err := encodeMetadata(Member{Boot: 1, State: Active, RPC: "127.0.0.1:7947", Policy: "0123456789abcdef"}, Format)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff"))
	f.Add([]byte(strings.Repeat("\x01", 600)))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, format, err := decodeMetadata(b, Format)
		if err != nil || format != Format {
			return
		}
		again, err := encodeMetadata(m, format)
		if err != nil || !bytes.HasPrefix(b, again) {
			t.Fatalf("%q is read as %+v, which is %q, %v", b, m, again, err)
		}
	})
}
