package router

import (
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/hub"
	"github.com/wskit/wskit/router/internal/life"
)

// sizePeek is how much of a frame that is too large is looked at for a
// correlation id, so that its sender need not wait for an answer in vain.
const sizePeek = 1 << 10

// Frames that are turned away by the router itself.
var (
	errReserved = hub.ErrReserved
	errNoID     = errors.InvalidArgument.New("request has no meta.correlationId")
	errNoEvent  = errors.InvalidArgument.New("request has no meta.correlationId; the type has an answer: use request, not send")
)

// dispatch is how a frame is processed: from the bytes to its answer. Of a frame that is
// too large, it is given the beginning. It returns false when the goroutine has lost the
// reader's role while the handler ran.
func (c *Conn) dispatch(s *scratch, frame []byte, tooLarge bool) (reading bool) {
	if c.life.State() >= life.Closing {
		return true // after a close frame nothing is answered (RFC 6455, 1.4)
	}
	if c.peer.Traced.Load() {
		c.trace(false, frame)
	}
	s.identify(c.identity.Load())
	var f incoming // on the stack
	c.peek(s, &f, frame, tooLarge)
	check, err := RefusedMiddleware, c.askMiddleware(s, &f)
	if c.limits != nil {
		c.limits.Passed(f.env.Type, rejection(err) != nil)
	}
	if err == nil {
		if err = c.checkOverload(s, &f); err != nil {
			check = RefusedOverload
		}
	}
	if err == nil {
		s.decodeFlat(&f)
	}
	s.peekRest(&f, err == nil)
	if f.tooLarge && !ends(err) {
		err = s.errTooLarge(&f)
	}
	if err == nil {
		check, err = RefusedEnvelope, f.checkEnvelope()
	}
	if err == nil {
		check, err = RefusedType, c.checkRoute(&f)
	}
	if err == nil && f.route.builtin != nil {
		if check, err = f.route.builtin.handle(c, s, f.env, f.bytes); err == nil {
			if !f.route.builtin.counts {
				c.router.count(f.route, nil)
			}
			return true
		}
	}
	if err == nil {
		check, err = RefusedDraining, c.checkState(s)
	}
	if err == nil {
		err = c.checkInFlight(s, &f)
	}
	if err == nil {
		check, err = RefusedPayload, c.decode(&f)
	}
	if err != nil {
		c.refuseFrame(&f, check, err)
		return true
	}
	if !f.route.protocol {
		c.message.Store(int64(c.stream.Heard()))
	}
	return c.handle(s, &f)
}

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

// askMiddleware sends the frame through the middleware of Router.Use. A frame that
// is too large or malformed goes through it, too: it has to be paid for like any other. One of the
// protocol does only where the client sends more of them than it needs.
func (c *Conn) askMiddleware(s *scratch, f *incoming) (err error) {
	s.in.Type, s.in.ReceivedAt, s.in.Size = f.typ(), c.stream.ReadAt(), f.size
	s.in.State.SentType, s.in.State.Passed = f.env.Type, false
	if s.in.State.Values != nil {
		s.in.State.Values = nil
	}
	if len(s.in.State.Guards) > 0 {
		s.dropGuards()
	}
	if c.serving.own {
		s.in.Exempt, s.in.State.Own, s.in.State.Silent = false, nil, false
		if f.route != nil && f.route.own != nil {
			s.in.Exempt, s.in.State.Own, s.in.State.Silent = f.route.own.exempt, f.route.own, f.route.own.silent
		}
	}
	if c.passesFreely(f) {
		return nil
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if v == nil {
			if !f.complete {
				_ = s.peeker.Rest(&f.env) // for the correlation id
			}
			c.exited("middleware", f)
			return
		}
		err = c.panicked(f.typ(), v)
	}()
	err = c.serving.ingress(&s.in)
	returned = true
	if err == nil && !s.in.State.Passed {
		return errSwallowed
	}
	if s.in.State.Silent {
		if l := rejection(err); l != nil {
			return s.in.Reject(*l) // sets Silent, if the middleware has not called Reject
		}
	}
	return err
}

// peekRest reads the rest of the envelope; of a frame that was refused, only to find the
// correlation id.
func (s *scratch) peekRest(f *incoming, admitted bool) {
	if !f.complete && (admitted || !s.peeker.HasMeta()) {
		f.bad = s.peeker.Rest(&f.env)
	}
}

// decodeFlat decodes a payload of the shape that nearly all have, and so need not read it twice. Of any other it
// learns nothing.
func (s *scratch) decodeFlat(f *incoming) {
	if f.complete || f.tooLarge || f.route == nil || f.route.builtin != nil {
		return
	}
	tail := s.peeker.Tail()
	if tail == nil {
		return
	}
	codec := f.route.codec
	lent := codec.get()
	if rest, ok := codec.DecodeFlat(lent, tail); ok && s.peeker.Took(&f.env, rest) {
		f.complete, f.lent = true, lent
		return
	}
	codec.put(lent)
}

func (s *scratch) errTooLarge(f *incoming) error {
	return s.in.Reject(errors.LimitExceeded{
		Kind: errors.LimitPayload, Observed: int64(f.size), Limit: int64(f.size) - 1, Never: true,
	})
}

func (f *incoming) checkEnvelope() error {
	if f.bad != nil {
		return malformed(f.bytes, f.bad)
	}
	return nil
}

func (c *Conn) checkRoute(f *incoming) error {
	switch {
	case f.route == nil && string(f.env.Type) == typeRenew:
		return errNoRenew
	case f.route == nil && string(f.env.Type) == typeResume:
		return errNoResume
	case f.route == nil && frame.Reserved(f.env.Type):
		return errReserved
	case f.route == nil:
		return c.unknownType(f.env.Type)
	case f.route.request && f.env.CorrelationID == nil:
		if f.route.protocol {
			return errNoID
		}
		return errNoEvent
	}
	return nil
}

func (c *Conn) checkState(s *scratch) error {
	switch {
	case c.life.State() == life.Draining:
		return c.router.drainError()
	case s.identity.Expired(c.stream.ReadAt()):
		return errExpired
	}
	return nil
}

// checkInFlight refuses a request while too many are handled already, or wait in place of
// an earlier one with the same idempotency key. What waits for its turn is not refused: it
// holds back reading, see turn.Rules.
func (c *Conn) checkInFlight(s *scratch, f *incoming) error {
	most := c.router.opts.Limits.MaxInFlight
	if !f.route.request || c.turn.Requests() < most || !f.route.opts.Concurrent && !c.idempotent(f) {
		return nil
	}
	return s.in.Reject(inFlight(most))
}

// refuseFrame answers a frame that does not reach its handler.
func (c *Conn) refuseFrame(f *incoming, check RefusedKind, err error) {
	switch err {
	case errNoID, errNoEvent:
		check = RefusedEnvelope
	case errExpired:
		check = RefusedIdentity
	}
	c.refused(check, f.typ(), err)
	c.router.count(f.route, err)
	id := f.env.CorrelationID
	if check == RefusedOverload && id == nil && f.route.opts.Silent {
		c.router.stats.unanswered.Add(1)
		return
	}
	if string(f.env.Type) == typeAbort || string(f.env.Type) == typeAnswer {
		id = nil // of a request, which has an answer of its own, or of a question
	}
	c.answerFailed(frame.Failed{Type: f.typ(), Sent: f.env.Type, ID: id}, err)
	if f.bad == envelope.ErrIDTooLong { // whatever was answered, the client cannot match it
		c.Close(errors.ClosePolicy, envelope.ErrIDTooLong.Message)
	}
}

// ends reports whether an error of the middleware is a rejection that closes the
// connection.
func ends(err error) bool {
	l := rejection(err)
	return l != nil && l.Close.Valid()
}

// decode makes the route's message of a payload. A type may decode or validate
// itself, and panic.
func (c *Conn) decode(f *incoming) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if v == nil {
			c.exited("a message that decodes itself", f)
			return
		}
		err = c.panicked(f.typ(), v)
	}()
	codec := f.route.codec
	lent := f.lent
	if f.lent = nil; lent != nil {
		err = codec.Check(lent)
	} else {
		lent = codec.get()
		err = codec.Decode(lent, f.env.Payload)
	}
	if err != nil {
		codec.put(lent)
		lent = nil
	}
	f.lent = lent
	returned = true
	return err
}

// exited is the last that the reader does whose goroutine was ended by
// runtime.Goexit: as with a handler that does this, the frame is answered, the
// connection is given up in good order, and another goroutine reads it to its end.
func (c *Conn) exited(by string, f *incoming) {
	err := c.panicked(f.typ(), "runtime.Goexit called by "+by)
	c.router.count(f.route, err)
	c.refuse(f.typ(), f.env.CorrelationID, err)
	c.Close(errors.CloseInternal, "internal error")
	go c.read()
}
