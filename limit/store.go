package limit

import "context"

// Store is what a backend implements: one atomic operation.
//
// Take decides whether cost fits under policy for key and charges it when it
// does, in one step as seen by every other caller. A denial charges nothing
// and writes nothing (healing apart, see [Plan.Take]). Take refuses what
// [Prepare] refuses, returns soon after ctx is done, and returns
// an error only when no decision was made. It never replays a call whose
// outcome it does not know: a replay charges twice.
//
// Keys come joined and bounded from a [Limiter]; a store adds nothing to their
// meaning. A Store is safe for concurrent use. The suite in limit/limittest
// checks all of this.
type Store interface {
	Take(ctx context.Context, key string, policy Policy, cost int64) (Decision, error)
}

// BytesStore is a store that can take the key from a buffer which the caller
// reuses as soon as TakeBytes returns, so that a decision needs no string. It
// must not keep the slice.
type BytesStore interface {
	Store
	TakeBytes(ctx context.Context, key []byte, policy Policy, cost int64) (Decision, error)
}

// LocalStore marks a store whose state lives and dies with this process and
// that never waits for anything. A limiter over such a store needs no name of
// its own, no timeout and no circuit breaker.
type LocalStore interface {
	Store
	// LocalStore does nothing; its presence is the statement.
	LocalStore()
}

// TripTimer marks a store that bounds its round trips by itself: it combines calls, or
// has to make a connection first, and neither counts as a store that does not answer. A
// limiter gives it [Options.Timeout] by batch.WithTimeout, and not as the deadline of
// the context.
type TripTimer interface {
	Store
	// TimesTrips does nothing; its presence is the statement.
	TimesTrips()
}

// The operations below are optional. A limiter finds them by type assertion and
// answers errors.ErrUnsupported where the store has none. A store that has one
// but not for the policy that is asked for returns that error itself.

// A Peeker decides without charging: see [Plan.Peek].
type Peeker interface {
	Peek(ctx context.Context, key string, policy Policy, cost int64) (Decision, error)
}

// A Refunder gives back what a decision took from the key: see [Plan.Refund]. A
// decision that took nothing gives nothing back. A store need not know which decisions
// were refunded before.
type Refunder interface {
	Refund(ctx context.Context, key string, policy Policy, taken Decision) error
}

// A Resetter forgets what was used of the key under policies of the same shape, and
// the charges with it: what was charged by the instant of the reset gives nothing
// back after it. See [Plan.Reset].
type Resetter interface {
	Reset(ctx context.Context, key string, policy Policy) error
}

// A Request is one of several costs that a store is asked for at once. The
// store must not keep the key.
type Request struct {
	Key    []byte
	Policy Policy
	Cost   int64
}

// A ManyTaker takes several costs in one round trip.
type ManyTaker interface {
	// TakeMany takes them at one instant, in order and independently of each
	// other: what one request takes, the next one finds taken, and a denial does
	// not affect the others. It fills in an answer to each. On an error it
	// is unknown which were charged, unless the error is INVALID_ARGUMENT or says
	// that the operation is unsupported: then none was.
	TakeMany(ctx context.Context, requests []Request, answers []Decision) error
}

// An AllTaker charges several costs or none.
type AllTaker interface {
	// TakeAll charges them in one atomic step, fills in an answer to each and
	// returns which request bound: see the function TakeAll. On an error it is
	// unknown whether they were charged, with the exceptions of TakeMany.
	TakeAll(ctx context.Context, requests []Request, answers []Decision) (bound int, err error)
}
