package policy

import (
	"slices"
	"time"

	"weir/leaky"
)

// Operation is what one handler of an API is limited by beside its route: a
// list of rules, looked at in order.
type Operation struct {
	Name  string
	Rules []*Allowance // in the order of the file, at least one
}

// rules returns those that the function picks.
func (o *Operation) rules(pick func(*Allowance) bool) []*Allowance {
	var picked []*Allowance
	for _, a := range o.Rules {
		if pick(a) {
			picked = append(picked, a)
		}
	}
	return picked
}

// Allowance is one rule of an operation.
type Allowance struct {
	Index            int    // position among all rules of the policy
	Operation        string // whose rule it is
	Name             string
	Label            string // operation/name, as answers and metrics call it
	Kind             AllowanceKind
	Counter          string // shared by every rule that names it; empty: this rule has one of its own
	Key              []KeyPart
	Rule             leaky.Rule // what the word is measured against; zero for a SlowMode
	SlowMode         bool       // a cooldown for as long as each request says
	Shape            Shape
	Code             string   // of the refusal
	Path             string   // of a refused form field
	OtherPath        string   // another field that a request may name instead; may be empty
	WaitUnit         WaitUnit // in which a form's message tells the wait
	Scope            Scope
	Optional         bool // skipped if the request lacks a part of its key
	OffWith          OffWith
	Counts           Counts
	ClearedBySucceed bool
	Effect           string // what the API server must do beside refusing; may be empty
	Notes            string // for people; may be empty
}

// Limit returns the units that the rule allows at once, or the failures that
// lock it.
func (a *Allowance) Limit() int64 {
	if a.SlowMode {
		return 1
	}
	return a.Rule.Limit()
}

// Window returns the time over which the limit is counted; 0 if each request
// says it.
func (a *Allowance) Window() time.Duration {
	if a.SlowMode || a.Kind == Imposed {
		return 0
	}
	return a.Rule.Window()
}

// leaky returns how a rule of that kind counts.
func (k AllowanceKind) leaky() leaky.Kind {
	switch k {
	case CooldownAllowance, AfterIssue, Imposed:
		return leaky.Cooldown
	case CooldownStart:
		return leaky.CooldownStart
	case QuotaAllowance:
		return leaky.Quota
	case LockoutAllowance:
		return leaky.Lockout
	}
	return leaky.Bucket
}

// AllowanceKind says how a rule counts, and what fills it.
type AllowanceKind uint8

const (
	BucketAllowance   AllowanceKind = iota // a leaky bucket, charged by take
	CooldownAllowance                      // one, then nothing until window after the last accepted one
	CooldownStart                          // begins the wait of a cooldown of the same counter, and never refuses
	AfterIssue                             // nothing for window after issue
	QuotaAllowance                         // limit in all, until window after the first
	LockoutAllowance                       // limit failures block until window after the latest
	Imposed                                // nothing until a delay has passed that impose sets
)

// String returns the kind as policies spell it.
func (k AllowanceKind) String() string {
	switch k {
	case CooldownAllowance:
		return "cooldown"
	case CooldownStart:
		return "cooldown_start"
	case AfterIssue:
		return "after_issue"
	case QuotaAllowance:
		return "quota"
	case LockoutAllowance:
		return "lockout"
	case Imposed:
		return "imposed"
	}
	return "bucket"
}

// KeyPart is a part of a rule's key, taken from the subject of a request.
type KeyPart uint8

const (
	KeyAccount KeyPart = iota
	KeyEmail           // trimmed, in lower case, hashed
	KeyIP64            // the address identity: IPv4 exactly, IPv6 by its /64
	KeyIP              // the whole address
	KeySubnet          // the /24 of an IPv4 address, the /48 of another
	KeyTicket          // hashed
	KeyChannel
	KeyGuild
	KeyMessage
	KeyReporter // an account, or an e-mail address as KeyEmail
	KeyPhone    // hashed
	KeyCode     // hashed
)

func keyParts() []KeyPart {
	return []KeyPart{KeyAccount, KeyEmail, KeyIP64, KeyIP, KeySubnet, KeyTicket, KeyChannel, KeyGuild, KeyMessage,
		KeyReporter, KeyPhone, KeyCode}
}

// String returns the part as policies spell it.
func (k KeyPart) String() string {
	return []string{"account", "email", "ip64", "ip", "subnet", "ticket", "channel", "guild", "message", "reporter", "phone", "code"}[k]
}

// field returns the member of the subject that the part is taken from.
func (k KeyPart) field() string {
	switch k {
	case KeyIP64, KeySubnet:
		return KeyIP.String()
	}
	return k.String()
}

// Shape is how a refusal is written.
type Shape uint8

const (
	Shape429      Shape = iota // as a bucket's refusal, with the rule's code and scope
	ShapeResend                // 429 with the wait in whole seconds
	ShapeForm                  // 400 with an entry for the form field; the wait is told in its message only
	ShapeRoot400               // 400 with code and message
	ShapeRoot403               // 403 with code and message
	ShapeSlowMode              // 400 with the wait
)

// String returns the shape as policies spell it.
func (s Shape) String() string {
	switch s {
	case ShapeResend:
		return "429_resend"
	case ShapeForm:
		return "400_form"
	case ShapeRoot400:
		return "400_root"
	case ShapeRoot403:
		return "403_root"
	case ShapeSlowMode:
		return "400_slowmode"
	}
	return "429"
}

// WaitUnit says how a form's message tells the wait.
type WaitUnit uint8

const (
	WaitNone    WaitUnit = iota // not at all: the refusal reads as that of a wrong value
	WaitMinutes                 // in whole minutes, rounded up
	WaitSeconds                 // in whole seconds, rounded up
)

// String returns the unit as policies spell it.
func (w WaitUnit) String() string {
	switch w {
	case WaitMinutes:
		return "minutes"
	case WaitSeconds:
		return "seconds"
	}
	return "none"
}

// OffWith is the switch that a rule is not evaluated with.
type OffWith uint8

const (
	OffNever OffWith = iota
	OffDisabled
	OffRelaxedRegistration
)

// String returns the switch as policies spell it.
func (o OffWith) String() string {
	switch o {
	case OffDisabled:
		return "disable_rate_limits"
	case OffRelaxedRegistration:
		return "relax_registration_rate_limits"
	}
	return "never"
}

// Counts says which requests a rule counts.
type Counts uint8

const (
	CountsAll     Counts = iota
	CountsChanged        // those that change something
)

// String returns the value as policies spell it.
func (c Counts) String() string {
	if c == CountsChanged {
		return "changed"
	}
	return "all"
}

// sharesWith reports whether two rules can have one counter.
func (a *Allowance) sharesWith(b *Allowance) bool {
	cooldowns := []AllowanceKind{CooldownAllowance, CooldownStart}
	kinds := a.Kind == b.Kind || slices.Contains(cooldowns, a.Kind) && slices.Contains(cooldowns, b.Kind)
	return kinds && a.SlowMode == b.SlowMode && a.Limit() == b.Limit() && a.Window() == b.Window() && slices.Equal(a.Key, b.Key)
}
