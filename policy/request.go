package policy

import (
	"fmt"
	"maps"
	"slices"
)

// Request asks for a decision about one request of the API. The JSON names are
// those of POST /v1/decide.
type Request struct {
	Route          string            `json:"route"`
	Buckets        []string          `json:"buckets"`
	Params         map[string]string `json:"params"`
	When           []string          `json:"when"`
	Email          string            `json:"email"`
	Peek           bool              `json:"peek"`
	Caller         Caller            `json:"caller"`
	Locale         string            `json:"locale"`
	AcceptLanguage string            `json:"accept_language"`
	Test           *Test             `json:"test"`
}

// Caller is who makes the request, as far as the API server could tell.
type Caller struct {
	Account     string   `json:"account"`
	Credential  *string  `json:"credential"` // session if nil
	Application string   `json:"application"`
	Bot         *bool    `json:"bot"` // whether the credential is bot if nil
	Flags       []string `json:"flags"`
	IP          string   `json:"ip"`
}

// Test asks a policy in test mode to decide this request in earnest.
type Test struct {
	Enforce     bool   `json:"enforce"`
	GlobalLimit *int64 `json:"global_limit"` // replaces every global limit if given
}

// Credentials, as requests spell them.
const (
	CredentialSession  = "session"
	CredentialBot      = "bot"
	CredentialBearer   = "bearer"
	CredentialAdminKey = "admin_api_key"
)

const (
	maxValue       = 256 // bytes of an account, an application or a parameter's value
	maxAsked       = 64  // buckets that one request may name
	unknownApp     = "unknown"
	paramWebhookID = "webhook_id"
	paramToken     = "token"
)

// FieldError says which member of a request is at fault and why.
type FieldError struct {
	Field  string // path of the member, as in "caller.credential"
	Detail string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Detail }

func fieldErrorf(field, format string, args ...any) *FieldError {
	return &FieldError{Field: field, Detail: fmt.Sprintf(format, args...)}
}

func (c *Caller) credential() string {
	if c.Credential == nil {
		return CredentialSession
	}
	return *c.Credential
}

// isBot reports whether the caller is a bot account.
func (c *Caller) isBot() bool {
	if c.Account == "" {
		return false
	}
	if c.Bot != nil {
		return *c.Bot
	}
	return c.credential() == CredentialBot
}

func (c *Caller) hasFlag(flag string) bool {
	if c.Account == "" || flag == "" {
		return false
	}
	return slices.Contains(c.Flags, flag)
}

// check reports what is wrong with the request whatever the policy says.
func (r *Request) check() *FieldError {
	switch {
	case r.Route != "" && r.Buckets != nil:
		return fieldErrorf("buckets", "give route or buckets, not both")
	case r.Route == "" && r.Buckets == nil:
		return fieldErrorf("route", "give a route, or buckets")
	case r.Route == "" && len(r.Buckets) == 0:
		return fieldErrorf("buckets", "name at least one bucket")
	case len(r.Buckets) > maxAsked:
		return fieldErrorf("buckets", "%d buckets, at most %d", len(r.Buckets), maxAsked)
	}
	if err := checkValue("caller.account", r.Caller.Account); err != nil {
		return err
	}
	if err := checkValue("caller.application", r.Caller.Application); err != nil {
		return err
	}
	switch r.Caller.credential() {
	case CredentialSession, CredentialBot, CredentialBearer, CredentialAdminKey:
	default:
		return fieldErrorf("caller.credential", "unknown credential %s; use session, bot, bearer or admin_api_key", inQuotes(*r.Caller.Credential))
	}
	for i, name := range r.Buckets {
		if slices.Contains(r.Buckets[:i], name) {
			return fieldErrorf("buckets", "the bucket %s twice; a request counts once", inQuotes(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		value := r.Params[name]
		field := "params." + name
		if len(name) > maxValue {
			return fieldErrorf("params", "a name of %d bytes, at most %d", len(name), maxValue)
		}
		if value == "" {
			return fieldErrorf(field, "an empty value")
		}
		if err := checkValue(field, value); err != nil {
			return err
		}
	}
	return nil
}

func checkValue(field, value string) *FieldError {
	if len(value) > maxValue {
		return fieldErrorf(field, "%d bytes, at most %d", len(value), maxValue)
	}
	return nil
}
