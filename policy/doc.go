// Package policy says what is limited: buckets, routes, the global bucket,
// operations of handlers with their allowances, flags and switches, read from one
// YAML file, checked whole and compiled. It turns a request into an ordered list
// of keyed checks.
//
// A Policy is immutable once parsed and holds no state of any bucket.
package policy
