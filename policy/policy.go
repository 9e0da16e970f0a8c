package policy

import (
	"slices"
	"time"

	"weir/leaky"
)

// Policy is one compiled policy file. It is immutable and safe for concurrent
// use.
type Policy struct {
	TestMode      bool
	Switches      Switches
	ClientIP      ClientIP
	Global        *Global // nil if the policy has no global bucket
	BypassFlag    string  // account flag that exempts from every bucket here; may be empty
	OnUnreachable OnUnreachable
	OnFull        OnFull
	Buckets       []*Bucket // in the order of the file
	Routes        []*Route  // in the order of the file
	Operations    []*Operation
	Allowances    []*Allowance // the rules of all operations, in the order of the file

	source      []byte
	hash        string
	bucketNamed map[string]*Bucket
	routeNamed  map[string]*Route
	conditions  map[string]bool // every condition that some route declares

	operationNamed map[string]*Operation
}

// Source returns the YAML that the policy was parsed from. The caller must not
// change it.
func (p *Policy) Source() []byte { return p.source }

// Hash returns the first 16 hex digits of the SHA-256 of the source: two nodes
// with the same hash decide by the same rules.
func (p *Policy) Hash() string { return p.hash }

// Bucket returns the bucket declared by that name.
func (p *Policy) Bucket(name string) (*Bucket, bool) {
	b, ok := p.bucketNamed[name]
	return b, ok
}

// Route returns the route declared by that name, method and path.
func (p *Policy) Route(name string) (*Route, bool) {
	r, ok := p.routeNamed[name]
	return r, ok
}

// Operation returns the operation declared by that name.
func (p *Policy) Operation(name string) (*Operation, bool) {
	o, ok := p.operationNamed[name]
	return o, ok
}

// Switches turn whole groups of limits off.
type Switches struct {
	DisableRateLimits           bool // no global, route or e-mail bucket is evaluated
	RelaxRegistrationRateLimits bool // the registration allowances are not evaluated
}

// ClientIP says what is known of client addresses.
type ClientIP struct {
	Required    bool   // a caller without usable address is refused with 403, authenticated or not
	Header      string // header that a proxy puts the address in, lower case
	TrustedHops int    // entries of that header, counted from the right, that own proxies wrote
}

// Global is the bucket that every request of a caller counts against.
type Global struct {
	Bucket *Bucket // as answers list it: named GlobalBucket, its index follows the last declared one
	Rule   leaky.Rule
	Flags  []FlagLimit // in the order of the file
}

// GlobalBucket is the name of the global bucket. No declared bucket may have it.
const GlobalBucket = "global"

// newGlobal returns the global bucket of a policy with that many declared ones.
func newGlobal(rule leaky.Rule, flags []FlagLimit, declared int) *Global {
	return &Global{
		Bucket: &Bucket{Index: declared, Name: GlobalBucket, Rule: rule, Scope: ScopeGlobal},
		Rule:   rule,
		Flags:  flags,
	}
}

// FlagLimit is another limit of the same global bucket, for accounts with a flag.
type FlagLimit struct {
	Flag string
	Rule leaky.Rule
}

// KeyedBy says whose allowance a bucket is.
type KeyedBy uint8

const (
	ByCaller KeyedBy = iota // the account and its credential, else the client address
	ByEmail                 // the e-mail address that the request names
)

// String returns the value as policies spell it.
func (k KeyedBy) String() string {
	if k == ByEmail {
		return "email"
	}
	return "caller"
}

// Scope is the X-RateLimit-Scope of a bucket's refusal.
type Scope uint8

const (
	ScopeUser   Scope = iota // the limit is the caller's own
	ScopeShared              // others may have spent it
	ScopeGlobal              // the global bucket's, which no declared bucket has
)

// String returns the value as the header and policies spell it.
func (s Scope) String() string {
	switch s {
	case ScopeShared:
		return "shared"
	case ScopeGlobal:
		return "global"
	}
	return "user"
}

// OnUnreachable says what to answer if no node that holds a bucket can be asked.
type OnUnreachable uint8

const (
	UnreachableLocal OnUnreachable = iota // decide on this node's own table
	UnreachableAllow
	UnreachableDeny
)

// String returns the value as policies spell it.
func (u OnUnreachable) String() string {
	switch u {
	case UnreachableAllow:
		return "allow"
	case UnreachableDeny:
		return "deny"
	}
	return "local"
}

// OnFull says what to answer if a node has no room for another live bucket.
type OnFull uint8

const (
	FullAdmit OnFull = iota
	FullRefuse
)

// String returns the value as policies spell it.
func (f OnFull) String() string {
	if f == FullRefuse {
		return "refuse"
	}
	return "admit"
}

// Bucket is one declared bucket. Placeholders make it a family: each resource
// named by their values has an allowance of its own.
type Bucket struct {
	Index            int    // position in Policy.Buckets
	Name             string // as declared, placeholders unresolved
	Section          string // a heading for people; may be empty
	ID               string // X-RateLimit-Bucket: first 16 hex digits of the name's SHA-256
	Rule             leaky.Rule
	ExemptFromGlobal bool
	KeyedBy          KeyedBy
	Scope            Scope
	Placeholders     []string // parameter names, in the order of the name
}

// Limit returns the requests that the bucket admits at once.
func (b *Bucket) Limit() int64 { return b.Rule.Limit() }

// Window returns the time over which the limit is counted.
func (b *Bucket) Window() time.Duration { return b.Rule.Window() }

// Route is one declared route of the API and the buckets that it counts.
type Route struct {
	Name    string // method, space, path
	Method  string
	Path    string
	Params  []string // names of the path's parameters, in order
	Buckets []RouteBucket
}

// HasParam reports whether the route's path has that parameter.
func (r *Route) HasParam(name string) bool {
	return slices.Contains(r.Params, name)
}

// RouteBucket is a bucket as one route declares it.
type RouteBucket struct {
	Bucket    *Bucket
	Condition string // counted only if the request names it; empty: always
}
