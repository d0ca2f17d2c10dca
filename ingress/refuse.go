package ingress

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/ceil"
	"github.com/wskit/wskit/internal/httpclose"
)

// Refusal is the answer to a handshake that is refused, for a [Gate] that sets more of the
// answer than the error.
type Refusal struct {
	// Err is the reason. It is logged, and errors.From of it is sent: code, message and wait.
	Err error
	// Status is the HTTP status. Default: by the error's code, see [Refuse].
	Status int
	// Type and Title are those of the problem (RFC 9457). Default: none, and the
	// status's text.
	Type, Title string
	// Violated names the policies that were violated.
	Violated []string
	// Header holds further fields of the answer.
	Header http.Header
	// TraceID is sent with the answer. Default: [TraceID] of the request.
	TraceID string
	// Accept accepts the handshake and closes the connection at once, because pages cannot
	// see why a handshake was refused. The code is 4401 for a status of 401, 4403 for 403, 4429
	// for 429, and 1013 for 503; a refusal with another status is not accepted. The reason is
	// {"retryAfterMs":n,"message":"…"}, with null if waiting does not help, without retryAfterMs if the wait is not known,
	// and with as much of the error's message as fits into 123 bytes.
	Accept bool
}

// Error describes the refusal for a log.
func (e *Refusal) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Refusal) Unwrap() error { return e.Err }

// traceHeader is the field of an answer that has its trace id.
const traceHeader = "X-Trace-Id"

// problem is the body of an answer: problem details (RFC 9457), with the members
// of a frame's error as well.
type problem struct {
	Type         string      `json:"type,omitempty"`
	Title        string      `json:"title"`
	Status       int         `json:"status"`
	Detail       string      `json:"detail,omitempty"`
	Code         errors.Code `json:"code,omitempty"`
	RetryAfterMs int64       `json:"retryAfterMs,omitempty"`
	Violated     []string    `json:"violated-policies,omitempty"`
	TraceID      string      `json:"traceId"`

	retryable bool
}

// Refuse answers a request that is not upgraded, with problem details (RFC 9457)
// and a trace id. The status is that of a [*Refusal], or else follows from the
// error's code: 401 for UNAUTHENTICATED, 400 for INVALID_ARGUMENT, 404 for
// NOT_FOUND, 429 for RESOURCE_EXHAUSTED, 503 for UNAVAILABLE, DEADLINE_EXCEEDED and
// ABORTED, 500 for INTERNAL and for an error without a code, and 403 for all others.
// An error with a wait sets Retry-After, in whole seconds, rounded up.
//
// Over HTTP/1 the connection is closed after the answer, without waiting for a body that the
// client has announced.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok || refusal == nil {
		refusal = &Refusal{Err: err}
	}
	e := errors.From(refusal.Err)
	p := problem{
		Type: refusal.Type, Title: refusal.Title, Status: refusal.Status,
		Detail: e.Message, Code: e.Code, Violated: refusal.Violated, TraceID: refusal.TraceID,
		retryable: e.Retryable(),
	}
	if p.Status == 0 {
		p.Status = httpStatus(e.Code)
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	if p.TraceID == "" {
		p.TraceID = TraceID(r)
	}
	h := w.Header()
	for name, values := range refusal.Header {
		h[name] = values
	}
	h.Set(traceHeader, p.TraceID)
	if e.Retryable() && e.RetryAfter > 0 {
		p.RetryAfterMs = ceil.Div(e.RetryAfter, time.Millisecond)
		h.Set("Retry-After", strconv.FormatInt(ceil.Div(e.RetryAfter, time.Second), 10))
	}
	if e.Code == errors.Unauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if refusal.Accept && acceptAndClose(w, r, p) {
		return
	}
	httpclose.AfterAnswer(w, r)
	writeProblem(w, p)
}

func writeProblem(w http.ResponseWriter, p problem) {
	body, _ := json.Marshal(p) // strings and numbers: cannot fail
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

func httpStatus(code errors.Code) int {
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
