package policy

import (
	"errors"
	"fmt"
	"strings"
)

// declaredBuckets knows every name under buckets, also those whose bucket had
// an error: a route that uses one is not at fault.
type declaredBuckets struct {
	names []string
	known map[string]bool
}

func (r *reader) buckets(v *yamlValue) declaredBuckets {
	declared := declaredBuckets{known: map[string]bool{}}
	if v == nil || !r.isMapping(v, "buckets", `"auth:login": {limit: 10, window: 10s}`) {
		return declared
	}
	if len(v.entries) > maxEntries {
		r.add(v.line, "%d buckets; a policy has at most %d", len(v.entries), maxEntries)
		return declared
	}
	for _, e := range r.distinct(v, "bucket", "the policy") {
		declared.names = append(declared.names, e.name)
		declared.known[e.name] = true
		r.bucket(e)
	}
	return declared
}

func (r *reader) bucket(e yamlEntry) {
	p := r.policy
	of := "bucket " + inQuotes(e.name)
	placeholders := r.bucketName(e)
	if e.value.kind == yamlInvalid || !r.isMapping(e.value, of, "{limit: 60, window: 10s}") {
		return
	}
	f := r.fields(e.value, of, "limit", "window", "exempt_from_global", "keyed_by", "scope", "section")
	rule, ok := r.rule(f, of, e.line)
	b := &Bucket{
		Index:            len(p.Buckets),
		Name:             e.name,
		ID:               shortHash([]byte(e.name)),
		Rule:             rule,
		ExemptFromGlobal: r.boolean(f["exempt_from_global"], "exempt_from_global of "+of),
		KeyedBy:          choice(r, f["keyed_by"], "keyed_by of "+of, ByCaller, ByEmail),
		Scope:            choice(r, f["scope"], "scope of "+of, ScopeUser, ScopeShared),
		Placeholders:     placeholders,
	}
	b.Section, _ = r.text(f["section"], "the section of "+of, "auth")
	if !ok {
		return
	}
	p.Buckets = append(p.Buckets, b)
	p.bucketNamed[b.Name] = b
}

// bucketName checks a bucket's name and returns its placeholders.
func (r *reader) bucketName(e yamlEntry) []string {
	switch {
	case e.name == GlobalBucket:
		r.add(e.line, "the name %s is that of the global bucket; write another", inQuotes(e.name))
		return nil
	case !isWord(e.name) || strings.Contains(e.name, "?"):
		r.add(e.line, `the bucket name %s is malformed; write 1 to 256 bytes of printable characters without spaces and "?"`, inQuotes(e.name))
		return nil
	}
	placeholders, err := bucketPlaceholders(e.name)
	if err != nil {
		r.add(e.line, "bucket %s: %v", inQuotes(e.name), err)
	}
	return placeholders
}

// bucketPlaceholders returns the parameters that a bucket's name refers to. A
// colon separates the parts of a name; one more marks the part behind it as a
// placeholder, so it is the part after an empty one.
func bucketPlaceholders(name string) ([]string, error) {
	var found []string
	seen := map[string]bool{}
	parts := strings.Split(name, ":")
	for i := 0; i < len(parts); i++ {
		if parts[i] != "" {
			continue
		}
		i++ // to the placeholder
		switch {
		case i == len(parts):
			return nil, errors.New("a colon at the end; leave it out, or write a parameter behind it, such as ::guild_id")
		case parts[i] == "":
			return nil, errors.New("a colon too many; write two before a placeholder and one between other parts")
		case !isName(parts[i]):
			return nil, fmt.Errorf("malformed placeholder %s; write letters, digits and _, such as ::guild_id", inQuotes(parts[i]))
		case seen[parts[i]]:
			return nil, fmt.Errorf("the placeholder %s twice; keep one", inQuotes(parts[i]))
		}
		seen[parts[i]] = true
		found = append(found, parts[i])
	}
	return found, nil
}
