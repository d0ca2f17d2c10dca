package router

import (
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/hub"
	"github.com/wskit/wskit/router/internal/life"
)

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
