package client

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// CloseError says that the server closed a connection.
type CloseError struct {
	// Code is the close code: one of package errors, or 1005 if the close frame has none.
	Code errors.CloseCode
	// Reason is the text of the close frame, at most 123 bytes, as the server sent it; often empty.
	Reason string
}

// Error returns a text for logs, which quote it themselves. What cannot be printed is left out.
func (e *CloseError) Error() string {
	reason := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, e.Reason)
	return strings.TrimSpace(fmt.Sprintf("the server closed the connection with %d %s", e.Code, reason))
}

// ending is why a connection ended or could not be opened, and what follows from that.
type ending struct {
	err    *errors.Error // errors.Unauthenticated: another token is needed
	fatal  bool          // no other attempt
	atOnce bool          // the first attempt needs no backoff
	after  time.Duration // no attempt before
	// guilty is set if a message of the client may be the cause: none is sent again.
	guilty bool
	open   time.Duration // how long the connection was open
}

// closed is the ending of a connection that the server closed, by the table of PROTOCOL.md.
func closed(code errors.CloseCode, reason string) (e ending) {
	wait := false // for a time that the reason has
	kind := errors.Unavailable
	switch code {
	case errors.CloseGoingAway:
		wait, e.atOnce = true, true
	case errors.CloseNoHeartbeat:
		e.atOnce = true
	case 1002, 1007, errors.ClosePolicy, errors.ClosePermissionDenied:
		kind, e.fatal = errors.PermissionDenied, true
	case errors.ClosePayloadTooLarge:
		kind, e.guilty = errors.ResourceExhausted, true
	case errors.CloseTryAgainLater, errors.CloseTooManyRequests:
		kind, wait = errors.ResourceExhausted, true
	case errors.CloseUnauthenticated:
		kind = errors.Unauthenticated
	}
	var advised struct {
		RetryAfterMs jsontext.Value `json:"retryAfterMs"`
		Message      string         `json:"message"`
	}
	known := json.Unmarshal([]byte(reason), &advised) == nil
	if wait && known && advised.RetryAfterMs != nil {
		e.atOnce = false
		e.after, e.guilty = advice(advised.RetryAfterMs)
		e.fatal = e.guilty && code == errors.CloseTooManyRequests
	}
	e.err = &errors.Error{
		Code: kind, Message: cmp.Or(advised.Message, "the connection was closed"), Retry: !e.fatal, NoRetry: e.fatal, RetryAfter: e.after,
		Cause: &CloseError{code, reason},
	}
	return e
}

// broken is the ending of a connection that failed, or that could not be opened.
func broken(err error) ending {
	if ce, ok := errors.AsType[websocket.CloseError](err); ok {
		return closed(errors.CloseCode(ce.Code), ce.Reason)
	}
	return ending{err: errors.Unavailable.Wrap(err, "there is no connection")}
}

// refused is the ending of a handshake that has failed, with the answer of the server if there is one.
func refused(res *http.Response, err error) ending {
	if res == nil || res.StatusCode == http.StatusSwitchingProtocols {
		return broken(err)
	}
	var problem struct {
		failure
		Detail string `json:"detail"`
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	ours := media == "application/problem+json" && json.Unmarshal(body, &problem) == nil && problem.Code != ""
	if !ours { // a proxy's, perhaps while the server restarts
		problem.failure = failure{Code: errors.Unavailable}
		problem.Detail = "the server answered the handshake with " + res.Status
	}
	e := ending{}
	switch status := res.StatusCode; {
	case status == http.StatusUnauthorized:
		problem.Code = errors.Unauthenticated
	case status == http.StatusTooManyRequests || status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooEarly:
		if problem.RetryAfterMs == nil {
			problem.RetryAfterMs = jsontext.Value(res.Header.Get("Retry-After") + "000") // from seconds
		}
		e.after, e.fatal = advice(problem.RetryAfterMs)
	default:
		e.fatal = ours
	}
	e.err = &errors.Error{Code: problem.Code, Message: problem.Detail, Retry: !e.fatal, NoRetry: e.fatal, RetryAfter: e.after, Cause: err}
	return e
}

// stable is how long a connection has to be open to have the backoff begin anew.
const stable = 10 * time.Second

// pause is the time before the next attempt, after so many that have failed.
func (e ending) pause(failures int, o *Options) time.Duration {
	if e.atOnce && failures == 0 {
		return 0
	}
	most := math.Min(float64(o.MaxBackoff), float64(o.MinBackoff)*math.Exp2(float64(failures)))
	return max(e.after, rand.N(time.Duration(most)+1))
}

// sleep returns false when ctx has ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
