// Package inbound is what the router keeps in an ingress.Context beside what middleware reads.
package inbound

import "context"

// State belongs to the router. The zero State is that of a Context which a test made.
type State struct {
	// Ctx is cancelled when the connection ends. It may implement [Holder].
	Ctx context.Context
	// SentType is the frame's type as it was sent. It stays unchanged until the frame is
	// done.
	SentType []byte
	// Passed says that the frame has reached the innermost handler.
	Passed bool
}

// Holder is a connection's context that does something before a frame is held.
type Holder interface{ BeforeHold() }
