package errors_test

import (
	"context"
	stderrors "errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/errors"
)

// retryable is the table of PROTOCOL.md. TestCodesAreThoseOfTheProtocol keeps it
// complete.
var retryable = map[errors.Code]bool{
	"UNAUTHENTICATED":     false,
	"PERMISSION_DENIED":   false,
	"INVALID_ARGUMENT":    false,
	"FAILED_PRECONDITION": false,
	"NOT_FOUND":           false,
	"ALREADY_EXISTS":      false,
	"UNIMPLEMENTED":       false,
	"CANCELLED":           false,
	"DEADLINE_EXCEEDED":   true,
	"RESOURCE_EXHAUSTED":  true,
	"UNAVAILABLE":         true,
	"ABORTED":             true,
	"INTERNAL":            false,
}

func TestRetryableByCode(t *testing.T) {
	for code, want := range retryable {
		if got := code.New("m").Retryable(); got != want {
			t.Errorf("an error of %s: Retryable() = %v, the protocol says %v", code, got, want)
		}
	}
	for _, own := range []errors.Code{"", "ROOM_FULL", "unavailable"} {
		if own.New("m").Retryable() {
			t.Errorf("%q is no code of the protocol and counts as retryable", own)
		}
	}
}

func TestRetryOverridesTheCode(t *testing.T) {
	for _, c := range []struct {
		err  errors.Error
		want bool
	}{
		{errors.Error{Code: errors.Internal, Retry: true}, true},
		{errors.Error{Code: errors.Unavailable, NoRetry: true}, false},
		{errors.Error{Code: errors.Unavailable}, true},
		{errors.Error{Code: errors.Unavailable, Retry: true, NoRetry: true}, false},
		{errors.Error{Code: errors.NotFound}, false},
	} {
		if got := c.err.Retryable(); got != c.want {
			t.Errorf("%s with Retry %v, NoRetry %v: Retryable() = %v, want %v", c.err.Code, c.err.Retry, c.err.NoRetry, got, c.want)
		}
	}
}

// nested wraps err in every way of the standard library.
func nested(err error) error {
	err = fmt.Errorf("one: %w", err)
	err = stderrors.Join(io.EOF, err)
	return fmt.Errorf("%w, then %w", io.ErrClosedPipe, err)
}

func TestFrom(t *testing.T) {
	noRoom := errors.NotFound.New("no room")
	rate := &errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 10, RetryAfter: 250 * time.Millisecond}
	var nilError *errors.Error
	var nilLimit *errors.LimitExceeded

	type seen struct {
		code       errors.Code
		message    string
		retryable  bool
		retryAfter time.Duration
	}
	for _, c := range []struct {
		name string
		err  error
		want seen
	}{
		{"coded", noRoom, seen{"NOT_FOUND", "no room", false, 0}},
		{"coded, wrapped deep", nested(noRoom), seen{"NOT_FOUND", "no room", false, 0}},
		{"a code of the application's own", errors.Code("ROOM_FULL").New("full"), seen{"ROOM_FULL", "full", false, 0}},
		{"coded around another code", errors.Aborted.Wrap(noRoom, "lost"), seen{"ABORTED", "lost", true, 0}},
		{"coded around a context error", errors.Unavailable.Wrap(context.Canceled, "gone"), seen{"UNAVAILABLE", "gone", true, 0}},
		{"a context error beside a coded one", stderrors.Join(context.Canceled, noRoom), seen{"NOT_FOUND", "no room", false, 0}},
		{"deadline", context.DeadlineExceeded, seen{"DEADLINE_EXCEEDED", "deadline exceeded", true, 0}},
		{"deadline, wrapped deep", nested(context.DeadlineExceeded), seen{"DEADLINE_EXCEEDED", "deadline exceeded", true, 0}},
		{"cancelled", context.Canceled, seen{"CANCELLED", "cancelled", false, 0}},
		{"cancelled, wrapped deep", nested(context.Canceled), seen{"CANCELLED", "cancelled", false, 0}},
		{"rate", rate, seen{"RESOURCE_EXHAUSTED", "rate limit exceeded", true, 250 * time.Millisecond}},
		{"rate, wrapped deep", nested(rate), seen{"RESOURCE_EXHAUSTED", "rate limit exceeded", true, 250 * time.Millisecond}},
		{"rate that can never fit", &errors.LimitExceeded{Kind: errors.LimitRate, Never: true},
			seen{"FAILED_PRECONDITION", "cost exceeds the rate limit's capacity", false, 0}},
		{"payload", &errors.LimitExceeded{Kind: errors.LimitPayload, Never: true},
			seen{"RESOURCE_EXHAUSTED", "payload too large", false, 0}},
		{"in flight", &errors.LimitExceeded{Kind: errors.LimitInFlight, RetryAfter: time.Second},
			seen{"RESOURCE_EXHAUSTED", "too many requests in flight", true, time.Second}},
		{"connection", &errors.LimitExceeded{Kind: errors.LimitConnection, RetryAfter: time.Second},
			seen{"RESOURCE_EXHAUSTED", "too many connections", true, time.Second}},
		{"uncoded", nested(stderrors.New("password=hunter2")), seen{"INTERNAL", "internal error", false, 0}},
		{"a nil *Error", nilError, seen{"INTERNAL", "internal error", false, 0}},
		{"a nil *LimitExceeded", nilLimit, seen{"INTERNAL", "internal error", false, 0}},
		{"a nil *Error, wrapped", fmt.Errorf("op: %w", nilError), seen{"INTERNAL", "internal error", false, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := errors.From(c.err)
			if got := (seen{e.Code, e.Message, e.Retryable(), e.RetryAfter}); got != c.want {
				t.Errorf("the client sees %+v, want %+v", got, c.want)
			}
			if code := errors.CodeOf(c.err); code != c.want.code {
				t.Errorf("CodeOf = %q, From says %q", code, c.want.code)
			}
			// Logging it and looking into it never panics, not even for nil pointers.
			_, _ = c.err.Error(), e.Error()
			_ = errors.Is(c.err, io.EOF)
		})
	}

	if e := errors.From(nil); e != nil {
		t.Errorf("From(nil) = %v", e)
	}
	if code := errors.CodeOf(nil); code != "" {
		t.Errorf("CodeOf(nil) = %q", code)
	}
	if e := errors.From(nested(noRoom)); e != noRoom {
		t.Error("From made a new *Error though the tree holds one")
	}
}

// What becomes INTERNAL keeps its text for the log, and shows the client none.
func TestCauseStaysOnTheServer(t *testing.T) {
	cause := stderrors.New("dial 10.0.0.7: refused")
	for _, e := range []*errors.Error{
		errors.From(nested(cause)),
		errors.Unavailable.Wrap(cause, "try later"),
	} {
		if strings.Contains(e.Message, "10.0.0.7") {
			t.Errorf("message %q shows the cause", e.Message)
		}
		if !strings.Contains(e.Error(), "10.0.0.7") {
			t.Errorf("Error() = %q does not show the cause to the log", e.Error())
		}
		if !errors.Is(e, cause) {
			t.Errorf("errors.Is does not find the cause of %v", e)
		}
	}
}

func TestErrorf(t *testing.T) {
	cause := stderrors.New("cause")
	other := stderrors.New("other")

	e := errors.Unavailable.Errorf("shard %d: %w", 7, cause)
	if e.Code != errors.Unavailable || e.Message != "shard 7: cause" || e.Cause != cause {
		t.Errorf("%%w: %+v", e)
	}
	e = errors.Unavailable.Errorf("%w, %w", cause, other)
	if e.Message != "cause, other" || !errors.Is(e, cause) || !errors.Is(e, other) {
		t.Errorf("a second %%w loses a cause: %+v", e)
	}
	if e = errors.NotFound.Errorf("no room %q", "a"); e.Message != `no room "a"` || e.Cause != nil {
		t.Errorf("no %%w: %+v", e)
	}
	if e = errors.NotFound.Errorf("after %v", cause); e.Cause != nil {
		t.Errorf("%%v keeps a cause: %+v", e)
	}
}

// An error in a package variable is shared by all functions that return it.
func TestWithCopies(t *testing.T) {
	shared := errors.Unavailable.Wrap(io.EOF, "no answer")
	before := *shared

	d := shared.WithDetails("d")
	r := shared.WithRetryAfter(time.Second)
	if *shared != before {
		t.Errorf("the shared error is now %+v, was %+v", *shared, before)
	}
	if d.Details != "d" || d.Cause != io.EOF || d.Code != errors.Unavailable || d.Message != "no answer" {
		t.Errorf("WithDetails lost something: %+v", d)
	}
	if r.RetryAfter != time.Second || r.Cause != io.EOF || !r.Retryable() {
		t.Errorf("WithRetryAfter lost something: %+v", r)
	}
	if e := errors.Internal.New("m").WithRetryAfter(time.Second); !e.Retryable() {
		t.Error("WithRetryAfter does not make an error retryable")
	}
	if both := shared.WithDetails("d").WithRetryAfter(time.Second); both.Details != "d" || both.RetryAfter != time.Second {
		t.Errorf("one With undoes the other: %+v", both)
	}
}

func TestCloseCodeValid(t *testing.T) {
	// RFC 6455, 7.4, and the IANA registry: what a server may put into a frame.
	for _, span := range []struct {
		from, to errors.CloseCode
		want     bool
	}{
		{0, 999, false},
		{1000, 1003, true},
		{1004, 1006, false},
		{1007, 1009, true},
		{1010, 1010, false}, // only a client sends it
		{1011, 1014, true},
		{1015, 2999, false},
		{3000, 4999, true},
		{5000, math.MaxUint16, false},
	} {
		for c := int(span.from); c <= int(span.to); c++ {
			if got := errors.CloseCode(c).Valid(); got != span.want {
				t.Errorf("CloseCode(%d).Valid() = %v", c, got)
			}
		}
	}
	for _, c := range []errors.CloseCode{
		errors.CloseNormal, errors.CloseGoingAway,
		errors.ClosePolicy, errors.ClosePayloadTooLarge, errors.CloseInternal, errors.CloseTryAgainLater,
		errors.CloseNoHeartbeat, errors.CloseSlowConsumer, errors.CloseTooManyRequests,
		errors.CloseUnauthenticated, errors.ClosePermissionDenied,
	} {
		if !c.Valid() {
			t.Errorf("the package's own code %d is not valid", c)
		}
	}
}

// The log has the name of the limiter; the message for the client does not.
func TestLimitExceededText(t *testing.T) {
	e := &errors.LimitExceeded{
		Kind: errors.LimitRate, Observed: 3, Limit: 10, RetryAfter: 250 * time.Millisecond,
		Limiter: "chat", Policy: "per-user",
	}
	if want := "RESOURCE_EXHAUSTED: rate limit exceeded (observed 3, limit 10, limiter chat, retry after 250ms)"; e.Error() != want {
		t.Errorf("Error() = %q, want %q", e.Error(), want)
	}
	if strings.Contains(errors.From(e).Message, "chat") {
		t.Error("the client sees the limiter's name")
	}
	e.Never = true
	if strings.Contains(e.Error(), "retry") {
		t.Errorf("advice to retry what can never fit: %q", e.Error())
	}
	if errors.From(e).Retryable() {
		t.Error("what can never fit is retryable")
	}
}

func TestMessagesOfLimits(t *testing.T) {
	for kind, want := range map[errors.LimitKind]string{
		errors.LimitPayload:    "payload too large",
		errors.LimitRate:       "rate limit exceeded",
		errors.LimitInFlight:   "too many requests in flight",
		errors.LimitConnection: "too many connections",
		errors.LimitBanned:     "banned for a time",
	} {
		e := &errors.LimitExceeded{Kind: kind, RetryAfter: time.Second}
		if got := errors.From(e); got.Message != want || got.Code != errors.ResourceExhausted {
			t.Errorf("%s: %v, want RESOURCE_EXHAUSTED: %s", kind, got, want)
		}
	}
}
