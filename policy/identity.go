package policy

import (
	"crypto/sha256"
	"net/netip"
	"strings"
)

// parseAddress returns the address that a caller is keyed by: an IPv4 address
// exactly, an IPv6 address by its /64. However it is written, one address is
// one identity: brackets, zone and letter case are dropped, and an IPv4-mapped
// IPv6 address is that IPv4 address. ok is false if the text is no address.
func parseAddress(text string) (key netip.Addr, ok bool) {
	if inner, found := strings.CutPrefix(text, "["); found {
		if text, found = strings.CutSuffix(inner, "]"); !found {
			return netip.Addr{}, false
		}
	}
	text, _, _ = strings.Cut(text, "%")
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, false
	}
	if addr = addr.Unmap(); addr.Is4() {
		return addr, true
	}
	// Prefix fails only for bit counts beyond the address's length.
	prefix, err := addr.Prefix(64)
	return prefix.Addr(), err == nil
}

// hashEmail returns the hash that an e-mail address is keyed by, so that the
// address itself is never stored. ok is false if the text holds no address.
func hashEmail(text string) (key [sha256.Size]byte, ok bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if at := strings.LastIndexByte(text, '@'); at <= 0 || at == len(text)-1 {
		return key, false
	}
	return sha256.Sum256([]byte(text)), true
}

// appendCaller appends the parts of the caller's identity to a key: the account
// with its credential, and with the owning application for a bearer token, else
// the address.
func (c *Caller) appendCaller(key []byte, addr netip.Addr) []byte {
	if c.Account == "" {
		key = appendPart(key, "address")
		return appendPart(key, addr.AsSlice())
	}
	credential := c.credential()
	key = appendPart(key, "account")
	key = appendPart(key, credential)
	key = appendPart(key, c.Account)
	if credential == CredentialBearer {
		application := c.Application
		if application == "" {
			application = unknownApp
		}
		key = appendPart(key, application)
	}
	return key
}
