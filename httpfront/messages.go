package httpfront

import (
	"embed"
	"fmt"
	"path"
	"strings"

	"github.com/go-json-experiment/json"

	"weir/policy"
)

//go:embed messages/*.json
var messageFiles embed.FS

// Keys of the catalogue. Every file under messages has all of them.
const (
	messageForbidden   = "forbidden"
	messageRateLimited = "rate_limited"
)

// catalogue holds the texts that people read, by locale and key.
type catalogue map[string]map[string]string

// loadCatalogue reads the embedded files, one for each locale that has texts.
func loadCatalogue() (catalogue, error) {
	files, err := messageFiles.ReadDir("messages")
	if err != nil {
		return nil, fmt.Errorf("httpfront: messages: %w", err)
	}
	c := make(catalogue)
	for _, file := range files {
		data, err := messageFiles.ReadFile(path.Join("messages", file.Name()))
		if err != nil {
			return nil, fmt.Errorf("httpfront: messages: %w", err)
		}
		texts := make(map[string]string)
		if err := json.Unmarshal(data, &texts); err != nil {
			return nil, fmt.Errorf("httpfront: messages: %s: %w", file.Name(), err)
		}
		c[strings.TrimSuffix(file.Name(), ".json")] = texts
	}
	return c, nil
}

// text returns the message in the locale that the caller is best served with.
// A locale without texts of its own is served in the default one.
func (c catalogue) text(key, locale, acceptLanguage string) string {
	texts, ok := c[policy.ChooseLocale(locale, acceptLanguage)]
	if !ok {
		texts = c[policy.DefaultLocale]
	}
	return texts[key]
}
