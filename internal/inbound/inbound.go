// Package inbound has the part of an ingress.Context that only the router sets.
package inbound

import "context"

// State is set by the router, but for Guards. The zero State is that of a Context which a test makes.
type State struct {
	// Ctx is cancelled when the connection ends. It may implement [Holder].
	Ctx context.Context
	// Values is set by middleware, nil for most frames.
	Values *Values
	// SentType is the frame's type as it was sent. It stays unchanged until the frame is
	// done.
	SentType []byte
	// Passed says that the frame has reached the innermost handler.
	Passed bool
	// Frame has read the frame, nil in a Context that a test makes.
	Frame Frame
	// Own is the router's data about the route of the frame.
	Own any
	// Guards are begun before the handler of the message. Middleware appends them.
	Guards []Guard
	// Silent says that a rejection of the frame is not answered (router.RouteOptions.Silent).
	Silent bool
	// Limits is nil for nearly all connections.
	Limits Limits
}

// Frame is the envelope of a frame.
type Frame interface {
	// DecodeMember decodes a member of meta into v, if there is one.
	DecodeMember(name string, v any) (bool, error)
}

// Holder is a connection's context that does something before a frame is held.
type Holder interface{ BeforeHold() }

// Guard is something that a message needs for as long as it is handled, such as one of the places
// of a limit. Its methods are called by the goroutine that calls the handler. The router calls
// neither for a message that does not reach its handler.
type Guard interface {
	// Begin is called before the handler, with its context. After an error the handler is not
	// called, and the error is answered.
	Begin(context.Context) error
	// End is called when the handler has returned, panicked or called runtime.Goexit, before the
	// answer is sent. It is called only after a Begin without an error.
	End()
}
