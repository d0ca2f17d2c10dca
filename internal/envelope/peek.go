// Package envelope reads the envelope of a frame, {"type", "meta", "payload"}, without
// decoding its payload.
package envelope

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/flat"
)

// Bounds of the envelope without its payload.
const (
	MaxTypeLength = 128 // bytes of a message type
	MaxIDLength   = 128 // bytes of a correlation id or idempotency key
	// maxIDEcho is how many bytes of JSON a correlation id that is too long may have to be
	// sent back with the error: its client waits for an answer that has it, and would wait
	// in vain for one with a part of it.
	maxIDEcho = 1 << 10
)

// What Peek finds wrong with a frame.
var (
	ErrSyntax         = errors.InvalidArgument.New("frame is not valid JSON, or a name in it repeats")
	ErrNotObject      = errors.InvalidArgument.New("frame is not a JSON object")
	ErrNoType         = errors.InvalidArgument.New("frame has no type")
	ErrTypeNotString  = errors.InvalidArgument.New("type is not a string")
	ErrTypeTooLong    = errors.InvalidArgument.New("type is longer than 128 bytes")
	ErrMetaNotObject  = errors.InvalidArgument.New("meta is not an object")
	ErrCorrelationID  = errors.InvalidArgument.New("meta.correlationId is not a string of at most 128 bytes")
	ErrIDTooLong      = errors.InvalidArgument.New("meta.correlationId is longer than 128 bytes, and too long to be sent back")
	ErrTimeout        = errors.InvalidArgument.New("meta.timeoutMs is not a number of at least 1")
	ErrIdempotencyKey = errors.InvalidArgument.New("meta.idempotencyKey is not a string of at most 128 bytes")
)

// Envelope is what [Peeker.Peek] reads of a frame. Its slices point into the
// frame or the Peeker and are valid until either changes.
type Envelope struct {
	// Type is the message type, unescaped.
	Type []byte
	// CorrelationID is the JSON string, quotes included, that names the
	// request, ready to be sent back; nil when there is none or it is "". With
	// ErrCorrelationID it may have up to 1,024 bytes; with ErrIDTooLong it is nil.
	CorrelationID []byte
	// IdempotencyKey is a JSON string like CorrelationID.
	IdempotencyKey []byte
	// TimeoutMs is how long the client waits for an answer; 0: not said.
	TimeoutMs int64
	// Payload is the payload's JSON, not decoded; nil when the frame has none.
	Payload []byte
}

// Peeker reads envelopes. It may be used again but not by two goroutines at
// once. The zero Peeker is ready.
type Peeker struct {
	dec     jsontext.Decoder
	buf     bytes.Buffer
	scratch []byte

	scanned  scanner // what has read the head, unless dec has: then its Bytes are nil
	form     error   // the first violation of the envelope's form
	metaSeen bool

	owns                     Members // of all metas that were read since Head
	own                      Members // of the frame, within owns
	pending                  []byte  // the frame, if it may have a meta to which Head has not come
	whole                    *Peeker // reads it
	name                     []byte
	memberCount, membersSize int

	large []byte // the frame of which glance has read the ends
	ends  bool   // glance reads: nothing is waited for that may go on beyond the first KiB
	end   []byte // the last members of such a frame, as an object
	found [MaxTypeLength]byte
}

// Peek reads the envelope of a frame: one JSON object of
// {"type": string, "meta"?: object, "payload"?: any}; other keys are ignored.
// The whole frame is checked to be valid JSON (RFC 8259) in valid UTF-8 without
// duplicate names, so that no later reader can see another type in it; nothing
// is decoded, and nothing is allocated for a valid frame.
//
// The error is one of this package's variables. With an error the envelope holds
// what was found before it: most usefully a correlation id, for the answer.
func (p *Peeker) Peek(frame []byte) (Envelope, error) {
	e, complete, err := p.Head(frame)
	if !complete {
		err = p.Rest(&e)
	}
	return e, err
}

// PeekAll is Peek without the rules for frames of more than 4 KiB.
func (p *Peeker) PeekAll(frame []byte) (Envelope, error) {
	p.forget()
	p.large = nil
	e, complete, err := p.head(frame)
	if !complete {
		err = p.rest(&e)
	}
	return e, err
}

// Head is Peek as far as it is needed to decide about a frame: up to the payload, if
// the type comes before it, and of a frame of more than 4 KiB in its first and its last
// KiB. What a limit turns away has cost no more than that. complete reports that there
// is nothing left to read; otherwise [Peeker.Rest] goes on, and until it has, the frame
// may still turn out to be malformed.
func (p *Peeker) Head(frame []byte) (e Envelope, complete bool, err error) {
	p.forget()
	if p.large = nil; len(frame) > smallFrame {
		return p.glance(frame)
	}
	if e, complete, err = p.head(frame); !complete && !p.metaSeen {
		p.pending = frame
	}
	return e, complete, err
}

func (p *Peeker) head(frame []byte) (e Envelope, complete bool, err error) {
	p.scanned = scanner{flat.Reader{Bytes: frame}}
	if meta, complete, ok := p.scanned.head(&e); ok {
		p.metaSeen = meta
		return e, complete, nil
	}
	return p.read(frame, true)
}

// read is Head, or Peek, for a frame of any shape.
func (p *Peeker) read(frame []byte, stop bool) (e Envelope, complete bool, err error) {
	p.scanned = scanner{}
	p.form, p.metaSeen = nil, false
	d := p.decode(frame)
	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil || !blank(d.UnreadBuffer()) {
			return e, true, ErrSyntax
		}
		return e, true, ErrNotObject
	}
	if _, err := d.ReadToken(); err != nil {
		return e, true, ErrSyntax
	}
	complete, err = p.members(&e, stop)
	return e, complete, err
}

func (p *Peeker) decode(b []byte) *jsontext.Decoder {
	p.buf = *bytes.NewBuffer(b)
	p.dec.Reset(&p.buf)
	return &p.dec
}

// HasMeta reports whether Head has come to a meta, or has looked for one at both ends of
// a large frame. Otherwise the correlation id may still follow.
func (p *Peeker) HasMeta() bool { return p.metaSeen || p.large != nil }

// Rest reads what Head has left.
func (p *Peeker) Rest(e *Envelope) error {
	p.pending = nil
	if frame := p.large; frame != nil {
		return p.all(frame, e)
	}
	return p.rest(e)
}

func (p *Peeker) rest(e *Envelope) error {
	if frame := p.scanned.Bytes; frame != nil {
		if p.last(e) {
			return nil
		}
		// More follows the payload, or something is wrong with it.
		all, _, err := p.read(frame, false)
		*e = all
		return err
	}
	v, err := p.dec.ReadValue()
	if err != nil {
		return ErrSyntax
	}
	e.Payload = v
	_, err = p.members(e, false)
	return err
}

// maxAlone is the longest end of a frame that may be read without the rest. A payload
// of more bytes could be nested as deep as jsontext allows, 10,000 levels, which is one
// too many within a frame.
const maxAlone = 2 * 10_000

// last reads the payload behind a scanned head, if it is valid and nothing but the
// end of the frame follows it.
func (p *Peeker) last(e *Envelope) bool {
	end := p.scanned.Bytes[p.scanned.At:]
	if len(end) > maxAlone {
		return false
	}
	d := p.decode(end)
	v, err := d.ReadValue()
	if err != nil {
		return false
	}
	if !closes(d.UnreadBuffer()) {
		return false
	}
	e.Payload = v
	return true
}

// closes reports whether the end of a frame is all that is left of it.
func closes(end []byte) bool { return len(end) > 0 && end[0] == '}' && blank(end[1:]) }

// Tail returns what Head has left, from the payload on, or nil if the payload cannot be read by itself.
func (p *Peeker) Tail() []byte {
	if p.large != nil || p.scanned.Bytes == nil {
		return nil
	}
	return p.scanned.Bytes[p.scanned.At:]
}

// Took is Rest for a caller that has read the payload at the beginning of Tail, as valid JSON without names that
// repeat. rest is what follows it. With false that is more than the end of the frame, and Rest is still to be called.
func (p *Peeker) Took(e *Envelope, rest []byte) bool {
	if !closes(rest) {
		return false
	}
	tail := p.Tail()
	n := len(tail) - len(rest)
	e.Payload, p.pending = tail[:n:n], nil
	return true
}

// members reads members of the frame's object up to its end, or up to a payload
// before which there is nothing to object to. A violation of the envelope's form is
// reported only once the rest of the frame has been read, so that the correlation
// id is found wherever it stands.
func (p *Peeker) members(e *Envelope, stop bool) (complete bool, err error) {
	d := &p.dec
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			return true, ErrSyntax
		}
		switch string(plain(name, &p.scratch)) {
		case `"type"`:
			err = p.readType(e)
		case `"meta"`:
			p.metaSeen = true
			err = p.readMeta(e)
		case `"payload"`:
			if stop && (p.ends || e.Type != nil && p.form == nil) {
				return false, nil
			}
			var v jsontext.Value
			if v, err = d.ReadValue(); err == nil {
				e.Payload = v
			} else {
				err = ErrSyntax
			}
		default:
			if p.ends {
				return false, nil
			}
			if _, err = d.ReadValue(); err != nil {
				err = ErrSyntax
			}
		}
		if err == ErrSyntax {
			return true, err
		}
		if p.form == nil {
			p.form = err
		}
	}
	if _, err := d.ReadToken(); err != nil || !blank(d.UnreadBuffer()) {
		return true, ErrSyntax
	}
	if p.form == nil && e.Type == nil {
		return true, ErrNoType
	}
	return true, p.form
}

// blank reports whether b is nothing but white space.
func blank(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}

func (p *Peeker) readType(e *Envelope) error {
	v, err := p.dec.ReadValue()
	if err != nil {
		return ErrSyntax
	}
	if v.Kind() != '"' {
		return ErrTypeNotString
	}
	var scratch []byte
	t := unquote(v, &scratch)
	switch {
	case len(t) == 0:
		return ErrNoType
	case len(t) > MaxTypeLength:
		return ErrTypeTooLong
	}
	e.Type = t
	return nil
}

func (p *Peeker) readMetaMembers(e *Envelope) error {
	d := &p.dec
	switch d.PeekKind() {
	case 'n':
		if _, err := d.ReadToken(); err != nil {
			return ErrSyntax
		}
		return nil
	case '{':
	default:
		if _, err := d.ReadValue(); err != nil {
			return ErrSyntax
		}
		return ErrMetaNotObject
	}
	if _, err := d.ReadToken(); err != nil {
		return ErrSyntax
	}
	var form error
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			return ErrSyntax
		}
		switch string(plain(name, &p.scratch)) {
		case `"correlationId"`:
			e.CorrelationID, err = p.readID(ErrCorrelationID)
			if err == ErrCorrelationID && len(e.CorrelationID) > maxIDEcho {
				e.CorrelationID, err = nil, ErrIDTooLong
			}
		case `"idempotencyKey"`:
			if e.IdempotencyKey, err = p.readID(ErrIdempotencyKey); err != nil {
				e.IdempotencyKey = nil
			}
		case `"timeoutMs"`:
			e.TimeoutMs, err = p.readTimeout()
		default:
			var v jsontext.Value
			if v, err = d.ReadValue(); err == nil {
				err = p.addOwn(name, v)
			} else {
				err = ErrSyntax
			}
		}
		if err == ErrSyntax {
			return err
		}
		if form == nil {
			form = err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return ErrSyntax
	}
	return form
}

// readID returns a string that is too long with the error.
func (p *Peeker) readID(invalid error) ([]byte, error) {
	v, err := p.dec.ReadValue()
	switch {
	case err != nil:
		return nil, ErrSyntax
	case v.Kind() == 'n' || string(v) == `""`:
		return nil, nil
	case v.Kind() != '"':
		return nil, invalid
	}
	if len(v)-len(`""`) > MaxIDLength { // with its escapes, if it has any
		var scratch []byte
		if len(unquote(v, &scratch)) > MaxIDLength {
			return v, invalid
		}
	}
	return v, nil
}

func (p *Peeker) readTimeout() (int64, error) {
	switch p.dec.PeekKind() {
	case 'n':
		if _, err := p.dec.ReadToken(); err != nil {
			return 0, ErrSyntax
		}
		return 0, nil
	case '0':
		t, err := p.dec.ReadToken()
		if err != nil {
			return 0, ErrSyntax
		}
		// Int truncates a fraction and saturates what is out of range, each with
		// an error and a value that serves.
		if ms, _ := t.Int(); ms > 0 {
			return ms, nil
		}
		return 0, ErrTimeout
	}
	if _, err := p.dec.ReadValue(); err != nil {
		return 0, ErrSyntax
	}
	return 0, ErrTimeout
}

// longestName is that of the names the envelope has, quotes included.
const longestName = len(`"idempotencyKey"`)

// plain returns a name of an object, quotes included, without escapes. A name that
// is none of the envelope's may come back as it is.
func plain(name jsontext.Value, scratch *[]byte) []byte {
	if len(name) > 6*longestName || bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	*scratch = append((*scratch)[:0], '"')
	*scratch, _ = jsontext.AppendUnquote(*scratch, name)
	*scratch = append(*scratch, '"')
	return *scratch
}

// unquote returns the text of a JSON string that has been read as valid. Text
// without escapes, which is nearly all, is returned in place.
func unquote(v jsontext.Value, scratch *[]byte) []byte {
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	*scratch, _ = jsontext.AppendUnquote((*scratch)[:0], v)
	return *scratch
}
