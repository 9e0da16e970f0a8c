package policy_test

import (
	"strings"
	"testing"

	"weir/policy"
)

func TestChooseLocale(t *testing.T) {
	for _, c := range []struct{ account, accept, want string }{
		{"", "", "en-US"},
		{"pt-BR", "de", "pt-BR"},
		{"PT-br", "de", "pt-BR"},
		{"pt", "de", "de"},
		{"en-US", "de", "en-US"}, // the default is a choice like any other
		{"tlh", "", "en-US"},
		{"", "pt-BR,pt;q=0.8", "pt-BR"},
		{"", "pt", "pt-BR"},
		{"", "pt-PT", "pt-BR"},
		{"", "es", "es-419"},
		{"", "es-ES", "es-ES"},
		{"", "es-MX", "es-419"},
		{"", "zh", "zh-CN"},
		{"", "zh-HK", "zh-TW"},
		{"", "ZH-mo", "zh-TW"},
		{"", "zh-TW", "zh-TW"},
		{"", "zh-SG", "zh-CN"},
		{"", "en", "en-US"},
		{"", "en-AU", "en-US"},
		{"", "EN-gb", "en-GB"},
		{"", "sv", "sv-SE"},
		{"", "xx, de;q=0.1", "de"},
		{"", "de;q=0.5, fr;q=0.9", "fr"},
		{"", "de;q=0.5, fr;q=0.5", "de"},
		{"", "en-US,de", "en-US"},
		{"", "de,en-US", "de"},
		{"", "en-US;q=0.5,de", "de"},
		{"", "de;q=1, fr", "de"},
		{"", "fr, de;q=1", "fr"},
		{"", "fr;q=0.999, de", "de"},
		{"", "fr;q=0, de;q=0.001", "de"},
		{"", "fr;q=0", "en-US"},
		{"", "fr;q=x, de;q=0.2", "de"},
		{"", "fr;q=2, de;q=0.2", "de"},
		{"", "fr;q=NaN, de;q=0.2", "de"},
		{"", "fr ; Q=0.3 , de;q=0.2", "fr"},
		{"", "fr;level=1", "en-US"},
		{"", "*", "en-US"},
		{"", "*, ja;q=0.5", "ja"},
		// An exact code of lower weight wins over a language of higher weight.
		{"", "pt-PT, de;q=0.3", "de"},
		{"", ",,;;==,\x00,-", "en-US"},
		{"", strings.Repeat("xx,", 2000) + "de", "en-US"},
	} {
		if got := policy.ChooseLocale(c.account, c.accept); got != c.want {
			t.Errorf("account %q, accept %.40q: %s, want %s", c.account, c.accept, got, c.want)
		}
	}
}

// Only the first 1024 bytes are read. An entry that reaches beyond them is left
// out whole, since its beginning may say the opposite of it.
func TestLongAcceptLanguage(t *testing.T) {
	filler := strings.Repeat("xx,", 340) // 1020 bytes
	for _, c := range []struct{ name, accept, want string }{
		{"cut before the weight", filler + "  fr;q=0", "en-US"},
		{"cut inside the weight", filler + "fr;q=0.0", "en-US"},
		{"cut inside the code", filler + "xx,fr;q=0", "en-US"},
		{"cut before the weight, then another", filler + "  fr;q=0,de", "en-US"},
		{"one entry", "fr" + strings.Repeat(" ", 1022) + ";q=0", "en-US"},
		{"read before the cut", "de;q=0.5," + filler + "fr,fr", "de"},
		{"1024 bytes", filler + "  fr", "fr"},
		{"1025 bytes", filler + "   fr", "en-US"},
		{"last comma is byte 1024", filler + " fr,de", "fr"},
	} {
		if got := policy.ChooseLocale("", c.accept); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestLocales(t *testing.T) {
	want := "en-US en-GB ar bg cs da de el es-419 es-ES fi fr he hi hr hu id it ja ko lt nl no pl pt-BR ro ru sv-SE th tr uk vi zh-CN zh-TW"
	if got := strings.Join(policy.Locales(), " "); got != want {
		t.Fatalf("%s", got)
	}
}

func FuzzChooseLocale(f *testing.F) {
	f.Add("pt-BR", "pt;q=0.8,*;q=0.1")
	f.Add("", "zh-HK;q=1e-3,-,;q")
	known := map[string]bool{}
	for _, l := range policy.Locales() {
		known[l] = true
	}
	f.Fuzz(func(t *testing.T, account, accept string) {
		if got := policy.ChooseLocale(account, accept); !known[got] {
			t.Fatalf("%q", got)
		}
	})
}
