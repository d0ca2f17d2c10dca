package limit

import "context"

// Store is what a backend implements: one atomic operation. The suite in limit/limittest
// checks all of the following.
//
// Take decides whether cost fits under policy for key and charges it when it does, in one
// step as seen by every other caller. A denial charges nothing and writes nothing, with the
// exception in [Plan.Take]. Take refuses what [Prepare] refuses, returns soon after ctx is
// done, and returns an error only when no decision was made. It never repeats a call of
// which it does not know whether it was carried out: that would charge twice.
//
// The key is the caller's: a store must not keep or change it. Keys come joined and bounded
// from a [Limiter]; a store adds nothing to their meaning. The methods of a Store may be
// called by any number of goroutines.
//
// A store whose state ends with this process, and that never waits for anything, has a method
// LocalStore() that does nothing: a limiter over it needs no name, no timeout and no circuit
// breaker.
type Store interface {
	Take(ctx context.Context, key []byte, policy Policy, cost int64) (Decision, error)
}

// The operations below are optional. A limiter finds them by type assertion and answers
// errors.ErrUnsupported where the store has none. A store that has one, but not for the
// policy that is asked for, returns that error itself. The key is the caller's, as in Take.

// An ExtendedStore has the operations on one key besides Take.
type ExtendedStore interface {
	// Peek decides without charging: see [Plan.Peek].
	Peek(ctx context.Context, key []byte, policy Policy, cost int64) (Decision, error)
	// Refund gives back what a decision took from the key: see [Plan.Refund]. A decision
	// that took nothing gives nothing back. A store need not know which decisions were
	// refunded before.
	Refund(ctx context.Context, key []byte, policy Policy, taken Decision) error
	// Reset removes what was used of the key under policies of the same shape. What was
	// charged by the instant of the reset gives nothing back after it: see [Plan.Reset].
	Reset(ctx context.Context, key []byte, policy Policy) error
}

// A ManyTaker decides several costs in one call, and fills in the decision of each. On an error it
// is unknown which were charged, unless the error is INVALID_ARGUMENT or errors.ErrUnsupported:
// then none was.
type ManyTaker interface {
	// TakeMany takes the costs at one instant, in order and independently of each other:
	// what one ask takes is used for the next, and a denial does not affect the others.
	TakeMany(ctx context.Context, asks []Ask) error
	// TakeAll charges all costs or none, in one atomic step, and returns which ask decided:
	// see the function TakeAll.
	TakeAll(ctx context.Context, asks []Ask) (bound int, err error)
}
