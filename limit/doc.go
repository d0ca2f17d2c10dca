// Package limit has exact rate limits: policies, decisions, the contract of a store, and
// the [Limiter] that puts them together.
//
//	store := memory.NewStore()
//	messages := limit.New(store, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second})
//
//	d, err := messages.Take(ctx, limit.KeyOf("ann"), 1)
//	switch {
//	case err != nil:          // no decision was made
//	case d.Allowed:           // go on; d.Remaining are left
//	case d.Impossible:        // the cost can never fit
//	default:                  // denied; d.RetryAfter is the exact shortest wait
//	}
//
// # Exact
//
// Times are whole microseconds and all state is integers below 2⁵³, so a
// decision is the same wherever it is made: in this package, in a script in
// Redis, in a JavaScript object. Nothing is rounded that could add up: of 7 per
// 3 s, exactly 7 are admitted in every 3 s, however the calls fall. Waiting
// [Decision.RetryAfter] succeeds, and a microsecond less does not. A denial
// charges nothing and writes nothing. A policy whose numbers would leave the
// exact range is refused when it is made, and so is one that makes no sense;
// nothing ever means "unlimited" by being zero.
//
// A clock that swings back and forth by up to [ClockTolerance] never admits one
// unit more: a store keeps state for that much longer than it counts. One that is set
// back further costs at most one capacity, once, and denies no subject for longer than the
// tolerance plus one refill.
//
// # Which policy for which purpose
//
// docs/limits.md has a picture of each.
//
// Chat and most messages: [TokenBucket]. It allows bursts, as typing makes them, and
// enforces the rate, in 16 bytes per key.
//
//	limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second}
//
// Game input, and whatever comes at a steady rate from a well-behaved client:
// a [TokenBucket] of a small Capacity where a late input is worthless, and a
// [Pacer] where it should arrive evenly spaced rather than not at all.
//
//	limit.TokenBucket{Capacity: 5, Refill: 60, Per: time.Second}
//	limit.Pacer{Burst: 2, Refill: 60, Per: time.Second, MaxWait: 100 * time.Millisecond}
//
// Billing and quotas by the calendar: [Calendar]. It begins at an instant that users know,
// and around that instant up to twice the Limit may be admitted at once. Put a bucket
// beside it:
//
//	limit.All(
//		limit.Named("month", limit.Calendar{Limit: 1_000_000, Period: limit.Month, Location: berlin}),
//		limit.Named("burst", limit.TokenBucket{Capacity: 200, Refill: 50, Per: time.Second}),
//	)
//
// A public API that promises "so many in any minute": [SlidingWindow]. No
// boundary to wait for or to abuse, and capacity comes back continuously. With
// one bucket it assumes that the minute before was used evenly; more buckets
// come closer to the truth and take 8 bytes each.
//
//	limit.SlidingWindow{Limit: 600, Window: time.Minute, Buckets: 6}
//
// Small limits that have to be exact: [SlidingLog].
//
//	limit.SlidingLog{Limit: 5, Window: 15 * time.Minute} // logins
//
//	policy           state per key       at most in a span of one window
//	TokenBucket      16 bytes            Capacity + what flows in
//	Pacer            16 bytes            Burst + what flows in; spaced out
//	FixedWindow      16 bytes            2 · Limit; Limit in every window from its beginning on
//	Calendar         16 bytes            the same
//	SlidingWindow    16 + 8·Buckets      Limit, as far as sub-windows can tell
//	SlidingLog       16 per admission    Limit
//
// # Operations
//
// What exists at a time, such as open connections or requests that are handled, is limited by a
// [ConcurrencyLimit], which renews the leases of this process by itself.
//
// Besides [Limiter.Take], a limiter has [Limiter.Peek], which charges nothing, [Limiter.Refund]
// (docs/decisions/refunds.md says how much it gives back, and proves that refunds admit nothing more) and
// [Limiter.Reset]. [TakeMany] decides for several keys in one round trip, and [TakeAll] charges
// several limiters or none of them. Where the store has no such operation the answer is
// errors.ErrUnsupported.
//
// # Parts
//
// A [Policy] is compiled into a [Plan]. A [Store] keeps state under a key and applies a plan
// to it in one atomic step; the suite in limit/limittest checks it. A [Limiter] gives a
// policy a namespace in a store, joins the parts of a [Key] so that different subjects never
// share one, and decides itself, by its [Failure] policy, while the store does not answer.
package limit
