package cfdo

import (
	"context"
	"errors"
	"fmt"

	"github.com/wskit/wskit/internal/batch"
)

// What went wrong when no decision was made: use errors.Is. A denial is no error.
// A call that ended with its context returns the context's error.
var (
	// ErrUnauthorized: the Worker has another secret, or none. Nothing was charged.
	ErrUnauthorized = errors.New("cfdo: the Worker refused the secret")
	// ErrBadRequest: the request was not understood, because the URL is not that of such a Worker,
	// or the Worker has another version. Nothing was charged.
	ErrBadRequest = errors.New("cfdo: the Worker does not understand the request")
	// ErrOverloaded: the object gets more calls than it can handle, or the account
	// is over a limit of its plan. Give the keys more shards.
	ErrOverloaded = errors.New("cfdo: the object is overloaded")
	// errFailed: the Worker or an object failed while it handled the call. It is
	// unknown whether that was charged.
	errFailed = errors.New("cfdo: the Worker failed")
)

// errUnreachable says that there is no connection, or that it broke. It is unknown
// whether the call was charged, unless the error is errNotSent too.
var (
	errUnreachable = errors.New("cfdo: the Worker cannot be reached")
	errNotSent     = batch.ErrNotSent
)

// errApart is what the Worker says of keys that lie in several objects.
var errApart = fmt.Errorf("cfdo: TakeAll of keys in several objects: only one object can charge all or none; "+
	"give them one tenant with one shard (Options.Tenant): %w", errors.ErrUnsupported)

// unreachable wraps an error of the connection. That of the context is the
// caller's or the timeout's.
func unreachable(ctx context.Context, err error, sent bool) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("cfdo: no answer in time: %w", context.Cause(ctx))
	case !sent:
		return fmt.Errorf("%w: %w: %w", errUnreachable, errNotSent, err)
	default:
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
}
