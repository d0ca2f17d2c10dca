package router

import (
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/life"
)

// sizePeek is how much of a frame that is too large is looked at for a
// correlation id, so that its sender need not wait for an answer in vain.
const sizePeek = 1 << 10

// Frames that are turned away by the router itself.
var (
	errReserved    = errors.InvalidArgument.New("message type is reserved for the protocol")
	errUnknownType = errors.Unimplemented.New("message type is not known")
	errNoID        = errors.InvalidArgument.New("request has no meta.correlationId")
	errSwallowed   = errors.New("router: middleware returned nil without calling the next handler")
)

// dispatch is the way of a frame: from the bytes to its answer. Of a frame that is too
// large, it is given the beginning. It returns false when the goroutine has lost the
// reader's role while the handler ran.
func (c *Conn) dispatch(s *scratch, frame []byte, tooLarge bool) (reading bool) {
	if c.life.State() >= life.Closing {
		return true // after a close frame nothing is answered (RFC 6455, 1.4)
	}
	limits := &c.router.opts.Limits

	// 1 size
	size := len(frame)
	if tooLarge {
		size = limits.MaxPayload + 1
		frame = frame[:min(len(frame), sizePeek)]
	}

	// 2 peek, up to the payload if it comes last
	env, complete, bad := s.peeker.Head(frame)
	rt := c.route(s, env.Type)
	if bad != nil || tooLarge {
		rt = nil
	}

	// 3 ingress. A frame that is too large or malformed goes through it, too:
	// it has to be paid for like any other.
	err := c.admit(s, rt, &env, complete, size)
	if !complete && (err == nil || !s.peeker.HasMeta()) {
		bad = s.peeker.Rest(&env)
	}
	switch {
	case err != nil && ends(err): // nothing is said to who is banned
	case tooLarge:
		err = s.in.Reject(errors.LimitExceeded{
			Kind: errors.LimitPayload, Observed: int64(size), Limit: int64(limits.MaxPayload), Never: true,
		})
	case err != nil:
	case bad != nil:
		err = malformed(frame, bad)
	case rt == nil && reserved(env.Type):
		err = errReserved
	case rt == nil:
		err = errUnknownType
	case rt.builtin != nil:
		rt.builtin(c, env)
		return true
	case rt.request && env.CorrelationID == nil:
		err = errNoID
	case c.life.State() == life.Draining:
		err = c.router.drainError()
	// 4 in-flight
	case rt.request && c.turn.Requests() >= limits.MaxInFlight:
		err = s.in.Reject(errors.LimitExceeded{
			Kind: errors.LimitInFlight, Observed: int64(limits.MaxInFlight) + 1, Limit: int64(limits.MaxInFlight),
			RetryAfter: inFlightRetry,
		})
	}
	if err != nil {
		if string(env.Type) == typeAbort {
			env.CorrelationID = nil // of a request, which has an answer of its own
		}
		c.refuse(s.in.Type, env.CorrelationID, err)
		if bad == envelope.ErrIDTooLong { // whatever was answered, the client cannot match it
			c.Close(errors.ClosePolicy, envelope.ErrIDTooLong.Message)
		}
		return true
	}

	// 5 decode
	lent, err := c.decode(rt, &env)
	if err != nil {
		c.refuse(rt.typ, env.CorrelationID, err)
		return true
	}

	// 6 handler, 7 reply
	c.message.Store(int64(c.stream.Heard()))
	return c.handle(s, rt, lent, &env)
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

// admit sends the frame through the middleware of Router.UseIngress.
func (c *Conn) admit(s *scratch, rt *route, env *envelope.Envelope, complete bool, size int) (err error) {
	registered := ""
	if rt != nil {
		registered = rt.typ
	}
	s.in.Type, s.in.ReceivedAt, s.in.Size = registered, c.stream.ReadAt(), size
	s.in.State.SentType, s.in.State.Passed = env.Type, false
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if v == nil {
			if !complete {
				_ = s.peeker.Rest(env) // for the correlation id
			}
			c.exited("middleware", registered, env.CorrelationID)
			return
		}
		err = c.panicked(registered, v)
	}()
	err = c.serving.ingress(&s.in)
	returned = true
	if err == nil && !s.in.State.Passed {
		return errSwallowed
	}
	return err
}

// ends reports whether an error of the middleware is a rejection that closes the
// connection.
func ends(err error) bool {
	l := rejection(err)
	return l != nil && l.Close.Valid()
}

// decode makes the route's message of a payload. A type may decode or validate
// itself, and panic.
func (c *Conn) decode(rt *route, env *envelope.Envelope) (lent any, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if v == nil {
			c.exited("a message that decodes itself", rt.typ, env.CorrelationID)
			return
		}
		lent, err = nil, c.panicked(rt.typ, v)
	}()
	lent = rt.codec.get()
	if err = rt.codec.decode(lent, env.Payload); err != nil {
		rt.codec.put(lent)
		lent = nil
	}
	returned = true
	return lent, err
}

// exited is the last that the reader does whose goroutine was ended by
// runtime.Goexit: as with a handler that does this, the frame is answered, the
// connection is given up in good order, and another goroutine reads it to its end.
func (c *Conn) exited(who, typ string, id []byte) {
	c.refuse(typ, id, c.panicked(typ, "runtime.Goexit called by "+who))
	c.Close(errors.CloseInternal, "internal error")
	go c.read()
}
