package ratelimit

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit/internal/enforce"
)

// A Layer is one of several limits for a frame.
type Layer struct {
	// Limiter must be set. The limiters of all layers need one store.
	Limiter *limit.Limiter
	// Key must be set. It chooses the bucket that a frame is charged to.
	Key KeyFunc
	// Cost is the cost of a frame; nil means Options.Cost.
	Cost func(*ingress.Context) int
	// Announce is the name of this limit for clients; empty means Options.Announce.
	Announce string
}

// NewAll returns middleware that charges a frame to all layers, or to none if one of them
// refuses it, in one step of the store: the rejected frames of a user do not use up the limit of
// the tenant. The rejection names the limiter that refused; of several, the one with the longest
// wait. See [limit.TakeAll]. With one layer it is [New].
//
// It panics without a layer, if one has no Key, or if the layers cannot be charged in one step. If a store has the
// operation but refuses it for certain keys, the frame is not charged, answered with INTERNAL,
// and reported to the router's OnError.
//
// A layer whose limiter is in shadow mode is charged after the others, and never rejects a
// frame. Of several pacers, the longest delay applies.
func NewAll(layers []Layer, options ...Options) ingress.Middleware {
	return newStack("NewAll", layers, options)
}

// stack is the middleware of New and NewAll.
type stack struct {
	enforce.Enforcer
	layers []Layer
	asks   sync.Pool // of *asking
}

// asking has the buffers for the decision about a frame.
type asking struct {
	keys [][]byte
	asks []limit.Ask
}

func newStack(constructor string, layers []Layer, options []Options) ingress.Middleware {
	o := given.Must("ratelimit", constructor, options)
	m := &stack{Enforcer: enforce.Enforcer{Options: o.enforced()}, layers: append([]Layer(nil), layers...)}
	if len(layers) == 0 {
		panic(fmt.Sprintf("ratelimit: %s without a layer; give it at least one ratelimit.Layer{Limiter: …}", constructor))
	}
	limiters := make([]*limit.Limiter, len(layers))
	for i := range m.layers {
		l := &m.layers[i]
		if l.Limiter == nil {
			panic(fmt.Sprintf("ratelimit: %s with a nil limiter; make one with limit.New(store, policy)", constructor))
		}
		if l.Key == nil {
			panic(noKey(constructor))
		}
		if l.Cost == nil {
			l.Cost = o.Cost
		}
		l.Announce = cmp.Or(l.Announce, m.Announce)
		limiters[i] = l.Limiter
	}
	if len(layers) > 1 {
		if err := limit.CanTakeAll(limiters...); err != nil {
			panic("ratelimit: " + constructor + ": " + err.Error())
		}
	}
	m.asks.New = func() any {
		a := &asking{keys: make([][]byte, len(layers)), asks: make([]limit.Ask, len(layers))}
		for i := range a.keys {
			a.keys[i] = make([]byte, 0, 128)
		}
		return a
	}
	return m.middleware
}

func (m *stack) middleware(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		if c.Exempt {
			return next(c)
		}
		if c.Peek {
			return m.peek(c, next)
		}
		a := m.asks.Get().(*asking)
		wait, err := m.admit(c, a)
		m.asks.Put(a)
		if err == nil {
			err = c.Hold(wait)
		}
		if err != nil {
			return err
		}
		return next(c)
	}
}

// admit returns nil if the frame may pass, after the wait.
func (m *stack) admit(c *ingress.Context, a *asking) (wait time.Duration, err error) {
	for i := range m.layers {
		l := &m.layers[i]
		cost, err := m.CostOf(c, l.Cost, l.Limiter.Name())
		if err != nil {
			return 0, err
		}
		key := l.Key(l.Limiter.Key(a.keys[i]), c)
		if b := key.Bytes(); b != nil {
			a.keys[i] = b
		}
		if len(m.layers) > 1 {
			a.asks[i] = l.Limiter.Ask(key, cost)
			continue
		}
		a.asks[i].Cost = cost
		if a.asks[i].Decision, err = l.Limiter.Take(c.Context(), key, cost); err != nil {
			return 0, err
		}
	}
	bound := 0
	if len(m.layers) > 1 {
		if bound, err = limit.TakeAll(c.Context(), a.asks); err != nil {
			return 0, err
		}
	}
	if c.State.Limits != nil {
		m.report(c, a)
	}
	if !a.asks[bound].Decision.Allowed {
		return 0, m.exceeded(c, a, bound)
	}
	for i := range a.asks {
		if d := &a.asks[i].Decision; d.Shadowed {
			_ = m.exceeded(c, a, i)
		} else if !m.Shadow {
			wait = max(wait, d.Wait)
		}
	}
	return wait, nil
}

func (m *stack) exceeded(c *ingress.Context, a *asking, layer int) error {
	return m.Refuse(c, &a.asks[layer].Decision, enforce.Limited{Limiter: m.layers[layer].Limiter.Name(), Cost: a.asks[layer].Cost}, false)
}

// announced returns the limit of a layer as clients see it.
func (m *stack) announced(layer int) enforce.Announced {
	l := &m.layers[layer]
	a := enforce.Announced{Source: l, Name: l.Announce, Hidden: m.Shadow || m.Silent || l.Limiter.Shadow()}
	if l.Cost == nil {
		a.Cost = 1
	}
	return a
}

// report reports the limits after a frame.
func (m *stack) report(c *ingress.Context, a *asking) {
	for i := range m.layers {
		shown := m.announced(i)
		shown.Report(c, m.layers[i].Limiter.Plan(), a.keys[i], a.asks[i].Cost, &a.asks[i].Decision)
	}
}

// peek reports the limits to a client that asks for them.
func (m *stack) peek(c *ingress.Context, next ingress.Handler) error {
	for i := range m.layers {
		shown, l := m.announced(i), m.layers[i].Limiter
		if shown.Name == "" || shown.Hidden {
			continue
		}
		if err := shown.Peek(c.Context(), c, l, m.layers[i].Key(l.Key(nil), c)); err != nil {
			return err
		}
	}
	return next(c)
}
