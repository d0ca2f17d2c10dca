package envelope

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// Bounds of the application's own members of meta.
const (
	MaxMembers     = 16
	MaxMembersSize = 512 // bytes of their names, without escapes, and of their values, as JSON
)

var (
	ErrMembers    = errors.InvalidArgument.New("meta has more than 16 members of the application, or more than 512 bytes of them")
	errMembersFar = errors.InvalidArgument.New("meta has members of the application and is neither in the first nor in the last KiB of a frame of more than 4 KiB")
)

// protocolMembers are the members of meta that the protocol has, or will have.
var protocolMembers = []string{
	"correlationId", "timeoutMs", "timestamp", "idempotencyKey", "clientId", "receivedAt", "topic", "pos", "ts",
}

// IsProtocolMember reports whether a member of meta is not for applications.
func IsProtocolMember(name string) bool {
	return len(name) > 0 && name[0] == '$' || slices.Contains(protocolMembers, name)
}

// Members are the application's own members of meta. Each is the length of its name, the name
// without escapes, the length of its value and the value as JSON, in the order of the frame.
type Members []byte

// All returns the names, and the values as JSON.
func (m Members) All() iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		for len(m) > 0 {
			var name, value []byte
			name, m = m.next()
			value, m = m.next()
			if !yield(string(name), value) {
				return
			}
		}
	}
}

// Decode decodes a member into v. It returns false if there is none or null, and an error if the
// value does not fit v.
func (m Members) Decode(name string, v any) (bool, error) {
	value := m.Get(name)
	if value == nil && IsProtocolMember(name) {
		return false, errors.Internal.Errorf("wskit: meta.%s belongs to the protocol and cannot be read; use another name", name)
	}
	if value == nil || value.Kind() == 'n' {
		return false, nil
	}
	if err := json.Unmarshal(value, v); err != nil {
		return false, errors.InvalidArgument.Wrap(err, "meta."+name+" is not valid")
	}
	return true, nil
}

// Get returns the value of a member, nil if there is none.
func (m Members) Get(name string) jsontext.Value {
	for n, value := range m.All() {
		if n == name {
			return value
		}
	}
	return nil
}

func (m Members) next() (text []byte, rest Members) {
	n, width := binary.Uvarint(m)
	end := width + int(n)
	return m[width:end:end], m[end:]
}

func (m Members) add(texts ...[]byte) Members {
	for _, text := range texts {
		m = append(binary.AppendUvarint(m, uint64(len(text))), text...)
	}
	return m
}

// Own returns the application's own members of meta, as the whole frame has them: if Head has
// stopped before it came to a meta, it reads the frame for this. Of a frame of more than 4 KiB they
// are those that Head found; Rest refuses the frame if it has others. They are valid until
// the next Head.
func (p *Peeker) Own() Members {
	if p.pending != nil {
		if p.whole == nil {
			p.whole = new(Peeker)
		}
		p.whole.forget()
		_, _, _ = p.whole.read(p.pending, false) // Rest finds the error
		p.own, p.pending = p.whole.own, nil
	}
	return p.own
}

// DecodeMember is Decode of Own.
func (p *Peeker) DecodeMember(name string, v any) (bool, error) { return p.Own().Decode(name, v) }

func (p *Peeker) forget() { p.owns, p.own, p.pending = p.owns[:0], nil, nil }

// readMeta reads the value of the member meta.
func (p *Peeker) readMeta(e *Envelope) error {
	from := len(p.owns)
	p.memberCount, p.membersSize = 0, 0
	err := p.readMetaMembers(e)
	p.own = p.owns[from:]
	return err
}

func (p *Peeker) addOwn(name, value jsontext.Value) error {
	text := unquote(name, &p.name)
	if IsProtocolMember(string(text)) {
		return nil
	}
	p.memberCount++
	p.membersSize += len(text) + len(value)
	if p.memberCount > MaxMembers || p.membersSize > MaxMembersSize {
		return ErrMembers
	}
	p.owns = p.owns.add(text, value)
	return nil
}
