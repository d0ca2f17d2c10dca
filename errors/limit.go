package errors

import (
	"fmt"
	"time"
)

// LimitKind is the kind of limit that a frame or a connection exceeded.
type LimitKind string

const (
	LimitPayload    LimitKind = "payload"    // the frame is too large
	LimitRate       LimitKind = "rate"       // too many within a time
	LimitInFlight   LimitKind = "in_flight"  // too many requests open at once
	LimitConnection LimitKind = "connection" // too many connections, or opened too fast
	LimitBanned     LimitKind = "banned"     // banned for a time, for too many rejections or by hand
)

// LimitExceeded is the rejection of a frame or a connection by a limit. Middleware returns it,
// and the router answers: RESOURCE_EXHAUSTED with the wait if waiting helps, and
// FAILED_PRECONDITION if it does not.
type LimitExceeded struct {
	Kind     LimitKind // what was exceeded
	Observed int64     // the cost, size or count of the attempt
	Limit    int64     // the limit that it exceeds
	// Remaining is what was left of the limit, such as 3 of 20 tokens for an attempt that
	// costs 5.
	Remaining int64
	// RetryAfter is the shortest wait after which the same attempt can
	// succeed. It is sent to the client in whole milliseconds, rounded up.
	RetryAfter time.Duration
	// Never means that waiting does not help: the attempt can never fit.
	Never bool
	// Close closes the connection with this code, whatever Limits.OnExceeded of the router
	// says. The reason is {"retryAfterMs":n}. With 0, or with a code that may not be sent
	// ([CloseCode.Valid]), the connection stays open.
	Close CloseCode
	// Silent rejects a message without an answer, whatever Limits.OnExceeded of the router says.
	// A message with a correlation id is answered nevertheless: its client waits for that. Close
	// takes precedence.
	Silent bool
	// Limiter and Policy are the names of the limiter and the policy, for logs and metrics.
	// They are not sent to the client.
	Limiter string
	Policy  string
}

// Code returns RESOURCE_EXHAUSTED, or FAILED_PRECONDITION for a cost that can never fit.
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
		return "banned for a time"
	case e.Never:
		return "cost exceeds the rate limit's capacity"
	default:
		return "rate limit exceeded"
	}
}

// Error returns a text for logs.
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
