package policy

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"weir/leaky"
)

// AllowanceRequest is one call about an operation. The JSON names are those of
// POST /v1/allowances/{operation}.
type AllowanceRequest struct {
	Action         string  `json:"action"` // take if empty
	Subject        Subject `json:"subject"`
	Delay          string  `json:"delay"` // of impose
	Locale         string  `json:"locale"`
	AcceptLanguage string  `json:"accept_language"`
	Test           *Test   `json:"test"`
}

// Subject is what an operation is about. Each rule's key says which members it
// needs; others are ignored. An empty one counts as absent.
type Subject struct {
	Email        string `json:"email"`
	IP           string `json:"ip"`
	Account      string `json:"account"`
	Ticket       string `json:"ticket"`
	Channel      string `json:"channel"`
	Guild        string `json:"guild"`
	Message      string `json:"message"`
	Reporter     string `json:"reporter"`
	Phone        string `json:"phone"`
	Code         string `json:"code"`
	Interval     *int64 `json:"interval"`      // of slow mode, in seconds
	Changed      *bool  `json:"changed"`       // true if nil
	Bot          bool   `json:"bot"`           // slow mode does not count a bot
	Bypass       bool   `json:"bypass"`        // nor one who may bypass it
	GuildChannel *bool  `json:"guild_channel"` // nor other channels; true if nil
	Path         string `json:"path"`          // the form field, of an operation with two
}

const (
	maxInterval = int64(leaky.MaxWindow / time.Second)
	maxHashed   = 4096 // bytes of a value that is keyed by its hash
)

// value returns what the subject has for a part of a key.
func (s *Subject) value(part KeyPart) string {
	switch part {
	case KeyEmail:
		return strings.TrimSpace(s.Email)
	case KeyIP64, KeyIP, KeySubnet:
		return s.IP
	case KeyTicket:
		return s.Ticket
	case KeyChannel:
		return s.Channel
	case KeyGuild:
		return s.Guild
	case KeyMessage:
		return s.Message
	case KeyReporter:
		return strings.TrimSpace(s.Reporter)
	case KeyPhone:
		return s.Phone
	case KeyCode:
		return s.Code
	}
	return s.Account
}

// changed reports whether the request changes something.
func (s *Subject) changed() bool { return s.Changed == nil || *s.Changed }

// slowModeCounts reports whether slow mode is about this request, but for its
// interval.
func (s *Subject) slowModeCounts() bool {
	return !s.Bot && !s.Bypass && (s.GuildChannel == nil || *s.GuildChannel)
}

// lacks returns the first part of a key that the subject does not have.
func (s *Subject) lacks(key []KeyPart) (missing KeyPart, lacks bool) {
	i := slices.IndexFunc(key, func(part KeyPart) bool { return s.value(part) == "" })
	if i < 0 {
		return 0, false
	}
	return key[i], true
}

// appendKey appends a part of a key: what it is of, and its value as it is keyed.
func (s *Subject) appendKey(key []byte, part KeyPart) ([]byte, *FieldError) {
	value := s.value(part)
	name := "subject." + part.field()
	key = appendPart(key, part.String())
	switch part {
	case KeyIP64, KeyIP, KeySubnet:
		addr, ok := parseIP(value)
		if !ok {
			return nil, fieldErrorf(name, "%s is no IP address", inQuotes(value))
		}
		switch part {
		case KeyIP64:
			addr = network(addr, 32, 64)
		case KeySubnet:
			addr = network(addr, 24, 48)
		}
		return appendPart(key, addr.AsSlice()), nil
	case KeyEmail, KeyTicket, KeyPhone, KeyCode:
		if len(value) > maxHashed {
			return nil, fieldErrorf(name, "%d bytes, at most %d", len(value), maxHashed)
		}
		if part == KeyEmail {
			value = strings.ToLower(value)
		}
		return appendHash(key, value), nil
	}
	if part == KeyReporter && strings.Contains(value, "@") && len(value) <= maxHashed {
		return appendHash(key, strings.ToLower(value)), nil
	}
	if err := checkValue(name, value); err != nil {
		return nil, err
	}
	return appendPart(key, value), nil
}

func appendHash(key []byte, value string) []byte {
	hash := sha256.Sum256([]byte(value))
	return appendPart(key, hash[:])
}
