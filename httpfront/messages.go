package httpfront

import (
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"

	"weir/policy"
)

//go:embed messages/*.json
var messageFiles embed.FS

// Keys of the catalogue, beside the codes of refusals. Every file under messages
// has all of them.
const (
	messageForbidden   = "forbidden"
	messageRateLimited = "rate_limited"
	messageForm        = "invalid_form_body"
	messageTooOften    = "changed_too_often" // of a form field whose code has no text of its own
	messageInvalid     = "invalid_value"     // the same, if no wait is told
	messageMinutes     = "try_again_minutes"
	messageSeconds     = "try_again_seconds"

	waitHere   = "{wait}" // in a text: a sentence that tells the wait
	numberHere = "{n}"    // in that sentence: the number
)

// catalogue holds the texts that people read, by locale.
type catalogue map[string]*texts

// texts are those of one locale, by key.
type texts struct {
	language language.Tag
	plain    map[string]string
	counted  map[string]map[string]string // by plural category, see pluralForm
}

// loadCatalogue reads the embedded files, one for each locale.
func loadCatalogue() (catalogue, error) {
	c := make(catalogue)
	for _, locale := range policy.Locales() {
		data, err := messageFiles.ReadFile(path.Join("messages", locale+".json"))
		if err != nil {
			return nil, fmt.Errorf("httpfront: messages: %w", err)
		}
		if c[locale], err = parseTexts(locale, data); err != nil {
			return nil, fmt.Errorf("httpfront: messages: %s: %w", locale, err)
		}
	}
	return c, nil
}

func parseTexts(locale string, data []byte) (*texts, error) {
	tag, err := language.Parse(locale)
	if err != nil {
		return nil, err
	}
	values := make(map[string]jsontext.Value)
	if err := json.Unmarshal(data, &values); err != nil {
		return nil, err
	}
	t := &texts{language: tag, plain: map[string]string{}, counted: map[string]map[string]string{}}
	for key, value := range values {
		if value.Kind() == '{' {
			forms := make(map[string]string)
			err = json.Unmarshal(value, &forms)
			t.counted[key] = forms
		} else {
			var text string
			err = json.Unmarshal(value, &text)
			t.plain[key] = text
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return t, nil
}

// in returns the texts of the locale that the caller is best served with.
func (c catalogue) in(locale, acceptLanguage string) *texts {
	return c[policy.ChooseLocale(locale, acceptLanguage)]
}

// of returns the text for a refusal's code, or the one with that key if the code
// has none, as one that a policy makes up. Where the text tells the wait, it does
// so in that unit.
func (t *texts) of(code, otherwise string, unit policy.WaitUnit, wait millis) string {
	text, ok := t.plain[code]
	if !ok || unit == policy.WaitNone && strings.Contains(text, waitHere) {
		text = t.plain[otherwise]
	}
	if !strings.Contains(text, waitHere) {
		return text
	}
	key, number := messageSeconds, max(1, (wait+999)/1000)
	if unit == policy.WaitMinutes {
		key, number = messageMinutes, (number+59)/60
	}
	sentence := t.counted[key][pluralForm(t.language, int(number))]
	sentence = strings.ReplaceAll(sentence, numberHere, strconv.Itoa(int(number)))
	return strings.ReplaceAll(text, waitHere, sentence)
}

// pluralForm returns the category that CLDR puts a whole number in.
func pluralForm(tag language.Tag, n int) string {
	switch plural.Cardinal.MatchPlural(tag, n, 0, 0, 0, 0) {
	case plural.Zero:
		return "zero"
	case plural.One:
		return "one"
	case plural.Two:
		return "two"
	case plural.Few:
		return "few"
	case plural.Many:
		return "many"
	}
	return "other"
}
