package limit

import (
	"context"
	"time"
)

// A Lease is one of the places that a [ConcurrencyLimit] has under a key, such as the
// place of one connection among those of a user. ID is unique among the leases of the key.
type Lease struct {
	// Key is what the lease counts for, and ID tells it from the others of the key.
	Key, ID string
}

// A LeaseStore is a store that counts what exists at the same time, and not how much happens within
// a time. It is optional, like the other operations of a [Store].
//
// A lease lasts until it is released or its time is over by the store's clock, whichever comes
// first: the leases of a killed process end after a lease time. Every operation may be repeated
// without harm. A key without leases has no state. Its methods may be called by any number of
// goroutines.
//
// In Redis a key is a sorted set of IDs by the end of their leases: Acquire drops those
// that have ended, counts, and adds, in one script on one key; Renew and Release are
// ZADD and ZREM.
//
// Acquire refuses a limit below 1, and Acquire and Renew a lease time under a millisecond,
// with an INVALID_ARGUMENT.
//
// A store may have a method ProcessTimeout() time.Duration: ConcurrencyOptions.LeaseTime, where that is not set.
type LeaseStore interface {
	// Acquire takes the lease for a time from now if there are fewer than limit others
	// under its key, in one atomic step. A lease that is held already is extended and
	// counted once. A denial changes nothing.
	//
	// The decision says Allowed, Limit and Remaining, and in ResetAfter when the first of the
	// leases under the key ends. If that was renewed or released since, ResetAfter may still be
	// that of before. RetryAfter is 0: when a lease is released cannot be known.
	Acquire(ctx context.Context, lease Lease, limit int64, leaseTime time.Duration) (Decision, error)
	// Renew extends leases to a time from now, whatever the limit is. A lease that
	// the store has lost is taken again, because what it counts still exists.
	Renew(ctx context.Context, leases []Lease, leaseTime time.Duration) error
	// Release ends leases. Releasing one that is not held does nothing.
	Release(ctx context.Context, leases []Lease) error
	// Held counts the leases under a key, and returns the IDs of n of them, or of all if
	// there are fewer, in any order.
	Held(ctx context.Context, key string, n int) (count int64, ids []string, err error)
}
