package envelope

import "github.com/wskit/wskit/internal/flat"

// scanner reads the head of a frame in the shape that nearly all have, because it is
// what encoders make of {type, meta, payload}:
//
//	{"type":"chat.send","meta":{"timestamp":1795228211391,"correlationId":"02b7"},"payload":
//
// The members come in this order, meta and payload may be missing, meta holds the
// members it is defined to have, in any order and each once, strings are ASCII without
// escapes, numbers are whole, and there is no white space. That takes a fraction of the
// time of reading tokens. A scanner only ever says what jsontext would say, or that the
// frame is of another shape: then it has found nothing out, and jsontext reads it.
type scanner struct{ flat.Reader }

// head reads up to the payload's value, or to the end of a frame without a payload.
func (s *scanner) head(e *Envelope) (meta, complete, ok bool) {
	if !s.Skip(`{"type":"`) {
		return false, false, false
	}
	if e.Type, ok = s.ASCII(); !ok || len(e.Type) == 0 || len(e.Type) > MaxTypeLength {
		return false, false, false
	}
	if s.Skip(`,"meta":{`) {
		if !s.meta(e) {
			return false, false, false
		}
		meta = true
	}
	if s.Skip(`,"payload":`) {
		return meta, false, true
	}
	return meta, true, s.Skip("}") && s.At == len(s.Bytes)
}

// meta reads the members of meta and its closing brace.
func (s *scanner) meta(e *Envelope) bool {
	if s.Skip("}") {
		return true
	}
	const correlationID, idempotencyKey, timeoutMs, timestamp = 1, 2, 4, 8
	for seen := 0; ; {
		var member int
		ok := false
		switch {
		case s.Skip(`"correlationId":`):
			member = correlationID
			e.CorrelationID, ok = s.id()
		case s.Skip(`"timestamp":`):
			member = timestamp
			_, ok = s.Digits()
		case s.Skip(`"timeoutMs":`):
			member = timeoutMs
			e.TimeoutMs, ok = s.Digits()
			ok = ok && e.TimeoutMs > 0
		case s.Skip(`"idempotencyKey":`):
			member = idempotencyKey
			e.IdempotencyKey, ok = s.id()
		}
		if !ok || seen&member != 0 {
			return false
		}
		seen |= member
		if s.Skip("}") {
			return true
		}
		if !s.Skip(",") {
			return false
		}
	}
}

// id reads a string that may be sent back as it is.
func (s *scanner) id() (quoted []byte, ok bool) {
	start := s.At
	if !s.Skip(`"`) {
		return nil, false
	}
	text, ok := s.ASCII()
	if !ok || len(text) > MaxIDLength {
		return nil, false
	}
	if len(text) == 0 {
		return nil, true
	}
	return s.Bytes[start:s.At:s.At], true
}
