// Package errors gives an error a code that a client can act on.
//
// A handler that fails returns an error made from a [Code]; the router sends
// its code, message and details to the client:
//
//	return Joined{}, errors.NotFound.Errorf("no room %q", q.Room)
//
// An error without a code is a fault of the server: the client sees INTERNAL
// and a fixed text, and the error itself goes to the log alone.
//
// [New], [Is], [AsType], [Join] and [ErrUnsupported] are those of the standard library's
// errors package, so that a file rarely needs both packages. As and Unwrap of the standard
// library are not here: AsType does what they do.
package errors

import (
	"context"
	stderrors "errors"
	"fmt"
	"time"
)

// Error is an error that a client may see. Code, Message, Details and the
// retry advice travel to the client; Cause stays on the server.
//
// An Error is made by the methods of [Code] and is not changed after it has
// been returned, so it may be shared between goroutines and kept in a package
// variable.
type Error struct {
	Code    Code
	Message string
	// Details is any value that encodes to JSON, or nil. It must hold nothing
	// the client may not know.
	Details any
	// Retry and NoRetry override what the code says about retrying: the same request may
	// succeed later, or it never does. If both are set, NoRetry holds.
	Retry, NoRetry bool
	// RetryAfter is how long the client should wait before it tries again;
	// 0 gives no advice. It is sent only with an error that is retryable.
	RetryAfter time.Duration
	// Cause is what [Unwrap] returns. It is logged and never sent.
	Cause error
}

// Error describes the error for a log, cause included.
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

// Retryable reports whether trying again can help.
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
// The operands of the verb %w become the cause; as they are part of the format,
// their text becomes part of the message too. Use [Code.Wrap] to keep it back.
func (c Code) Errorf(format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Code: c, Message: err.Error(), Cause: stderrors.Unwrap(err)}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		e.Cause = stderrors.Join(several.Unwrap()...)
	}
	return e
}

// Wrap makes an error of this code with a message for the client and a cause
// that stays on the server.
func (c Code) Wrap(cause error, message string) *Error {
	return &Error{Code: c, Message: message, Cause: cause}
}

// From returns what a client may see of err: for a [LimitExceeded] anywhere in its
// tree, its code and wait; else the first *Error; for an error of the context
// package, the code that says the same. Everything else is a fault of the server:
// INTERNAL with a fixed message and err as the cause. So is an *Error whose code is
// INTERNAL or empty; of it only the retry advice is kept. From(nil) is nil; a nil
// *Error or *LimitExceeded that was returned as an error is a fault like any other.
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

// errNilPointer stands for what a function returns that keeps its error in a
// variable of type *Error or *LimitExceeded: an error that is not nil and holds
// nothing. A server must not fall over it.
var errNilPointer = stderrors.New("errors: a nil pointer was returned as an error; return nil itself")

// CodeOf returns the code a client would see for err, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return From(err).Code
}
