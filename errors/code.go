package errors

// Code is the kind of a failure, as it is sent to clients. An application may use codes of
// its own, preferably in the same style: capitals and underscores. A code that is not listed
// here is not retryable unless the error says so.
type Code string

const (
	// Unauthenticated: the client could not be identified, or its identity has expired.
	Unauthenticated Code = "UNAUTHENTICATED"
	// PermissionDenied: the client may not do this.
	PermissionDenied Code = "PERMISSION_DENIED"
	// InvalidArgument: a bad frame, or a payload that failed validation.
	InvalidArgument Code = "INVALID_ARGUMENT"
	// FailedPrecondition: not possible in the current state; waiting does not help.
	FailedPrecondition Code = "FAILED_PRECONDITION"
	// NotFound: the object that the message names does not exist.
	NotFound Code = "NOT_FOUND"
	// AlreadyExists: the object that the message would create exists.
	AlreadyExists Code = "ALREADY_EXISTS"
	// Unimplemented: no handler is registered for the type, or the server does not use the feature.
	Unimplemented Code = "UNIMPLEMENTED"
	// Cancelled: the client aborted its request.
	Cancelled Code = "CANCELLED"
	// DeadlineExceeded: the time of the request is over.
	DeadlineExceeded Code = "DEADLINE_EXCEEDED"
	// ResourceExhausted: over a rate limit, a size limit, or the limit of requests in
	// flight.
	ResourceExhausted Code = "RESOURCE_EXHAUSTED"
	// Unavailable: something that the server needs does not answer, or the server is overloaded or
	// shuts down.
	Unavailable Code = "UNAVAILABLE"
	// Aborted: a concurrent change came first; the same request may succeed now.
	Aborted Code = "ABORTED"
	// Internal: a fault of the server. Its text is not sent to the client.
	Internal Code = "INTERNAL"
)

// retryable reports whether the same request may succeed later, by the code alone.
func (c Code) retryable() bool {
	switch c {
	case DeadlineExceeded, ResourceExhausted, Unavailable, Aborted:
		return true
	default:
		return false
	}
}

// CloseCode is a WebSocket close code (RFC 6455, section 7.4), with the codes
// of the private range that this protocol defines.
type CloseCode uint16

const (
	CloseNormal           CloseCode = 1000 // normal end, or no message within Liveness.IdleTimeout
	CloseGoingAway        CloseCode = 1001 // the server shuts down, or the connection is at its maximum age: reconnect
	ClosePolicy           CloseCode = 1008 // not allowed: OnOpen refused
	ClosePayloadTooLarge  CloseCode = 1009 // a frame too large, if a size limit closes
	CloseInternal         CloseCode = 1011 // a fault of the server
	CloseTryAgainLater    CloseCode = 1013 // overload; the default for a limit that closes
	CloseNoHeartbeat      CloseCode = 4000 // no heartbeat, or a message was not complete in time
	CloseSlowConsumer     CloseCode = 4008 // the client reads too slowly
	CloseUnauthenticated  CloseCode = 4401 // not authenticated, or the identity has expired: reconnect with another token
	ClosePermissionDenied CloseCode = 4403 // a handshake was refused because the client may not connect
	CloseTooManyRequests  CloseCode = 4429 // banned for a time, or too many connections
)

// Valid reports whether a server may send the code in a close frame.
func (c CloseCode) Valid() bool {
	switch {
	case c >= 3000 && c <= 4999:
		return true
	case c >= 1000 && c <= 1014:
		// 1004 to 1006 are never sent, and 1010 is for clients.
		return c != 1004 && c != 1005 && c != 1006 && c != 1010
	default:
		return false
	}
}
