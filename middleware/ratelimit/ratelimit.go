// Package ratelimit limits the rate of frames, before their payloads are decoded.
//
//	store := memory.NewStore()
//	messages := limit.New(store, limit.TokenBucket{Capacity: 200, Refill: 100, Per: time.Second})
//	r.Use(ratelimit.New(messages, ratelimit.PerUserOrIP))
//
// This allows every user 200 messages at once, and then 100 a second. Clients that are not authenticated are counted by
// tenant and address. The key says whose limit it is ([PerUserOrIP], [PerUserOrIPPerType], [PerUser], [PerIP],
// [PerTenant], [Global] or any [KeyFunc]). Options set another cost than 1 ([CostByType], [Bytes]), and hooks.
//
// A frame over the limit is rejected with an *errors.LimitExceeded, which the router answers.
// A rejected frame costs only the decision: it is not decoded, and rejecting it allocates
// nothing over a store that allocates nothing.
//
// With Router.With in place of Router.Use it limits one type alone. Exempt routes
// (router.RouteOptions.Exempt) are charged by the limits of With alone; bans and deny lists apply to them.
//
// Beyond one limit:
//
//   - [NewAll] charges all of several limits, or none: that of a user and that of a tenant.
//   - [NewPerConnection] keeps the state of a limit in the connection, without a store.
//   - [Bans] bans clients that are rejected too often.
//   - [Take] charges a limit from within a handler, for a subject that is known only after
//     decoding, such as a room.
//   - [PerTopic] limits what is published to each topic.
//   - [NewConcurrency] limits how many messages are handled at a time, in all processes, and
//     [Acquire] does so from within a handler.
//   - [Reserve] charges the most that the work of a handler can cost, and settles it afterwards.
//   - Package rules enforces rules: limits by tenant, message type and subject, which can
//     be read from JSON and replaced at run time.
//   - [Options].Announce lets clients follow what is left of their limits.
//   - A [limit.Pacer] delays frames instead of rejecting them.
//
// Package gate limits the opening of connections and their number.
package ratelimit

import (
	"fmt"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit/internal/enforce"
)

// Options configure the middleware of [New], [NewAll], [NewPerConnection] and [NewConcurrency]. With the zero value, a
// frame costs 1.
type Options struct {
	// Cost is the cost of a frame. It is called for every frame and must be fast. A cost below 1 is an error of the
	// function: the frame is answered with INVALID_ARGUMENT, nothing is charged, and OnInvalidCost is called.
	//
	// Default: 1.
	Cost func(*ingress.Context) int

	// OnLimited is called for every frame over the limit, before the router handles the rejection.
	// The frame waits for it, so it must not block, and it must not keep c. The router's
	// OnLimitExceeded is called for rejections in any case.
	//
	// Default: none.
	OnLimited func(c *ingress.Context, info Limited)

	// OnInvalidCost is called when Cost returned less than 1.
	//
	// Default: that the first such frame is logged through log/slog.
	OnInvalidCost func(c *ingress.Context, cost int)

	// Silent rejects frames over the limit without an answer, for input such as the positions of
	// a cursor, of which 200 refusals a second help no client. Frames with a correlation id are
	// answered. Rejected frames are counted (router.Stats.Unanswered), and [Bans] do not count
	// them. To do the same for all limits of a type, set router.RouteOptions.Silent.
	//
	// Default: false.
	Silent bool

	// Shadow lets frames over the limit pass. OnLimited is called with Limited.Shadow
	// set. Frames that fit are charged.
	//
	// Default: false.
	Shadow bool

	// Announce is the name under which clients can follow the limit: on request, a client gets what
	// is left of it, and again when that changes ($ws:limits, see PROTOCOL.md). It is for limits of
	// a single client: a shared limit shows each client what the others use. Limits with Shadow or
	// Silent, and exempt types, are not shown.
	//
	// Default: clients cannot follow the limit.
	Announce string
}

// Limited describes a frame over the limit.
type Limited struct {
	// Limiter is the name of the limiter; of several, the one that refused.
	Limiter string
	// Rule is the place of the rule that has the limit, such as tiers.free.perHour; empty
	// without rules.
	Rule string
	// Cost is the cost of the frame.
	Cost int64
	// Decision is the limiter's answer.
	Decision limit.Decision
	// Shadow means that the frame passed, because the middleware, its limiter or the rule is
	// in shadow mode.
	Shadow bool
}

// New returns middleware that charges the limiter for every frame: the bucket that key chooses. At most one Options may
// be given. It panics when the limiter or the key is nil.
//
// With a [limit.Pacer] a frame that comes too early is delayed, and rejected only if the delay
// would be longer than MaxWait of the policy. Meanwhile the connection is not read.
//
// If the store returns an error instead of a decision (UNAVAILABLE under limit.FailClosed, or
// the end of the connection), the frame is rejected with that error.
func New(limiter *limit.Limiter, key KeyFunc, options ...Options) ingress.Middleware {
	return newStack("New", []Layer{{Limiter: limiter, Key: key}}, options)
}

func noKey(constructor string) string {
	return fmt.Sprintf("ratelimit: %s without a key: pass whose limit it is, such as ratelimit.PerUserOrIP", constructor)
}

// enforced is what package enforce needs of the options.
func (o *Options) enforced() enforce.Options {
	e := enforce.Options{OnInvalidCost: o.OnInvalidCost, Silent: o.Silent, Shadow: o.Shadow, Announce: o.Announce}
	if hook := o.OnLimited; hook != nil {
		e.OnLimited = func(c *ingress.Context, i enforce.Limited) { hook(c, Limited(i)) }
	}
	return e
}
