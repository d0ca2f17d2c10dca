package limit

import (
	"context"
	"time"

	"github.com/wskit/wskit/errors"
)

// A Slot is a place under a key that somebody holds, such as a connection among
// those of a user. ID says who: it is unique among the holders of the key.
type Slot struct{ Key, ID string }

// A Holder is a store that counts what is held at a time rather than what happens
// in a time. It is optional, like the other operations of a [Store].
//
// A slot is held until it is released or its lease is over, whichever comes first,
// by the store's clock: whoever dies without a release holds nothing for longer
// than a lease. Every operation may be repeated without harm, so a call whose
// outcome is unknown is. A key of which no slot is held has no state.
//
// In Redis a key is a sorted set of IDs by the end of their leases: Acquire drops
// those that are over, counts, and adds, in one script on one key; Renew and
// Release are ZADD and ZREM.
type Holder interface {
	// Acquire holds the slot for a lease from now if fewer than limit others are
	// held under its key, in one atomic step. A slot that is held already is held
	// on, for a new lease, and counted once. A denial changes nothing.
	//
	// The decision says Allowed, Limit and Remaining, and in ResetAfter when the
	// first of the leases under the key ends; if that was renewed or released
	// meanwhile, perhaps still when it would have. When a slot becomes free nobody can
	// tell: RetryAfter is 0.
	Acquire(ctx context.Context, slot Slot, limit int64, lease time.Duration) (Decision, error)
	// Renew holds slots for a lease from now, one that was lost included, whatever
	// the limit is: they stand for what exists.
	Renew(ctx context.Context, slots []Slot, lease time.Duration) error
	// Release gives slots back. One that is not held is none the worse for it.
	Release(ctx context.Context, slots []Slot) error
	// Held counts the slots that are held under a key.
	Held(ctx context.Context, key string) (int64, error)
	// HeldIDs returns the IDs of the slots that are held under a key, in any order, and
	// n of them at most. n is positive.
	HeldIDs(ctx context.Context, key string, n int) ([]string, error)
}

// CheckHold refuses a limit below 1 and a lease under a millisecond. Stores call it.
func CheckHold(limit int64, lease time.Duration) error {
	switch {
	case limit < 1:
		return errors.InvalidArgument.Errorf("limit: %d slots are none: at least 1 must be allowed", limit)
	case lease < time.Millisecond:
		return errors.InvalidArgument.Errorf("limit: the lease of %v is under 1 ms", lease)
	}
	return nil
}
