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
func (d *Door) Enter(r *http.Request) (ingress.Visit, error) {
	v := &visit{door: d, ip: ingress.GroupIP(d.o.ClientIP(r))}
	if s, ok := d.o.Identify(r); ok && s.Kind != "ip" {
		v.subject = s
	}
	v.hand = &handshake{trace: ingress.TraceID(r), page: r.Header.Get("Origin") != ""}
	entered := false
	defer func() { // also when a hook panics
		if !entered {
			v.Leave()
		}
	}()
	if err := v.enter(r.Context()); err != nil {
		return nil, err
	}
	entered = true
	d.entered.Add(1)
	return v, nil
}

// visit is a connection that came in by a [Door].
type visit struct {
	door    *Door
	ip      netip.Addr // grouped
	subject ingress.Subject
	hand    *handshake // until the client is identified

	mu   sync.Mutex
	gone bool
	held [3]place
	n    int
}

// handshake is what a refusal needs to know of the request.
type handshake struct {
	trace string
	page  bool
}

type place struct {
	keeper *keeper
	slot   limit.Slot
	forget func() // its note; nil where there is none
}

func (v *visit) enter(ctx context.Context) error {
	if err := v.banned(ctx, ingress.Identity{}); err != nil {
		return err
	}
	if err := v.rates(ctx); err != nil {
		return err
	}
	d := v.door
	if err := v.hold(ctx, d.perIP, func(k limit.Key) limit.Key { return k.Addr(v.ip) }); err != nil {
		return err
	}
	return v.hold(ctx, d.total, func(k limit.Key) limit.Key { return k })
}

// Identify implements [ingress.Visit]. Only the first call does anything.
func (v *visit) Identify(ctx context.Context, id *ingress.Identity) error {
	if v.hand == nil {
		return nil
	}
	if id.Authenticated() {
		err := v.banned(ctx, *id)
		if err == nil {
			err = v.hold(ctx, v.door.perUser, func(k limit.Key) limit.Key { return k.Part(id.Tenant).Part(id.User) })
		}
		if err != nil {
			v.door.refusedLate.Add(1)
			return err
		}
	}
	v.hand, v.subject = nil, ingress.Subject{} // a connection is small
	return nil
}

// Leave implements [ingress.Visit].
func (v *visit) Leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone = true
	for _, p := range v.held[:v.n] {
		p.keeper.release(p.slot, p.forget)
	}
	v.n = 0
}

func (v *visit) banned(ctx context.Context, id ingress.Identity) error {
	if v.door.o.Banned == nil {
		return nil
	}
	left, err := v.door.o.Banned(ctx, v.ip, id)
	if err != nil {
		return v.fault(err)
	}
	if left <= 0 {
		return nil
	}
	return v.refuse(ban(left))
}

// rates charges the client and its address, both or none.
func (v *visit) rates(ctx context.Context) error {
	d := v.door
	asks := []limit.Ask{{Key: d.ip.Key(nil).Addr(v.ip), Cost: 1}}
	if v.subject != (ingress.Subject{}) {
		asks = append(asks, limit.Ask{Key: d.identity.Key(nil).Part(v.subject.Kind).Part(v.subject.ID), Cost: 1})
	}
	answers := make([]limit.Decision, len(asks))
	bound, err := limit.TakeAll(ctx, asks, answers)
	if errors.Is(err, errors.ErrUnsupported) {
		bound, err = inTurn(ctx, asks, answers, d.ip, d.identity)
	}
	switch {
	case err != nil:
		return v.fault(err)
	case answers[bound].Allowed:
		return nil
	}
	l := d.ip
	if bound == 1 {
		l = d.identity
	}
	return v.refuse(rate(l, &answers[bound]))
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

// hold takes a place of the visit's own.
func (v *visit) hold(ctx context.Context, k *keeper, key func(limit.Key) limit.Key) error {
	if k == nil {
		return nil
	}
	at, id := key(k.holds.Key(nil)), rand.Text()
	noted := v.door.instance.note(ctx, limit.Slot{Key: at.String(), ID: id})
	slot, decision, err := k.holds.Acquire(ctx, at, id)
	p := place{k, slot, noted()}
	if err != nil {
		k.flush(p.forget)
		return v.fault(err)
	}
	if !decision.Allowed {
		if p.forget != nil {
			p.forget()
		}
		return v.refuse(full(k, v.door.advice()))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone || ctx.Err() != nil { // while this was under way
		k.release(slot, p.forget)
		return context.Canceled
	}
	v.held[v.n] = p
	v.n++
	k.keep()
	return nil
}

// fault refuses because there was no decision.
func (v *visit) fault(err error) error {
	return v.refuse(denial{err: err, wait: errors.From(err).RetryAfter})
}

// advice is how long to wait for others to leave.
func (d *Door) advice() time.Duration {
	return d.o.RetryAfter + randomUpTo(d.o.RetryAfter)
}
