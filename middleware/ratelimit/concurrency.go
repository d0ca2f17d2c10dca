package ratelimit

import (
	"context"
	"sync"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
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
	o := only("NewConcurrency", options)
	switch {
	case l == nil:
		panic("ratelimit: NewConcurrency with a nil limit; make one with limit.NewConcurrencyLimit")
	case o.Cost != nil || o.OnInvalidCost != nil:
		panic("ratelimit: NewConcurrency with a Cost; a message takes one place: leave Cost and OnInvalidCost nil")
	case key == nil:
		panic(noKey("NewConcurrency"))
	}
	by := &rejecter{Options: o}
	return func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			if !c.Exempt && !c.Peek {
				p := newPlace(by, l, c)
				p.key = key(l.Key(p.buf[:0]), c)
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
		e := noPlace(&d)
		return nil, &e
	}
	return func() { l.Release(lease) }, nil
}

// noPlace is the error for a denial.
func noPlace(d *limit.Decision) errors.LimitExceeded {
	return errors.LimitExceeded{
		Kind: errors.LimitInFlight, Observed: d.Limit + 1, Limit: d.Limit, Limiter: d.Policy, Policy: "concurrency",
	}
}

// place is the place of a message: see inbound.Guard.
type place struct {
	by     *rejecter
	limit  *limit.ConcurrencyLimit
	key    limit.Key
	rule   string // that has the limit
	shadow bool   // the rule is in shadow mode
	silent bool
	frame  *ingress.Context // for OnLimited, nil without it

	lease limit.Lease
	held  bool
	buf   [128]byte // of key
}

// places are used again after End, or a Begin that refuses. Those of messages that do not reach their
// handler are left to the collector.
var places = sync.Pool{New: func() any { return new(place) }}

// newPlace makes a place whose key is yet to be set.
func newPlace(by *rejecter, l *limit.ConcurrencyLimit, c *ingress.Context) *place {
	p := places.Get().(*place)
	*p = place{by: by, limit: l, silent: by.Silent || c.State.Silent}
	if by.OnLimited != nil { // c is that of another frame when the handler begins
		p.frame = &ingress.Context{
			Type: c.Type, ConnID: c.ConnID, IP: c.IP, Identity: c.Identity, ReceivedAt: c.ReceivedAt, Size: c.Size,
		}
		p.frame.State.Ctx, p.frame.State.Values = c.State.Ctx, c.State.Values
	}
	return p
}

// Begin takes the place.
func (p *place) Begin(ctx context.Context) error {
	err := p.begin(ctx)
	if err != nil {
		places.Put(p)
	}
	return err
}

func (p *place) begin(ctx context.Context) error {
	lease, d, err := p.limit.Acquire(ctx, p.key)
	switch {
	case err != nil && p.shadow && errors.CodeOf(err) == errors.Unavailable:
		return nil // a limit that is tried refuses nothing
	case err != nil:
		return err
	case d.Allowed && !d.Shadowed:
		p.lease, p.held = lease, true
		return nil
	}
	info := Limited{Limiter: d.Policy, Rule: p.rule, Cost: 1, Decision: d, Shadow: p.shadow || p.by.Shadow || d.Shadowed}
	if p.by.OnLimited != nil {
		p.by.OnLimited(p.frame, info)
	}
	if info.Shadow {
		return nil
	}
	e := noPlace(&d)
	e.Silent = p.silent
	return &e
}

// End gives the place back.
func (p *place) End() {
	if p.held {
		p.limit.Release(p.lease)
	}
	places.Put(p)
}
