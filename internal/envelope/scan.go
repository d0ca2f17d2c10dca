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
type scanner struct {
	b []byte
	i int // b[:i] has been read
}

// head reads up to the payload's value, or to the end of a frame without a payload.
func (s *scanner) head(e *Envelope) (meta, complete, ok bool) {
	if !s.skip(`{"type":"`) {
		return false, false, false
	}
	if e.Type, ok = s.text(); !ok || len(e.Type) == 0 || len(e.Type) > MaxTypeLength {
		return false, false, false
	}
	if s.skip(`,"meta":{`) {
		if !s.meta(e) {
			return false, false, false
		}
		meta = true
	}
	if s.skip(`,"payload":`) {
		return meta, false, true
	}
	return meta, true, s.skip("}") && s.i == len(s.b)
}

// meta reads the members of meta and its closing brace.
func (s *scanner) meta(e *Envelope) bool {
	if s.skip("}") {
		return true
	}
	const correlationID, idempotencyKey, timeoutMs, timestamp = 1, 2, 4, 8
	for seen := 0; ; {
		var member int
		ok := false
		switch {
		case s.skip(`"correlationId":`):
			member = correlationID
			e.CorrelationID, ok = s.id()
		case s.skip(`"timestamp":`):
			member = timestamp
			_, ok = s.number()
		case s.skip(`"timeoutMs":`):
			member = timeoutMs
			e.TimeoutMs, ok = s.number()
			ok = ok && e.TimeoutMs > 0
		case s.skip(`"idempotencyKey":`):
			member = idempotencyKey
			e.IdempotencyKey, ok = s.id()
		}
		if !ok || seen&member != 0 {
			return false
		}
		seen |= member
		if s.skip("}") {
			return true
		}
		if !s.skip(",") {
			return false
		}
	}
}

// skip reads what is given, if it comes next.
func (s *scanner) skip(what string) bool {
	if end := s.i + len(what); end <= len(s.b) && string(s.b[s.i:end]) == what {
		s.i = end
		return true
	}
	return false
}

// id reads a string that may be sent back as it is.
func (s *scanner) id() (quoted []byte, ok bool) {
	start := s.i
	if !s.skip(`"`) {
		return nil, false
	}
	text, ok := s.text()
	if !ok || len(text) > MaxIDLength {
		return nil, false
	}
	if len(text) == 0 {
		return nil, true
	}
	return s.b[start:s.i:s.i], true
}

// text reads a string from behind its opening quote to behind its closing one.
func (s *scanner) text() (text []byte, ok bool) {
	start := s.i
	s.i += flat.Plain(s.b[s.i:])
	text = s.b[start:s.i:s.i]
	return text, s.skip(`"`)
}

// maxDigits is how many digits an int64 holds whatever they are.
const maxDigits = 18

// number reads a whole number that is not negative.
func (s *scanner) number() (n int64, ok bool) {
	start := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		n = n*10 + int64(s.b[s.i]-'0')
		s.i++
	}
	digits := s.i - start
	return n, digits > 0 && digits <= maxDigits && (digits == 1 || s.b[start] != '0')
}
