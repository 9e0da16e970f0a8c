package httpfront

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/policy"
)

func mustLoadCatalogue(t *testing.T) catalogue {
	t.Helper()
	c, err := loadCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// keysOf returns the keys of a file of messages, in its order.
func keysOf(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	var keys []string
	depth, isKey := 0, false
	for {
		token, err := dec.Token()
		if err != nil {
			return keys
		}
		switch token {
		case json.Delim('{'):
			depth++
			isKey = true
		case json.Delim('}'):
			depth--
			isKey = true
		default:
			if isKey && depth == 1 {
				keys = append(keys, token.(string))
			}
			isKey = !isKey
		}
	}
}

// Every locale has a file, and every file every message: in the same order, so
// that translators can compare two of them line by line.
func TestMessageFiles(t *testing.T) {
	files, err := os.ReadDir("messages")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "files", len(files), 34)
	same(t, "locales", len(policy.Locales()), 34)
	c := mustLoadCatalogue(t)
	want := keysOf(t, "messages/en-US.json")
	same(t, "messages", len(want), 22)
	for _, locale := range policy.Locales() {
		file := "messages/" + locale + ".json"
		same(t, file, strings.Join(keysOf(t, file), " "), strings.Join(want, " "))
		english, texts := c["en-US"], c[locale]
		for key, text := range texts.plain {
			if strings.TrimSpace(text) != text || text == "" || !utf8.ValidString(text) {
				t.Errorf("%s: %s is %q", file, key, text)
			}
			if english.plain[key] == "" {
				t.Errorf("%s: %s is one text, and in English it is not", file, key)
			}
			same(t, file+" "+key, strings.Count(text, "{wait}"), strings.Count(english.plain[key], "{wait}"))
			same(t, file+" "+key, strings.Count(text, "{"), strings.Count(text, "{wait}"))
		}
		for key, forms := range texts.counted {
			if english.counted[key] == nil {
				t.Errorf("%s: %s has plural forms, and in English it has none", file, key)
			}
			for form, text := range forms {
				if strings.TrimSpace(text) != text || !utf8.ValidString(text) || strings.Count(text, "{n}") != 1 || strings.Count(text, "{") != 1 {
					t.Errorf("%s: %s, %s is %q", file, key, form, text)
				}
			}
		}
		if !strings.HasPrefix(locale, "en-") {
			for key, text := range texts.plain {
				if text == english.plain[key] {
					t.Errorf("%s: %s is English", file, key)
				}
			}
		}
	}
}

// A locale has the plural forms that whole numbers need in its language, and
// "other", and none that is never used.
func TestPluralForms(t *testing.T) {
	c := mustLoadCatalogue(t)
	for _, locale := range policy.Locales() {
		needed := []string{"other"}
		for n := 1; n <= 100_000; n++ {
			if form := pluralForm(c[locale].language, n); !slices.Contains(needed, form) {
				needed = append(needed, form)
			}
		}
		slices.Sort(needed)
		for key, forms := range c[locale].counted {
			var has []string
			for form := range forms {
				has = append(has, form)
			}
			slices.Sort(has)
			same(t, locale+" "+key, strings.Join(has, " "), strings.Join(needed, " "))
		}
	}
	// By the rules of the languages, for numbers that tell their forms apart.
	for locale, want := range map[string]string{
		"en-US": "1 one, 2 other, 5 other, 11 other, 21 other, 100 other",
		"fr":    "1 one, 2 other, 5 other, 11 other, 21 other, 100 other",
		"ja":    "1 other, 2 other, 5 other, 11 other, 21 other, 100 other",
		"ru":    "1 one, 2 few, 5 many, 11 many, 21 one, 100 many",
		"uk":    "1 one, 2 few, 5 many, 11 many, 21 one, 100 many",
		"pl":    "1 one, 2 few, 5 many, 11 many, 21 many, 100 many",
		"cs":    "1 one, 2 few, 5 other, 11 other, 21 other, 100 other",
		"hr":    "1 one, 2 few, 5 other, 11 other, 21 one, 100 other",
		"lt":    "1 one, 2 few, 5 few, 11 other, 21 one, 100 other",
		"ro":    "1 one, 2 few, 5 few, 11 few, 21 other, 100 other",
		"ar":    "1 one, 2 two, 5 few, 11 many, 21 many, 100 other",
		"no":    "1 one, 2 other, 5 other, 11 other, 21 other, 100 other",
	} {
		var got []string
		for _, n := range []int{1, 2, 5, 11, 21, 100} {
			got = append(got, strconv.Itoa(n)+" "+pluralForm(c[locale].language, n))
		}
		same(t, locale, strings.Join(got, ", "), want)
	}
}

// The wait is told in whole units, rounded up, at least one of them.
func TestWaitsInWords(t *testing.T) {
	const code, username = "USERNAME_CHANGED_TOO_MANY_TIMES", "You have changed your username too often. "
	c := mustLoadCatalogue(t)
	for _, m := range []struct {
		locale string
		unit   policy.WaitUnit
		wait   millis
		want   string
	}{
		{"en-US", policy.WaitMinutes, 1, username + "Try again in 1 minute."},
		{"en-US", policy.WaitMinutes, 60_000, username + "Try again in 1 minute."},
		{"en-US", policy.WaitMinutes, 60_001, username + "Try again in 2 minutes."},
		{"en-US", policy.WaitMinutes, 10_800_000, username + "Try again in 180 minutes."},
		{"en-US", policy.WaitSeconds, 0, username + "Try again in 1 second."},
		{"en-US", policy.WaitSeconds, 1000, username + "Try again in 1 second."},
		{"en-US", policy.WaitSeconds, 1001, username + "Try again in 2 seconds."},
		{"en-US", policy.WaitSeconds, 86_400_000, username + "Try again in 86400 seconds."},
	} {
		same(t, m.locale+" "+m.want, c[m.locale].of(code, messageTooOften, m.unit, m.wait), m.want)
	}
	for _, locale := range policy.Locales() {
		for n := 1; n <= 200; n++ {
			for _, unit := range []policy.WaitUnit{policy.WaitMinutes, policy.WaitSeconds} {
				text := c[locale].of(code, messageTooOften, unit, millis(n)*1000)
				number := strings.Trim(strings.Map(func(r rune) rune {
					if r >= '0' && r <= '9' {
						return r
					}
					return ' '
				}, text), " ")
				want := n
				if unit == policy.WaitMinutes {
					want = (n + 59) / 60
				}
				if strings.ContainsAny(text, "{}") || number != strconv.Itoa(want) {
					t.Fatalf("%s, %d %s: %q", locale, n, unit, text)
				}
			}
		}
	}
}

func TestMessageTexts(t *testing.T) {
	c := mustLoadCatalogue(t)
	const (
		no         = "You are not allowed to do that."
		nao        = "Você não tem permissão para fazer isso."
		tooOften   = "You are doing that too often. Please wait a moment and try again."
		frequencia = "Você está fazendo isso com muita frequência. Aguarde um momento e tente de novo."
	)
	for _, m := range []struct{ key, locale, accept, want string }{
		{messageForbidden, "", "", no},
		{messageRateLimited, "", "", tooOften},
		{messageForbidden, "pt-BR", "", nao},
		{messageRateLimited, "pt-BR", "", frequencia},
		{messageRateLimited, "PT-br", "en-US", frequencia},
		{messageRateLimited, "", "pt-PT", frequencia},
		{messageRateLimited, "", "en;q=0.5, pt;q=0.6", frequencia},
		{messageRateLimited, "", "pt;q=0", tooOften},
		{messageRateLimited, "tlh", "pt-BR", frequencia},
		{messageRateLimited, "tlh", "tlh", tooOften},
		{messageRateLimited, "\xff\x00", "\xff,;q=,", tooOften},
		{messageRateLimited, "de", "pt-BR", c["de"].plain[messageRateLimited]},
		{messageForbidden, "", "zh-HK, tlh;q=0.5", c["zh-TW"].plain[messageForbidden]},
	} {
		same(t, m.key+" "+m.locale+" "+m.accept, c.in(m.locale, m.accept).plain[m.key], m.want)
	}
}
