package envelope

import (
	"bytes"

	"github.com/wskit/wskit/errors"
)

const (
	// smallFrame is the largest frame that is read from its beginning on.
	smallFrame = 4 << 10
	// glanceSize is how much is read of each end of a larger one.
	glanceSize = 1 << 10
)

var errTypeFar = errors.InvalidArgument.New("type is neither in the first nor in the last KiB of a frame of more than 4 KiB")

// glance is Head for a large frame. It reads the members at the beginning, up to the
// payload, and the type and meta at the end: some encoders sort names, so that the type
// comes last. The type that it finds counts only once
// Rest has read the frame as a whole and found the same.
func (p *Peeker) glance(frame []byte) (e Envelope, complete bool, err error) {
	p.ends = true
	e, _, _ = p.head(frame[:glanceSize])
	p.ends = false
	found, own := p.metaSeen, p.own
	e.Payload = nil
	if e.Type == nil || !found {
		if end, endOwn, ok := p.last1KiB(frame); ok {
			if e.Type == nil {
				e.Type = end.Type
			}
			if !found {
				e.CorrelationID, e.IdempotencyKey, e.TimeoutMs = end.CorrelationID, end.IdempotencyKey, end.TimeoutMs
				own = endOwn
			}
		}
	}
	p.own = own
	p.large = frame
	if e.Type == nil {
		return e, true, errTypeFar
	}
	return e, false, nil
}

// endNames are those that a large frame may end with.
var endNames = [...][]byte{[]byte(`,"type":`), []byte(`,"meta":`)}

// last1KiB reads the members type and meta with which a frame ends. In a frame that is
// valid JSON, they are its own and not those of a value within it: behind these would
// come more than one closing brace.
func (p *Peeker) last1KiB(frame []byte) (e Envelope, own Members, ok bool) {
	// What was found points into p.end: it must not be moved by the next attempt.
	p.end = append(p.end[:0], frame[len(frame)-glanceSize:]...)
	for rest := frame[len(frame)-glanceSize:]; ; {
		at := -1
		for _, name := range endNames {
			at = max(at, bytes.LastIndex(rest, name))
		}
		if at < 0 {
			return e, own, ok
		}
		rest = rest[:at]
		p.end[at], p.own = '{', nil
		more, _, err := p.read(p.end[at:], false)
		p.end[at] = ','
		if err != nil && err != ErrNoType {
			return e, own, ok
		}
		if e, own, ok = more, p.own, true; e.Type != nil && p.metaSeen {
			return e, own, ok
		}
	}
}

// all reads a large frame as a whole. Its type has to be the one that was found.
func (p *Peeker) all(frame []byte, e *Envelope) error {
	found, own := append(p.found[:0], e.Type...), p.own
	p.large, p.own = nil, nil
	all, complete, err := p.head(frame)
	if !complete {
		err = p.rest(&all)
	}
	if err == nil && string(all.Type) != string(found) {
		err = ErrSyntax
	}
	if err == nil && string(own) != string(p.own) {
		err = errMembersFar
	}
	*e = all
	return err
}
