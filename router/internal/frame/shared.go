package frame

import "github.com/wskit/wskit/router/internal/wire"

// Shared is a message that many connections get. It is for one goroutine at a time.
type Shared struct {
	Payload         []byte
	plain, deflated []byte // frames; the second is made when it is asked for
}

// Share makes a Shared of a copy of a payload.
func Share(payload []byte) Shared {
	return InPlace(append(make([]byte, wire.HeaderRoom, wire.HeaderRoom+len(payload)), payload...))
}

// InPlace makes a Shared of a payload that stands behind the room for a header. The bytes belong to it from then on.
func InPlace(b []byte) Shared {
	return Shared{Payload: b[wire.HeaderRoom:], plain: wire.PutHeader(b, false)}
}

// Frame returns the frame for connections with compression or without.
func (s *Shared) Frame(deflate bool) []byte {
	if !deflate || len(s.Payload) < wire.DeflateThreshold {
		return s.plain
	}
	if s.deflated == nil {
		s.deflated = s.deflate()
	}
	return s.deflated
}

// deflate makes the frame with compression. It returns the one without where that fails.
func (s *Shared) deflate() []byte {
	b := New()
	defer b.Free()
	if err := wire.Deflate(&b.Buffer, s.Payload); err != nil {
		return s.plain
	}
	return wire.PutHeader(append([]byte(nil), b.Bytes()...), true)
}
