package cfdo

import "time"

// OpenAt opens a store for a Worker whose clock is set by the test, and which counts in microseconds.
func OpenAt(url, secret string, o Options, now func() time.Time) (Store, error) {
	return open(url, secret, o, time.Microsecond, now)
}

// Errors of the connection.
var ErrUnreachable, ErrNotSent = errUnreachable, errNotSent

// ErrFailed is the error of a Worker or an object that failed.
var ErrFailed = errFailed
