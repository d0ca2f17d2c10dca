package rules

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/limitname"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/internal/enforce"
)

// Limiter enforces [Rules], which can be replaced at run time:
//
//	limits, err := rules.New(store, parsed)
//	r.Use(limits.Middleware)
//	…
//	err = limits.Replace(changed)
//
// Each frame is limited by a token bucket with the values that the rules have for it, or by the
// Limits of a rule. With a limit.Pacer among them, frames are delayed as with [ratelimit.New]. All
// methods may be used by any number of goroutines.
type Limiter struct {
	frames   enforce.Enforcer
	cost     func(*ingress.Context) int // where no rule has one
	key      ratelimit.KeyFunc
	limiters limiters
	places   func() (*limit.ConcurrencyLimit, error) // made when rules have a Concurrent
	used     atomic.Pointer[limit.ConcurrencyLimit]  // what places has made
	onDenied func(*ingress.Context, Subject)
	marked   bool // whether keys need every mark, see resolved.marked
	now      atomic.Pointer[book]
	barred   atomic.Int64
	shadowed atomic.Int64 // by Rule.Shadow
}

// Options configure a [Limiter]. The zero value is ready to use over a store in this
// process; over a shared store, Limiter.Name must be set.
type Options struct {
	// Limiter has the options of the limiter, such as its name and the failure policy.
	//
	// Default: see [limit.Options].
	Limiter limit.Options

	// Key chooses the bucket that a frame is charged to.
	//
	// Default: [ratelimit.PerUserOrIPPerType].
	//
	// With another, frames whose limit or burst is from a rule for a type, a tenant or a subject
	// are counted separately from other frames with the same key. So with PerUser, a user has
	// one limit over all types without a rule or with only a cost, another limit for each
	// type with a rate or a burst, and one for all types of a group with such a rule.
	Key ratelimit.KeyFunc

	// Options are those of the middleware, with one difference: Cost applies to frames for
	// which no rule has a cost.
	ratelimit.Options

	// OnDenied is called for every frame that [Rules.Deny] refuses, with the entry. The frame waits
	// for it, so it must not block, and it must not keep c. In shadow mode the frame passes.
	//
	// Default: none.
	OnDenied func(c *ingress.Context, entry Subject)
}

// New makes a Limiter. The error is a [*Error]. Like limit.New, it
// panics when the store or an option is not valid.
func New(store limit.Store, rules Rules, options ...Options) (*Limiter, error) {
	o := given.Must("rules", "New", options)
	limitname.Must("rules", "New", "Options", store, o.Limiter)
	l := &Limiter{
		frames:   enforce.Enforcer{Options: o.enforced()},
		cost:     o.Cost,
		limiters: limiters{base: limit.New(store, bucket{speed{1, day}, 1}.policy(), o.Limiter)},
		onDenied: o.OnDenied,
		marked:   o.Key != nil,
	}
	if l.key = o.Key; l.key == nil {
		l.key = ratelimit.PerUserOrIPPerType // has the tenant: a key has one rate at a time
	}
	l.places = sync.OnceValues(func() (*limit.ConcurrencyLimit, error) {
		if _, ok := store.(limit.LeaseStore); !ok {
			return nil, errors.ErrUnsupported
		}
		return limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{Max: 1, Limiter: limitname.With(o.Limiter, "/concurrent")}), nil
	})
	if err := l.Replace(rules); err != nil {
		return nil, err
	}
	return l, nil
}

// Replace replaces the rules, or returns a [*Error] and changes nothing. Each frame is
// decided by the old rules or by the new ones.
//
// What clients have used is stored as the time until the bucket is full again, which new rules
// do not change. Under a lower rate that time is fewer tokens, and tokens beyond a burst that is
// lowered may be lost from the count. In the same way, what was used counts after a change to
// the numbers of Limits. A change to their kind, number or order begins with nothing used, and so
// does the first Maximum for them (see limit.Plan.Shape). Over a replacement, at most as much is
// admitted as by the old rules before it and by the new ones after it: at one instant, both
// bursts. While some processes have the old rules and some the new, more can be admitted where the
// time to refill a bucket falls by more than a minute: see docs/decisions/two-sizes.md, which
// says how to change a limit then.
//
// With Options.Key, and with rules for tiers, clients get a new state if their limit or burst is
// now from another rule.
func (l *Limiter) Replace(rules Rules) error {
	b, err := newBook(rules)
	if err != nil {
		return err
	}
	b.all(func(at *ruleAt) {
		if at.policy != nil && err == nil {
			at.limiter, err = l.limiters.base.With(at.policy)
		}
		if at.Concurrent != 0 && err == nil {
			err = l.setPlaces(at)
		}
	})
	if err != nil {
		return err
	}
	l.now.Store(b)
	return nil
}

// setPlaces gives a rule with a Concurrent its limit.
func (l *Limiter) setPlaces(at *ruleAt) error {
	places, err := l.places()
	if err != nil {
		return path(at.path).name("concurrent").wrong("needs a store that keeps leases, which this one does not; leave it out, or use a store that is a limit.LeaseStore")
	}
	l.used.Store(places)
	at.places = places.With(at.Concurrent)
	return nil
}

// Middleware is an ingress.Middleware that enforces the rules. It rejects frames as [ratelimit.New] does.
func (l *Limiter) Middleware(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		if now := l.now.Load(); !now.rules.Disabled {
			if c.Peek && l.frames.Announce == "" {
				return next(c)
			}
			wait, err := l.admit(c, now)
			if err == nil {
				err = c.Hold(wait)
			}
			if err != nil {
				return err
			}
		}
		return next(c)
	}
}

// admit returns nil if the frame may pass, after the wait.
func (l *Limiter) admit(c *ingress.Context, now *book) (wait time.Duration, err error) {
	if i, ok := now.deny.find(c); ok {
		return 0, l.deny(c, now.rules.Deny[i])
	}
	if _, ok := now.allow.find(c); ok || c.Exempt {
		l.unlimited(c)
		return 0, nil
	}
	is := now.resolve(c)
	switch {
	case is.exempt():
		l.unlimited(c)
	case c.Peek:
		return 0, l.peek(c, &is)
	default:
		if wait, err = l.charge(c, &is); err != nil {
			return wait, err
		}
	}
	if is.concurrentBy != nil && !c.Peek {
		l.needPlace(c, &is)
	}
	return wait, nil
}

// needPlace has the message take a place when its handler begins.
func (l *Limiter) needPlace(c *ingress.Context, is *resolved) {
	by := is.concurrentBy
	p := enforce.NewPlace(&l.frames, by.places, c)
	p.Rule, p.Shadow, p.Silent = by.path+".concurrent", by.Shadow, p.Silent || is.silent
	p.Key = l.placeKey(p.Buffer(), c, by)
	c.State.Guards = append(c.State.Guards, p)
}

// placeKey appends the key of a message's place to a buffer.
func (l *Limiter) placeKey(buf []byte, c *ingress.Context, by *ruleAt) limit.Key {
	return by.marked(l.key(by.places.Key(buf), c), l.marked)
}

// charge charges the limit of a frame.
func (l *Limiter) charge(c *ingress.Context, is *resolved) (wait time.Duration, err error) {
	by := is.limitBy
	if is.cost == 0 {
		if is.cost, err = l.frames.CostOf(c, l.cost, l.limiters.base.Name()); err != nil {
			return 0, err
		}
	}
	limiter, err := l.limiterOf(is)
	if err != nil {
		return 0, err
	}
	d, err := l.take(c, limiter, is)
	shadow := by.Shadow || l.frames.Shadow
	switch {
	case err != nil && by.Shadow && errors.CodeOf(err) == errors.Unavailable:
		return 0, nil // a limit that is tried refuses nothing
	case err != nil:
		return 0, err
	case d.Allowed && !d.Shadowed && shadow:
		return 0, nil
	case d.Allowed && !d.Shadowed:
		return d.Wait, nil
	case by.Shadow && !d.Shadowed:
		l.shadowed.Add(1)
	}
	return 0, l.frames.Refuse(c, &d, enforce.Limited{Limiter: l.limiters.base.Name(), Rule: by.limitAt, Cost: is.cost, Shadow: by.Shadow}, is.silent)
}

// limiterOf returns the limiter of the rule that applies.
func (l *Limiter) limiterOf(is *resolved) (*limit.Limiter, error) {
	if limiter := is.limitBy.limiter; limiter != nil {
		return limiter, nil
	}
	return l.limiters.of(is.bucket)
}

// keyOf appends the key of a frame to a buffer.
func (l *Limiter) keyOf(buf []byte, c *ingress.Context, limiter *limit.Limiter, is *resolved) limit.Key {
	return is.marked(l.key(limiter.Key(buf), c), l.marked)
}

// take charges the limiter, with a key in a pooled buffer.
func (l *Limiter) take(c *ingress.Context, limiter *limit.Limiter, is *resolved) (limit.Decision, error) {
	buf := enforce.Buffers.Get().(*[]byte)
	key := l.keyOf(*buf, c, limiter, is)
	d, err := limiter.Take(c.Context(), key, is.cost)
	if c.State.Limits != nil && err == nil {
		a := l.announced(is)
		a.Report(c, limiter.Plan(), key.Bytes(), is.cost, &d)
	}
	if b := key.Bytes(); b != nil {
		*buf = b
	}
	enforce.Buffers.Put(buf)
	return d, err
}

// announced returns the limit of a frame as clients see it.
func (l *Limiter) announced(is *resolved) enforce.Announced {
	a := enforce.Announced{Source: l, Name: l.frames.Announce, Hidden: is.silent || is.limitBy.Shadow || l.frames.Shadow || l.frames.Silent, Cost: 1}
	if is.costBy != nil {
		a.Cost = is.cost
	} else if l.cost != nil {
		a.Cost = 0
	}
	return a
}

// peek reports the limit to a client that asks for it.
func (l *Limiter) peek(c *ingress.Context, is *resolved) error {
	a := l.announced(is)
	if a.Hidden {
		return nil
	}
	limiter, err := l.limiterOf(is)
	if err != nil {
		return err
	}
	return a.Peek(c.Context(), c, limiter, l.keyOf(nil, c, limiter, is))
}

// unlimited reports to a client that follows its limits that it has none.
func (l *Limiter) unlimited(c *ingress.Context) {
	if c.State.Limits != nil {
		a := enforce.Announced{Source: l}
		a.Clear(c)
	}
}

// deny refuses the frame of a client on the deny list.
func (l *Limiter) deny(c *ingress.Context, entry Subject) error {
	if !c.Peek {
		l.barred.Add(1)
		if l.onDenied != nil {
			l.onDenied(c, entry)
		}
	}
	if l.frames.Shadow {
		return nil
	}
	return errDenied
}

var errDenied = errors.PermissionDenied.New("you may not send messages")

// Rules returns a copy of the current rules. [Rules.Effective] says what they mean for a frame.
func (l *Limiter) Rules() Rules { return l.now.Load().rules.clone() }

// Stats has the figures of a [Limiter] since it was made.
type Stats struct {
	// Stats are the figures of the limiter, for all rules together. Shadowed counts the
	// denials that Rule.Shadow let pass as well.
	limit.Stats
	// Barred counts the frames of clients on a deny list.
	Barred int64
	// Concurrent are the figures of Rule.Concurrent, for all rules together; zero if no rule has
	// had one.
	Concurrent limit.Stats
}

// Stats returns the figures.
func (l *Limiter) Stats() Stats {
	s := Stats{Stats: l.limiters.base.Stats(), Barred: l.barred.Load()}
	s.Shadowed += l.shadowed.Load()
	if places := l.used.Load(); places != nil {
		s.Concurrent = places.Stats()
	}
	return s
}

// Flush waits until the store has released the places of all handlers that have ended
// ([Rule.Concurrent]). Call it after Router.Shutdown, before the store is closed. See
// [limit.ConcurrencyLimit.Flush].
func (l *Limiter) Flush(ctx context.Context) error {
	if places := l.used.Load(); places != nil {
		return places.Flush(ctx)
	}
	return nil
}

// enforced is what package enforce needs of the options.
func (o *Options) enforced() enforce.Options {
	e := enforce.Options{OnInvalidCost: o.OnInvalidCost, Silent: o.Silent, Shadow: o.Shadow || o.Limiter.Shadow, Announce: o.Announce}
	if hook := o.OnLimited; hook != nil {
		e.OnLimited = func(c *ingress.Context, i enforce.Limited) { hook(c, ratelimit.Limited(i)) }
	}
	return e
}
