package httpfront

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/policy"
)

// keys are the messages that there are.
var keys = []string{messageForbidden, messageRateLimited}

func mustLoadCatalogue(t *testing.T) catalogue {
	t.Helper()
	c, err := loadCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every file is a locale that callers can ask for, and has every message.
func TestMessageFiles(t *testing.T) {
	same(t, "keys", strings.Join(keys, " "), "forbidden rate_limited")
	files, err := os.ReadDir("messages")
	if err != nil {
		t.Fatal(err)
	}
	c := mustLoadCatalogue(t)
	same(t, "locales", len(c), len(files))
	for _, file := range files {
		locale, isJSON := strings.CutSuffix(file.Name(), ".json")
		if !isJSON || !slices.Contains(policy.Locales(), locale) {
			t.Errorf("%s is not named after a locale", file.Name())
			continue
		}
		text, err := os.ReadFile("messages/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		var texts map[string]string
		if err := json.Unmarshal(text, &texts); err != nil {
			t.Fatalf("%s: %v", file.Name(), err)
		}
		same(t, file.Name(), strings.Join(slices.Sorted(maps.Keys(texts)), " "), "forbidden rate_limited")
		for key, text := range texts {
			if strings.TrimSpace(text) == "" || strings.TrimSpace(text) != text || !utf8.ValidString(text) {
				t.Errorf("%s: %s is %q", file.Name(), key, text)
			}
			same(t, file.Name(), c[locale][key], text)
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
		// A locale without texts of its own is served in the default one, also
		// where the next best would have some.
		{messageRateLimited, "de", "", tooOften},
		{messageRateLimited, "de", "pt-BR", tooOften},
		{messageForbidden, "zh-TW", "", no},
		{messageForbidden, "", "ja, pt-BR;q=0.5", no},
	} {
		same(t, m.key+" "+m.locale+" "+m.accept, c.text(m.key, m.locale, m.accept), m.want)
	}
	for _, locale := range policy.Locales() {
		for _, key := range keys {
			if c.text(key, locale, "") == "" {
				t.Errorf("%s has no text for %s", locale, key)
			}
		}
	}
}
