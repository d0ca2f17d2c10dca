// Package ratelimit limits how fast frames come, before anything of them is
// decoded.
//
//	store := memory.NewStore(memory.Options{})
//	r.UseIngress(ratelimit.New(limit.New(store, limit.TokenBucket{Capacity: 200, Refill: 100, Per: time.Second}), ratelimit.Options{}))
//
// That gives every user 200 messages of each type at once and 100 a second from
// then on, and every address the same for clients that are not authenticated.
// Options choose another subject ([PerUser], [PerTenant], [Global] or any
// [KeyFunc]), another cost than 1 ([Bytes]), and who is told.
//
// A frame that does not fit is rejected with an *errors.LimitExceeded, which the
// router turns into what the client sees. A rejected frame costs its sender's
// connection nothing but the decision: it is not decoded, and rejecting it
// allocates nothing over a store that allocates nothing.
//
// Beyond one limit:
//
//   - [NewAll] charges several limits or none: a user's and their tenant's.
//   - [NewPerConnection] keeps a limit in the connection and asks no store.
//   - [Bans] bans whoever is rejected too often.
//   - [Take] charges a limit from within a handler, for a subject that only the
//     decoded message tells, such as a room.
//   - [NewRuleLimiter] takes its limits from [Rules]: by tenant, message type and
//     subject, readable from JSON, replaceable at run time.
//   - A [limit.Pacer] holds frames back instead of rejecting them.
//
// Before there are frames, [NewGate] limits who opens connections, how fast and how many.
package ratelimit

import (
	"sync"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// Options of the middleware. The zero value is ready to use.
type Options struct {
	// Key says whose limit a frame counts against; nil means
	// [PerUserOrIPPerType].
	Key KeyFunc

	// Cost says how much a frame takes; nil means 1. It is called for every frame
	// and must be fast. A cost below 1 is a mistake of the function: the frame is
	// answered with INVALID_ARGUMENT, nothing is charged, and OnInvalidCost is
	// told.
	Cost func(*ingress.Context) int

	// OnLimited is called for every frame that did not fit, before the rejection
	// goes to the router. It runs on the frame's path and must neither block nor
	// keep c. nil means nobody is told here; the router's OnLimitExceeded is told
	// of real rejections in any case.
	OnLimited func(c *ingress.Context, info Limited)

	// OnInvalidCost is called when Cost returned less than 1. nil means that the
	// first such frame is logged through log/slog.
	OnInvalidCost func(c *ingress.Context, cost int)

	// Shadow lets the frames pass that do not fit, after OnLimited was told with
	// Limited.Shadow set. The frames that fit are charged.
	Shadow bool
}

// Limited describes a frame that did not fit.
type Limited struct {
	// Limiter is the limiter's name: of several, the one that bound.
	Limiter string
	// Cost is what the frame would have taken.
	Cost int64
	// Decision is the limiter's answer.
	Decision limit.Decision
	// Shadow says that the frame passed all the same, because the middleware or
	// its limiter is in shadow mode.
	Shadow bool
}

// New returns middleware that asks the limiter for every frame. It panics when the
// limiter is nil.
//
// With a [limit.Pacer] a frame that comes too early is held until it is due, and
// rejected only if that is longer than the policy's MaxWait. While it is held, its
// connection is not read.
//
// An error instead of a decision (UNAVAILABLE under limit.FailClosed, or the
// connection's end) turns the frame away with that error.
func New(limiter *limit.Limiter, o Options) ingress.Middleware {
	return newStack("New", []Layer{{Limiter: limiter}}, o)
}

// gate is what all middleware does with a frame that does not fit.
type rejecter struct {
	Options
	logOnce sync.Once
}

// limited tells of a frame that does not fit, and returns the rejection.
func (g *rejecter) limited(c *ingress.Context, limiter string, cost int64, d *limit.Decision) error {
	shadow := g.Shadow || d.Shadowed
	if g.OnLimited != nil {
		g.OnLimited(c, Limited{Limiter: limiter, Cost: cost, Decision: *d, Shadow: shadow})
	}
	if shadow {
		return nil
	}
	return c.Reject(rejection(limiter, cost, d))
}

// rejection is what the router is told of a denial.
func rejection(limiter string, cost int64, d *limit.Decision) errors.LimitExceeded {
	return errors.LimitExceeded{
		Kind: errors.LimitRate, Observed: cost, Limit: d.Limit,
		RetryAfter: d.RetryAfter, Never: d.Impossible,
		Limiter: limiter, Policy: d.Policy,
	}
}
