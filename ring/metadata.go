package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Members describe themselves in at most 512 bytes, which gossip carries beside
// their name and address:
//
//	version (1 byte), ring format (4), boot (8), state (1),
//	then rpc, http, admin, version and policy, each a length byte and its text
const (
	metadataVersion = 1
	maxMetadata     = 512
	fixedMetadata   = 1 + 4 + 8 + 1
)

var errMetadata = errors.New("the metadata is not weir's")

// encodeMetadata describes the member to others. The error names a field that
// is too long.
func encodeMetadata(m Member, format uint32) ([]byte, error) {
	b := []byte{metadataVersion}
	b = binary.BigEndian.AppendUint32(b, format)
	b = binary.BigEndian.AppendUint64(b, m.Boot)
	b = append(b, byte(m.State))
	fields := []struct{ name, text string }{
		{"rpc", m.RPC}, {"http", m.HTTP}, {"admin", m.Admin}, {"version", m.Version}, {"policy", m.Policy},
	}
	longest := fields[0]
	for _, f := range fields {
		if len(f.text) > 255 {
			return nil, fmt.Errorf("ring: %s: %d bytes, at most 255", f.name, len(f.text))
		}
		if len(f.text) > len(longest.text) {
			longest = f
		}
		b = append(append(b, byte(len(f.text))), f.text...)
	}
	if len(b) > maxMetadata {
		return nil, fmt.Errorf("ring: %s: the addresses and texts of a member take %d bytes in all, at most %d", longest.name, len(b), maxMetadata)
	}
	return b, nil
}

// decodeMetadata reads what a member says of itself: everything but its name
// and gossip address. Of a ring format that is not the own only the number is
// read.
func decodeMetadata(b []byte, own uint32) (m Member, format uint32, err error) {
	if len(b) < fixedMetadata || len(b) > maxMetadata || b[0] != metadataVersion {
		return Member{}, 0, errMetadata
	}
	format = binary.BigEndian.Uint32(b[1:])
	if format != own {
		return Member{}, format, nil
	}
	m.Boot = binary.BigEndian.Uint64(b[5:])
	m.State = State(b[13])
	if m.State > Leaving {
		return Member{}, 0, errMetadata
	}
	b = b[fixedMetadata:]
	for _, field := range []*string{&m.RPC, &m.HTTP, &m.Admin, &m.Version, &m.Policy} {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return Member{}, 0, errMetadata
		}
		*field = string(b[1 : 1+b[0]])
		b = b[1+b[0]:]
	}
	// Bytes of later versions of this format may follow.
	return m, format, nil
}
