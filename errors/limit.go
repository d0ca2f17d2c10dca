package errors

import (
	"fmt"
	"time"
)

// LimitKind says which kind of limit a frame or a connection ran into.
type LimitKind string

const (
	LimitPayload    LimitKind = "payload"    // the frame is too large
	LimitRate       LimitKind = "rate"       // too many in a time
	LimitInFlight   LimitKind = "in_flight"  // too many requests open at once
	LimitConnection LimitKind = "connection" // too many connections, or opened too fast
	LimitBanned     LimitKind = "banned"     // kept away for a time, after too many rejections
)

// LimitExceeded is the rejection of a frame or a connection. Middleware
// returns it; the router alone decides what the client sees of it:
// RESOURCE_EXHAUSTED with the wait when waiting helps, FAILED_PRECONDITION
// when it never can.
type LimitExceeded struct {
	Kind     LimitKind
	Observed int64 // the cost, size or count that was asked for
	Limit    int64 // the ceiling it ran into
	// RetryAfter is the shortest wait after which the same attempt can
	// succeed. It is sent to the client in whole milliseconds, rounded up.
	RetryAfter time.Duration
	// Never says that waiting cannot help: the attempt can never fit.
	Never bool
	// Close ends the connection with this code, whatever the router does with
	// other rejections, and the reason {"retryAfterMs":n} tells when to come back.
	// 0, and a code that may not be sent ([CloseCode.Valid]), ends nothing.
	Close CloseCode
	// Limiter and Policy name what refused, for logs and metrics. They are
	// not sent to the client.
	Limiter string
	Policy  string
}

// Code returns RESOURCE_EXHAUSTED, or FAILED_PRECONDITION for a cost that no
// wait can make fit.
func (e *LimitExceeded) Code() Code {
	if e.Never && e.Kind != LimitPayload {
		return FailedPrecondition
	}
	return ResourceExhausted
}

// Message is the text for the client.
func (e *LimitExceeded) Message() string {
	switch {
	case e.Kind == LimitPayload:
		return "payload too large"
	case e.Kind == LimitInFlight:
		return "too many requests in flight"
	case e.Kind == LimitConnection:
		return "too many connections"
	case e.Kind == LimitBanned:
		return "banned for too many rejections"
	case e.Never:
		return "cost exceeds the rate limit's capacity"
	default:
		return "rate limit exceeded"
	}
}

// Error describes the rejection for a log.
func (e *LimitExceeded) Error() string {
	if e == nil {
		return errNilPointer.Error()
	}
	s := fmt.Sprintf("%s: %s (observed %d, limit %d", e.Code(), e.Message(), e.Observed, e.Limit)
	if e.Limiter != "" {
		s += ", limiter " + e.Limiter
	}
	if !e.Never && e.RetryAfter > 0 {
		s += ", retry after " + e.RetryAfter.String()
	}
	return s + ")"
}
