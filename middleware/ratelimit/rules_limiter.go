package ratelimit

import (
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// RuleLimiter enforces [Rules] that can be replaced while frames arrive:
//
//	limits, err := ratelimit.NewRuleLimiter(store, rules, ratelimit.RuleOptions{})
//	r.UseIngress(limits.Middleware)
//	…
//	err = limits.Replace(changed)
//
// Each frame is limited by a token bucket of what is in force for it. All methods
// may be used by any number of goroutines.
type RuleLimiter struct {
	frames   rejecter
	limiters limiters
	onDenied func(*ingress.Context, Subject)
	marked   bool // whether keys need a mark, see resolved.mark
	now      atomic.Pointer[book]
	barred   atomic.Int64
}

// RuleOptions of [NewRuleLimiter]. The zero value is ready to use over a store in this
// process; over a shared store, Limiter.Name must be set.
type RuleOptions struct {
	// Limiter names the keys and says what happens when the store fails.
	Limiter limit.Options

	// Options are those of the middleware, with two differences. Cost is asked for
	// frames of which no rule says the cost. A nil Key means [PerUserPerType] for
	// clients that are authenticated, and tenant, address ([PerIP]) and type for
	// others: give no Tenant to who is not authenticated and may choose it at will.
	//
	// With a Key, the frames that a rule for a type, a tenant or a subject gives a
	// rate or a burst are counted apart from others with the same key. So with
	// PerUser, a user has one limit over all types of which the rules say nothing or
	// only a cost, and another one for each type of which they say more.
	Options

	// OnDenied is called for every frame that is refused because of [Rules.Deny],
	// with the entry. It runs on the frame's path and must neither block nor keep c.
	// In shadow mode the frame passes all the same.
	OnDenied func(c *ingress.Context, entry Subject)
}

// NewRuleLimiter makes a RuleLimiter. The error is a [*RulesError]. Like limit.New, it
// panics when the store or an option is not valid.
func NewRuleLimiter(store limit.Store, rules Rules, o RuleOptions) (*RuleLimiter, error) {
	mustBeNamed("NewRuleLimiter", "RuleOptions", store, o.Limiter)
	l := &RuleLimiter{
		frames:   rejecter{Options: o.Options},
		limiters: limiters{base: limit.New(store, Rate{1, 1}.policy(), o.Limiter)},
		onDenied: o.OnDenied,
		marked:   o.Key != nil,
	}
	l.frames.Shadow = o.Shadow || o.Limiter.Shadow
	if l.frames.Key == nil {
		l.frames.Key = perClientPerType
	}
	if err := l.Replace(rules); err != nil {
		return nil, err
	}
	return l, nil
}

// Replace puts other rules in force, or returns a [*RulesError] and leaves things as
// they are. Every frame is decided by the old rules or by the new ones as a whole.
//
// What clients have used stays used. It is kept as the time until they have
// everything again, which no new rule makes longer; what was used beyond a burst that
// is lowered may be forgiven. A span of time in which rules are replaced lets through
// no more than the old rules do before that moment and the new ones from then on.
//
// With Options.Key, a client begins afresh where another rule than before gives the
// rate or the burst.
func (l *RuleLimiter) Replace(rules Rules) error {
	b, err := newBook(rules)
	if err != nil {
		return err
	}
	l.now.Store(b)
	return nil
}

// perClientPerType is PerUserOrIPPerType, except that it keeps clients which are not
// authenticated apart by tenant, as tenants' rules differ. So it tells apart all that
// rules can: a key has one rate at a time.
func perClientPerType(k limit.Key, c *ingress.Context) limit.Key {
	if c.Identity.Authenticated() {
		return PerUserPerType(k, c)
	}
	return PerIP(k.Part("tenant").Part(c.Identity.Tenant), c).Part(c.Type)
}

// Middleware is an ingress.Middleware that lets a frame pass when the rules do. A
// frame that does not fit is rejected as by [New].
func (l *RuleLimiter) Middleware(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		if now := l.now.Load(); !now.rules.Disabled {
			if err := l.admit(c, now); err != nil {
				return err
			}
		}
		return next(c)
	}
}

// admit returns nil when the frame may pass.
func (l *RuleLimiter) admit(c *ingress.Context, now *book) error {
	if i, ok := now.deny.find(c); ok {
		return l.deny(c, now.rules.Deny[i])
	}
	if _, ok := now.allow.find(c); ok {
		return nil
	}
	is := now.resolve(c)
	if is.PerMinute == Unlimited {
		return nil
	}
	if is.cost == 0 {
		cost := 1
		if l.frames.Cost != nil {
			if cost = l.frames.Cost(c); cost < 1 {
				return l.frames.invalidCost(c, l.limiters.base.Name(), cost)
			}
		}
		is.cost = int64(cost)
	}
	d, err := l.take(c, l.limiters.of(is.Rate), &is)
	if err != nil || d.Allowed && !d.Shadowed {
		return err
	}
	return l.frames.limited(c, l.limiters.base.Name(), is.cost, &d)
}

// take asks the limiter, with a key made in a buffer that is used again.
func (l *RuleLimiter) take(c *ingress.Context, limiter *limit.Limiter, is *resolved) (limit.Decision, error) {
	buf := keyBuffers.Get().(*[]byte)
	key := l.frames.Key(limiter.Key(*buf), c)
	if l.marked {
		key = is.mark(key)
	}
	d, err := limiter.TakeKey(c.Context(), key, is.cost)
	if b := key.Bytes(); b != nil {
		*buf = b
	}
	keyBuffers.Put(buf)
	return d, err
}

var keyBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 256)
	return &b
}}

// deny refuses a frame whose client may send nothing.
func (l *RuleLimiter) deny(c *ingress.Context, entry Subject) error {
	l.barred.Add(1)
	if l.onDenied != nil {
		l.onDenied(c, entry)
	}
	if l.frames.Shadow {
		return nil
	}
	return errDenied
}

var errDenied = errors.PermissionDenied.New("you may not send messages")

// Rules returns a copy of the rules in force.
func (l *RuleLimiter) Rules() Rules { return l.now.Load().rules.clone() }

// Effective says what is in force for a frame, by its type, identity and address.
func (l *RuleLimiter) Effective(c *ingress.Context) Effective { return l.now.Load().effective(c) }

// RuleStats are figures of [RuleLimiter] since they were made.
type RuleStats struct {
	// Stats are those of the limiter, of all rules together.
	limit.Stats
	// Barred counts the frames of clients on a deny list.
	Barred int64
}

// Stats returns the figures.
func (l *RuleLimiter) Stats() RuleStats {
	return RuleStats{Stats: l.limiters.base.Stats(), Barred: l.barred.Load()}
}
