package router

import "github.com/wskit/wskit/errors"

// sizePeek is how much of a frame that is too large is looked at for a
// correlation id, so that its sender need not wait for an answer in vain.
const sizePeek = 1 << 10

// peek reads the envelope, up to the payload if that comes last, and finds the route.
func (c *Conn) peek(s *scratch, f *incoming, frame []byte, tooLarge bool) {
	f.size, f.tooLarge = len(frame), tooLarge
	f.head(s, frame)
	if f.bad == nil {
		f.route = c.route(s, f.env.Type)
	}
	maxPayload := c.router.opts.Limits.MaxPayload
	if f.route != nil && f.route.own != nil {
		maxPayload = f.route.own.maxPayload
	}
	if f.size > maxPayload && !tooLarge { // other routes may have larger frames
		f.tooLarge = true
		f.head(s, frame)
	}
	if f.tooLarge {
		f.size, f.route = maxPayload+1, nil
	}
}

// head reads the envelope of a frame, or of the beginning of one that is too large.
func (f *incoming) head(s *scratch, frame []byte) {
	if f.tooLarge {
		frame = frame[:min(len(frame), sizePeek)]
	}
	f.bytes = frame
	f.env, f.complete, f.bad = s.peeker.Head(frame)
}

// route is the route of a type, nil if it is not registered. Clients send many of one
// type in a row.
func (c *Conn) route(s *scratch, typ []byte) *route {
	if rt := s.latest; rt != nil && string(typ) == rt.typ {
		return rt
	}
	rt := c.serving.routes[string(typ)]
	if rt != nil {
		s.latest = rt
	}
	return rt
}

// peekRest reads the rest of the envelope; of a frame that was refused, only to find the
// correlation id.
func (s *scratch) peekRest(f *incoming, admitted bool) {
	if !f.complete && (admitted || !s.peeker.HasMeta()) {
		f.bad = s.peeker.Rest(&f.env)
	}
}

func (s *scratch) errTooLarge(f *incoming) error {
	return s.in.Reject(errors.LimitExceeded{
		Kind: errors.LimitPayload, Observed: int64(f.size), Limit: int64(f.size) - 1, Never: true,
	})
}
