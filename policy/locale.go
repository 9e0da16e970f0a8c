package policy

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// DefaultLocale is the locale of a caller who accepts none of the others.
const DefaultLocale = "en-US"

// Locales returns the locales that messages are chosen from, in the order in
// which a bare language finds its region.
func Locales() []string {
	return []string{
		"en-US", "en-GB", "ar", "bg", "cs", "da", "de", "el", "es-419", "es-ES", "fi", "fr", "he", "hi", "hr", "hu", "id",
		"it", "ja", "ko", "lt", "nl", "no", "pl", "pt-BR", "ro", "ru", "sv-SE", "th", "tr", "uk", "vi", "zh-CN", "zh-TW",
	}
}

// maxAcceptLanguage is the bytes of an Accept-Language value that are read;
// what real clients send is far shorter.
const maxAcceptLanguage = 1024

// ChooseLocale returns the locale to write messages in: the account's if it is
// one of [Locales], else the best of an Accept-Language value, else
// [DefaultLocale]. Exact codes win over languages; within each, the value's
// weights decide, then its order.
func ChooseLocale(account, acceptLanguage string) string {
	locales := Locales()
	if i := indexFold(locales, account); i >= 0 {
		return locales[i]
	}
	accepted := parseAcceptLanguage(acceptLanguage)
	for _, tag := range accepted {
		if i := indexFold(locales, tag); i >= 0 {
			return locales[i]
		}
	}
	for _, tag := range accepted {
		switch strings.ToLower(tag) {
		case "zh-hk", "zh-mo":
			return "zh-TW"
		}
		language, _, _ := strings.Cut(tag, "-")
		for _, locale := range locales {
			if have, _, _ := strings.Cut(locale, "-"); strings.EqualFold(have, language) {
				return locale
			}
		}
	}
	return DefaultLocale
}

func indexFold(locales []string, tag string) int {
	return slices.IndexFunc(locales, func(locale string) bool { return strings.EqualFold(locale, tag) })
}

// parseAcceptLanguage returns the tags of an Accept-Language value (RFC 9110,
// section 12.5.4) by falling weight, those of equal weight in their order,
// without those of weight 0 and those whose weight cannot be read.
func parseAcceptLanguage(value string) []string {
	type entry struct {
		tag    string
		weight int // thousandths
	}
	if len(value) > maxAcceptLanguage {
		// Half an entry would be another one: "fr" instead of "fr;q=0".
		value = value[:max(0, strings.LastIndexByte(value[:maxAcceptLanguage], ','))]
	}
	var entries []entry
	for part := range strings.SplitSeq(value, ",") {
		tag, params, _ := strings.Cut(part, ";")
		weight, ok := parseWeight(params)
		if tag = strings.TrimSpace(tag); tag != "" && tag != "*" && ok && weight > 0 {
			entries = append(entries, entry{tag, weight})
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(b.weight, a.weight) })
	tags := make([]string, len(entries))
	for i, e := range entries {
		tags[i] = e.tag
	}
	return tags
}

// parseWeight returns the q parameter in thousandths, 1000 if there is none.
func parseWeight(params string) (weight int, ok bool) {
	params = strings.TrimSpace(params)
	if params == "" {
		return 1000, true
	}
	name, value, _ := strings.Cut(params, "=")
	if !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 0, false
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !(q >= 0 && q <= 1) {
		return 0, false
	}
	return int(math.Round(q * 1000)), true
}
