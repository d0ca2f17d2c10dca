// Package problem is the answer to an HTTP request that fails: problem details (RFC 9457), with what a frame's error
// has.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/ceil"
)

// Problem is the body of an answer.
type Problem struct {
	Type         string          `json:"type,omitempty"`
	Title        string          `json:"title"`
	Status       int             `json:"status"`
	Detail       string          `json:"detail,omitempty"`
	Code         errors.Code     `json:"code,omitempty"`
	Details      json.RawMessage `json:"details,omitempty"`
	RetryAfterMs int64           `json:"retryAfterMs,omitempty"`
	Violated     []string        `json:"violated-policies,omitempty"`
	TraceID      string          `json:"traceId,omitempty"`
}

// Of describes an error, but its details.
func Of(e *errors.Error) Problem {
	p := Problem{Status: Status(e.Code), Detail: e.Message, Code: e.Code}
	if e.Retryable() && e.RetryAfter > 0 {
		p.RetryAfterMs = ceil.Div(e.RetryAfter, time.Millisecond)
	}
	return p
}

// Write answers with the problem, and with Retry-After, in whole seconds, rounded up, if the wait is known.
func (p Problem) Write(w http.ResponseWriter) {
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	h := w.Header()
	if p.RetryAfterMs > 0 {
		wait := ceil.Div(time.Duration(p.RetryAfterMs)*time.Millisecond, time.Second)
		h.Set("Retry-After", strconv.FormatInt(wait, 10))
	}
	if p.Code == errors.Unauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	body, _ := json.Marshal(p) // strings and numbers, and what is JSON already: cannot fail
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

// Status is the HTTP status of an error's code.
func Status(code errors.Code) int {
	switch code {
	case errors.Unauthenticated:
		return http.StatusUnauthorized
	case errors.PermissionDenied, errors.FailedPrecondition:
		return http.StatusForbidden
	case errors.InvalidArgument:
		return http.StatusBadRequest
	case errors.NotFound:
		return http.StatusNotFound
	case errors.ResourceExhausted:
		return http.StatusTooManyRequests
	case errors.Unavailable, errors.DeadlineExceeded, errors.Aborted:
		return http.StatusServiceUnavailable
	case errors.Internal:
		return http.StatusInternalServerError
	default:
		return http.StatusForbidden
	}
}
