package ratelimit

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// Enter implements [ingress.Gate].
func (g *Gate) Admit(r *http.Request) (ingress.Admission, error) {
	a := &admission{gate: g, ip: ingress.GroupIP(g.o.ClientIP(r))}
	if s, ok := g.o.Identify(r); ok && s.Kind != "ip" {
		a.subject = s
	}
	a.hand = &request{trace: ingress.TraceID(r), page: r.Header.Get("Origin") != ""}
	entered := false
	defer func() { // also when a hook panics
		if !entered {
			a.Release()
		}
	}()
	if err := a.admit(r.Context()); err != nil {
		return nil, err
	}
	entered = true
	g.admitted.Add(1)
	return a, nil
}

// admission is a connection that came in by a [Gate].
type admission struct {
	gate    *Gate
	ip      netip.Addr // grouped
	subject ingress.Claim
	hand    *request // until the client is identified

	mu   sync.Mutex
	gone bool
	held [3]place
	n    int
}

// request is what a refusal needs of the handshake's request.
type request struct {
	trace string
	page  bool
}

type place struct {
	renewer *leaseRenewer
	slot    limit.Lease
	forget  func() // its note; nil where there is none
}

func (a *admission) admit(ctx context.Context) error {
	if err := a.banned(ctx, ingress.Identity{}); err != nil {
		return err
	}
	if err := a.rates(ctx); err != nil {
		return err
	}
	g := a.gate
	if err := a.hold(ctx, g.perIP, func(k limit.Key) limit.Key { return k.Addr(a.ip) }); err != nil {
		return err
	}
	return a.hold(ctx, g.total, func(k limit.Key) limit.Key { return k })
}

// Identify implements [ingress.Admission]. Only the first call does anything.
func (a *admission) Identify(ctx context.Context, id *ingress.Identity) error {
	if a.hand == nil {
		return nil
	}
	if id.Authenticated() {
		err := a.banned(ctx, *id)
		if err == nil {
			err = a.hold(ctx, a.gate.perUser, func(k limit.Key) limit.Key { return k.Part(id.Tenant).Part(id.User) })
		}
		if err != nil {
			a.gate.refusedLate.Add(1)
			return err
		}
	}
	a.hand, a.subject = nil, ingress.Claim{} // a connection is small
	return nil
}

// Leave implements [ingress.Admission].
func (a *admission) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = true
	for _, p := range a.held[:a.n] {
		p.renewer.release(p.slot, p.forget)
	}
	a.n = 0
}

func (a *admission) banned(ctx context.Context, id ingress.Identity) error {
	if a.gate.o.Banned == nil {
		return nil
	}
	left, err := a.gate.o.Banned(ctx, a.ip, id)
	if err != nil {
		return a.fault(err)
	}
	if left <= 0 {
		return nil
	}
	return a.refuse(ban(left))
}

// rates charges the client and its address, both or none.
func (a *admission) rates(ctx context.Context) error {
	g := a.gate
	asks := []limit.Ask{{Key: g.ip.Key(nil).Addr(a.ip), Cost: 1}}
	if a.subject != (ingress.Claim{}) {
		asks = append(asks, limit.Ask{Key: g.identity.Key(nil).Part(a.subject.Kind).Part(a.subject.ID), Cost: 1})
	}
	answers := make([]limit.Decision, len(asks))
	bound, err := limit.TakeAll(ctx, asks, answers)
	if errors.Is(err, errors.ErrUnsupported) {
		bound, err = inTurn(ctx, asks, answers, g.ip, g.identity)
	}
	switch {
	case err != nil:
		return a.fault(err)
	case answers[bound].Allowed:
		return nil
	}
	l := g.ip
	if bound == 1 {
		l = g.identity
	}
	return a.refuse(rate(l, &answers[bound]))
}

// inTurn asks the address first: over it nothing else is charged. What a client is
// refused for itself its address gets back, or it would use up what is its neighbours'.
// (As far as the store can: one without Refund keeps it.)
func inTurn(ctx context.Context, asks []limit.Ask, answers []limit.Decision, limiters ...*limit.Limiter) (bound int, err error) {
	for i, a := range asks {
		if answers[i], err = limiters[i].TakeKey(ctx, a.Key, a.Cost); err != nil || !answers[i].Allowed {
			for j := range i {
				_ = limiters[j].RefundKey(ctx, asks[j].Key, answers[j])
			}
			return i, err
		}
	}
	return 0, nil
}

// hold takes a place of the admission's own.
func (a *admission) hold(ctx context.Context, k *leaseRenewer, key func(limit.Key) limit.Key) error {
	if k == nil {
		return nil
	}
	at, id := key(k.holds.Key(nil)), rand.Text()
	noted := a.gate.instance.note(ctx, limit.Lease{Key: at.String(), ID: id})
	slot, decision, err := k.holds.Acquire(ctx, at, id)
	p := place{k, slot, noted()}
	if err != nil {
		k.flush(p.forget)
		return a.fault(err)
	}
	if !decision.Allowed {
		if p.forget != nil {
			p.forget()
		}
		return a.refuse(full(k, a.gate.advice()))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone || ctx.Err() != nil { // while this was under way
		k.release(slot, p.forget)
		return context.Canceled
	}
	a.held[a.n] = p
	a.n++
	k.keep()
	return nil
}

// fault refuses because there was no decision.
func (a *admission) fault(err error) error {
	return a.refuse(denial{err: err, wait: errors.From(err).RetryAfter})
}

// advice is how long to wait for others to leave.
func (g *Gate) advice() time.Duration {
	return g.o.RetryAfter + randomUpTo(g.o.RetryAfter)
}
