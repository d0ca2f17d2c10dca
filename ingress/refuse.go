package ingress

import (
	"cmp"
	"net/http"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/httpclose"
	"github.com/wskit/wskit/internal/problem"
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
	// Accept accepts the handshake and closes the connection at once, because pages cannot see why a handshake was
	// refused. The code is 4401 for a status of 401, 4403 for 403, 4429 for 429, and 1013 for 503; a refusal with
	// another status is not accepted. The reason is {"retryAfterMs":n,"message":"…"}, with null if waiting does not
	// help, without retryAfterMs if the wait is not known, and with as much of the error's message as fits into 123
	// bytes.
	Accept bool
}

// Error describes the refusal for a log.
func (e *Refusal) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Refusal) Unwrap() error { return e.Err }

// traceHeader is the field of an answer that has its trace id.
const traceHeader = "X-Trace-Id"

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
	p := problem.Of(e)
	p.Type, p.Title, p.Violated = refusal.Type, refusal.Title, refusal.Violated
	p.Status = cmp.Or(refusal.Status, p.Status)
	if p.TraceID = refusal.TraceID; p.TraceID == "" {
		p.TraceID = TraceID(r)
	}
	h := w.Header()
	for name, values := range refusal.Header {
		h[name] = values
	}
	h.Set(traceHeader, p.TraceID)
	if refusal.Accept && acceptAndClose(w, r, p, e.Retryable()) {
		return
	}
	httpclose.AfterAnswer(w, r)
	p.Write(w)
}
