// Package ingress is what is known of a frame before its payload is decoded.
//
// Middleware registered with a router's UseIngress sees a [Context]: the message's
// type, the connection it came from and who is behind it, its size and when it
// came. It never sees a payload, so that a frame can be turned away before
// anything is decoded or allocated for it:
//
//	r.UseIngress(func(next ingress.Handler) ingress.Handler {
//		return func(c *ingress.Context) error {
//			if c.Identity.Tier == "suspended" {
//				return errors.PermissionDenied.New("account suspended")
//			}
//			return next(c)
//		}
//	})
package ingress

// Handler lets a frame pass by calling the next Handler and returning nil, or
// turns it away with an error. An *errors.LimitExceeded is answered as a
// rejection by a limit; an *errors.Error with its code; any other error, and nil
// without a call of the next Handler, as INTERNAL: a client is never left
// without an answer.
//
// The frames of one connection go through one at a time, in order of arrival;
// frames of different connections go through at once.
//
// A Handler may wait, for a store or for [Context.Hold]. What is ready to be sent to
// the connection then leaves within milliseconds, and requests that are being handled
// go on and are answered. But the connection is not read: frames behind this one,
// aborts and pings among them, and the client's going away are seen when the wait is
// over. So bound it, and give what waits [Context.Context], which is cancelled when
// this side ends the connection. The wait does not count as the client's silence.
type Handler func(*Context) error

// Middleware wraps a Handler. It runs at start-up, once; the Handler it returns
// runs for every frame, including those that turn out to be malformed or of an
// unregistered type (see [Context.Type]), so that no frame is free of charge.
type Middleware func(next Handler) Handler
