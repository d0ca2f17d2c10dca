// Package ingress is the contract of middleware that runs before the payload of a frame is
// decoded, and of the decisions before a connection is opened.
//
// Middleware registered with a router's Use sees a [Context]: the message's
// type, its connection and identity, its size and time of arrival. It does not see a
// payload, so that a frame can be rejected before anything is decoded or allocated for it:
//
//	r.Use(func(next ingress.Handler) ingress.Handler {
//		return func(c *ingress.Context) error {
//			if c.Identity.Tier == "suspended" {
//				return errors.PermissionDenied.New("account suspended")
//			}
//			return next(c)
//		}
//	})
package ingress

// Handler lets a frame pass by calling the next Handler and returning nil, or
// rejects it with an error. An *errors.LimitExceeded is answered as a
// rejection by a limit; an *errors.Error with its code; any other error as INTERNAL. To
// return nil without a call of the next Handler is an error too, and answered as INTERNAL.
//
// The frames of one connection are handled one at a time, in order of arrival; frames of
// different connections are handled concurrently.
//
// A Handler may wait, for a store or for [Context.Hold]. Queued output is still sent within
// milliseconds, and requests in progress are still answered. But the connection is not read:
// later frames, including aborts and pings, and the end of the connection by the client are
// seen when the wait is over. So limit the wait, and pass [Context.Context] to what waits: it
// is cancelled when this side ends the connection. The wait does not count as silence of
// the client.
type Handler func(*Context) error

// Middleware wraps a Handler. It runs at start-up, once; the Handler it returns
// runs for every frame, including those that turn out to be malformed or of an
// unregistered type (see [Context.Type]), so that every frame can be charged. It does not run for
// those of the protocol's own, such as heartbeats, unless a client sends more than it needs.
type Middleware func(next Handler) Handler
