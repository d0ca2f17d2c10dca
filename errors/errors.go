// Package errors has errors with a code that a client can act on.
//
// A handler that fails returns an error made from a [Code]; the router sends
// its code, message and details to the client:
//
//	return Joined{}, errors.NotFound.Errorf("no room %q", q.Room)
//
// An error without a code is a fault of the server: the client sees INTERNAL
// and a fixed text, and the error itself is only logged.
//
// [New], [Is], [AsType], [Join] and [ErrUnsupported] are those of the standard library's
// errors package, so that most files need only this one. As is left out because AsType replaces
// it, Unwrap because applications rarely need it.
package errors

import (
	"context"
	stderrors "errors"
	"fmt"
	"time"
)

// Error is an error that a client may see. Code, Message, Details and the retry advice are
// sent to the client; Cause is not.
//
// The methods of [Code] make an Error. It must not be changed after it has been returned; so
// it may be shared between goroutines and kept in a package variable.
type Error struct {
	// Code is the kind of the failure.
	Code Code
	// Message is for the client, and so has nothing secret in it. That of an error with INTERNAL is not sent.
	Message string
	// Details is any value that encodes to JSON, or nil. It must contain
	// nothing secret.
	Details any
	// Retry and NoRetry override the default of the code: the same request may succeed
	// later, or never. If both are set, NoRetry applies.
	Retry, NoRetry bool
	// RetryAfter is how long the client should wait before it tries again; 0 means not
	// known. It is sent in milliseconds, rounded up, and only if the error is retryable.
	RetryAfter time.Duration
	// Cause is the error that Unwrap returns. It is logged and never sent.
	Cause error
}

// Error returns a text for logs, which includes the cause.
func (e *Error) Error() string {
	if e == nil {
		return errNilPointer.Error()
	}
	if e.Cause == nil {
		return string(e.Code) + ": " + e.Message
	}
	return string(e.Code) + ": " + e.Message + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Cause
}

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool {
	return !e.NoRetry && (e.Retry || e.Code.retryable())
}

// WithDetails returns a copy of e with details for the client.
func (e *Error) WithDetails(details any) *Error {
	c := *e
	c.Details = details
	return &c
}

// WithRetryAfter returns a copy of e that is retryable after d.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.Retry, c.NoRetry, c.RetryAfter = true, false, d
	return &c
}

// New makes an error of this code with a message for the client.
func (c Code) New(message string) *Error {
	return &Error{Code: c, Message: message}
}

// Errorf makes an error of this code with a formatted message for the client.
// The operands of the verb %w become the cause, and their text is part of the message. Use
// [Code.Wrap] if the client must not see it.
func (c Code) Errorf(format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Code: c, Message: err.Error(), Cause: stderrors.Unwrap(err)}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		e.Cause = stderrors.Join(several.Unwrap()...)
	}
	return e
}

// Wrap makes an error of this code with a message for the client and a cause that is not
// sent.
func (c Code) Wrap(cause error, message string) *Error {
	return &Error{Code: c, Message: message, Cause: cause}
}

// From returns the part of err that a client may see. It is made from the first of these that
// the tree of err contains:
//
//   - a [LimitExceeded]: its code, message and wait
//   - an *Error: this itself
//   - an error of the context package: CANCELLED or DEADLINE_EXCEEDED
//
// Everything else is a fault of the server: INTERNAL with a fixed message and err as the
// cause. So is an *Error whose code is INTERNAL or empty; only its retry advice is kept. A nil
// *Error or *LimitExceeded in a variable of type error is a fault, too. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if l, ok := stderrors.AsType[*LimitExceeded](err); ok && l != nil {
		return &Error{Code: l.Code(), Message: l.Message(), NoRetry: l.Never, RetryAfter: l.RetryAfter, Cause: err}
	}
	e, ok := stderrors.AsType[*Error](err)
	switch {
	case ok && e == nil:
		return internal(errNilPointer)
	case ok && (e.Code == Internal || e.Code == ""):
		fault := internal(err)
		fault.Retry, fault.NoRetry, fault.RetryAfter = e.Retry, e.NoRetry, e.RetryAfter
		return fault
	case ok:
		return e
	case stderrors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded.Wrap(err, "deadline exceeded")
	case stderrors.Is(err, context.Canceled):
		return Cancelled.Wrap(err, "cancelled")
	}
	return internal(err)
}

func internal(cause error) *Error { return Internal.Wrap(cause, "internal error") }

// errNilPointer replaces a nil *Error or *LimitExceeded that a function returned as an error.
// Such an error is not nil.
var errNilPointer = stderrors.New("errors: a nil pointer was returned as an error; return nil itself")

// CodeOf returns the code that a client would see for err, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return From(err).Code
}
