package router

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/errors"
)

// problem is the body of a refused handshake: problem details as of RFC 9457,
// with the code that a frame would carry.
type problem struct {
	Title  string      `json:"title"`
	Status int         `json:"status"`
	Detail string      `json:"detail,omitempty"`
	Code   errors.Code `json:"code,omitempty"`
}

// refuseHandshake answers a request that is not upgraded.
func refuseHandshake(w http.ResponseWriter, err error) {
	e := errors.From(err)
	if e.Retryable() && e.RetryAfter > 0 {
		seconds := (e.RetryAfter + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	if e.Code == errors.Unauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeProblem(w, problem{Status: httpStatus(e.Code), Detail: e.Message, Code: e.Code})
}

func writeProblem(w http.ResponseWriter, p problem) {
	p.Title = http.StatusText(p.Status)
	body, err := json.Marshal(p)
	if err != nil {
		// Only an origin or a message that is not UTF-8 can be the cause.
		p.Detail = ""
		body, _ = json.Marshal(p)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
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
