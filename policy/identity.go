package policy

import (
	"crypto/sha256"
	"net/netip"
	"strings"
)

// parseAddress returns the address that a caller is keyed by: an IPv4 address
// exactly, an IPv6 address by its /64. ok is false if the text is no address.
func parseAddress(text string) (key netip.Addr, ok bool) {
	addr, ok := parseIP(text)
	return network(addr, 32, 64), ok
}

// parseIP reads an address. However it is written, one address is one identity:
// brackets, zone and letter case are dropped, and an IPv4-mapped IPv6 address is
// that IPv4 address. ok is false if the text is no address.
func parseIP(text string) (addr netip.Addr, ok bool) {
	if inner, found := strings.CutPrefix(text, "["); found {
		if text, found = strings.CutSuffix(inner, "]"); !found {
			return netip.Addr{}, false
		}
	}
	text, _, _ = strings.Cut(text, "%")
	parsed, err := netip.ParseAddr(text)
	return parsed.Unmap(), err == nil
}

// network returns the first address of the network that the address is in, of
// that many bits by its family.
func network(addr netip.Addr, bits4, bits6 int) netip.Addr {
	bits := bits6
	if addr.Is4() {
		bits = bits4
	}
	prefix, err := addr.Prefix(bits)
	if err != nil { // beyond the address's length, which no caller asks for
		return addr
	}
	return prefix.Addr()
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
