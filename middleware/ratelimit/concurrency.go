package ratelimit

import (
	"context"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit/internal/enforce"
)

// NewConcurrency returns middleware that limits how many messages of a subject are handled at a
// time, in all processes that share the store: two reports of a user, twenty of a tenant.
//
//	reports := limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{Max: 2, Limiter: limit.Options{Name: "reports"}})
//	twoEach := r.With(ratelimit.NewConcurrency(reports, ratelimit.PerUser))
//	router.RPC(twoEach, "report.make", makeReport, router.RouteOptions{Concurrent: true})
//
// A message takes a place when its handler is about to begin, and gives it back when the handler
// has returned or panicked, before the answer is sent. A handler that goes on after its request was
// aborted or its connection has ended keeps its place until it returns. A message that is refused
// before, or waits behind another one of its connection, needs no place. Work that goes on after
// the handler takes a place with [Acquire]. The places of a process that was killed are free
// again after limit.ConcurrencyOptions.LeaseTime. If the store cannot be reached for that long while
// a handler runs, its place may be given to another one.
//
// Over the limit, the router answers with an *errors.LimitExceeded of the kind
// errors.LimitInFlight. It has no wait, because it is not known when a place becomes free. A
// refusal is made after the payload was decoded, and calls the store unless all places are held by
// this process, so use a rate limit before it.
//
// A message with several such limits takes a place of each, in the order of the middleware, and
// gives them back if a later one refuses.
//
// Call [limit.ConcurrencyLimit.Flush] after Router.Shutdown. Exempt routes, and the protocol's own messages, such as
// the renewal of an identity, need no place. Clients cannot follow the limit: Options.Announce has no effect. At most
// one Options may be given. NewConcurrency panics if the limit or the key is nil, or if Options.Cost or OnInvalidCost
// is set.
func NewConcurrency(l *limit.ConcurrencyLimit, key KeyFunc, options ...Options) ingress.Middleware {
	o := given.Must("ratelimit", "NewConcurrency", options)
	switch {
	case l == nil:
		panic("ratelimit: NewConcurrency with a nil limit; make one with limit.NewConcurrencyLimit")
	case o.Cost != nil || o.OnInvalidCost != nil:
		panic("ratelimit: NewConcurrency with a Cost; a message takes one place: leave Cost and OnInvalidCost nil")
	case key == nil:
		panic(noKey("NewConcurrency"))
	}
	by := &enforce.Enforcer{Options: o.enforced()}
	return func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			if !c.Exempt && !c.Peek {
				p := enforce.NewPlace(by, l, c)
				p.Key = key(l.Key(p.Buffer()), c)
				c.State.Guards = append(c.State.Guards, p)
			}
			return next(c)
		}
	}
}

// Acquire takes one of the places of a limit from within a handler, for a subject that is known
// only after decoding, such as a document, or for work that goes on after the handler:
//
//	release, err := ratelimit.Acquire(c, exports, limit.KeyOf(c.Identity.Tenant))
//	if err != nil {
//		return err
//	}
//	ctx := context.WithoutCancel(c.Detach())
//	go func() {
//		defer release()
//		export(ctx)
//	}()
//
// If no place is free, the error is an *errors.LimitExceeded, as that of [Take]; other errors are those of
// [limit.ConcurrencyLimit.Acquire]. release gives the place back without waiting for the store;
// calls after the first do nothing. Acquire may be called by any number of goroutines.
func Acquire(ctx context.Context, l *limit.ConcurrencyLimit, key limit.Key) (release func(), err error) {
	lease, d, err := l.Acquire(ctx, key)
	switch {
	case err != nil:
		return nil, err
	case !d.Allowed:
		e := enforce.NoPlace(&d)
		return nil, &e
	}
	return func() { l.Release(lease) }, nil
}
