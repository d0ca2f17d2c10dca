package errors

import stderrors "errors"

// ErrUnsupported is the standard library's errors.ErrUnsupported.
var ErrUnsupported = stderrors.ErrUnsupported

// New is the standard library's errors.New: an error without a code. See
// [Code.New] for one with a code.
func New(text string) error { return stderrors.New(text) }

// Is is the standard library's errors.Is.
func Is(err, target error) bool { return stderrors.Is(err, target) }

// AsType is the standard library's errors.AsType.
func AsType[E error](err error) (E, bool) { return stderrors.AsType[E](err) }

// Join is the standard library's errors.Join.
func Join(errs ...error) error { return stderrors.Join(errs...) }
