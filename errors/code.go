package errors

// Code names a kind of failure on the wire. An application may use codes of
// its own, best in the same style: capitals and underscores. A code that is
// not listed here is not retryable unless the error says so.
type Code string

const (
	// Unauthenticated: who the client is could not be established.
	Unauthenticated Code = "UNAUTHENTICATED"
	// PermissionDenied: the client is known and may not do this.
	PermissionDenied Code = "PERMISSION_DENIED"
	// InvalidArgument: a bad frame, or a payload that failed validation.
	InvalidArgument Code = "INVALID_ARGUMENT"
	// FailedPrecondition: it cannot work in this state; waiting does not help.
	FailedPrecondition Code = "FAILED_PRECONDITION"
	// NotFound: what the message names does not exist.
	NotFound Code = "NOT_FOUND"
	// AlreadyExists: what the message would make is there.
	AlreadyExists Code = "ALREADY_EXISTS"
	// Unimplemented: no handler is registered for the type.
	Unimplemented Code = "UNIMPLEMENTED"
	// Cancelled: the client took its request back.
	Cancelled Code = "CANCELLED"
	// DeadlineExceeded: the request's time ran out.
	DeadlineExceeded Code = "DEADLINE_EXCEEDED"
	// ResourceExhausted: a rate, a payload size or the requests in flight are
	// over their limit.
	ResourceExhausted Code = "RESOURCE_EXHAUSTED"
	// Unavailable: something the server depends on does not answer.
	Unavailable Code = "UNAVAILABLE"
	// Aborted: lost against a concurrent change.
	Aborted Code = "ABORTED"
	// Internal: a fault of the server. Its text never leaves the server.
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
	CloseNormal          CloseCode = 1000 // all is done
	CloseGoingAway       CloseCode = 1001 // the server drains: reconnect
	ClosePolicy          CloseCode = 1008 // not authenticated any more, banned
	ClosePayloadTooLarge CloseCode = 1009 // where a size limit closes
	CloseInternal        CloseCode = 1011 // a fault of the server
	CloseTryAgainLater   CloseCode = 1013 // overload; the default of a limit that closes
	CloseNoHeartbeat     CloseCode = 4000 // nothing heard in time
	CloseSlowConsumer    CloseCode = 4008 // the client reads slower than it is sent to
	CloseTooManyRequests CloseCode = 4429 // a repeat offender
)

// Valid reports whether a server may send the code in a close frame.
func (c CloseCode) Valid() bool {
	switch {
	case c >= 3000 && c <= 4999:
		return true
	case c >= 1000 && c <= 1014:
		// 1004 to 1006 never travel, and 1010 is the client's.
		return c != 1004 && c != 1005 && c != 1006 && c != 1010
	default:
		return false
	}
}
