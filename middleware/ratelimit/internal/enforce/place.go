package enforce

import (
	"context"
	"sync"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// NoPlace is the error for a denial.
func NoPlace(d *limit.Decision) errors.LimitExceeded {
	return errors.LimitExceeded{
		Kind: errors.LimitInFlight, Observed: d.Limit + 1, Limit: d.Limit, Limiter: d.Policy, Policy: "concurrency",
	}
}

// Place is the place of a message: see inbound.Guard.
type Place struct {
	Key    limit.Key
	Rule   string // that has the limit
	Shadow bool   // the rule is in shadow mode
	Silent bool

	by    *Enforcer
	limit *limit.ConcurrencyLimit
	frame *ingress.Context // for OnLimited, nil without it

	lease limit.Lease
	held  bool
	buf   [128]byte // of Key
}

// places are used again after End, or a Begin that refuses. Those of messages that do not reach their
// handler are left to the collector.
var places = sync.Pool{New: func() any { return new(Place) }}

// NewPlace makes a place whose key is yet to be set.
func NewPlace(by *Enforcer, l *limit.ConcurrencyLimit, c *ingress.Context) *Place {
	p := places.Get().(*Place)
	*p = Place{by: by, limit: l, Silent: by.Silent || c.State.Silent}
	if by.OnLimited != nil { // c is that of another frame when the handler begins
		p.frame = &ingress.Context{
			Type: c.Type, ConnID: c.ConnID, IP: c.IP, Identity: c.Identity, ReceivedAt: c.ReceivedAt, Size: c.Size,
		}
		p.frame.State.Ctx, p.frame.State.Values = c.State.Ctx, c.State.Values
	}
	return p
}

// Buffer is empty, and has room for most keys.
func (p *Place) Buffer() []byte { return p.buf[:0] }

// Begin takes the place.
func (p *Place) Begin(ctx context.Context) error {
	err := p.begin(ctx)
	if err != nil {
		places.Put(p)
	}
	return err
}

func (p *Place) begin(ctx context.Context) error {
	lease, d, err := p.limit.Acquire(ctx, p.Key)
	switch {
	case err != nil && p.Shadow && errors.CodeOf(err) == errors.Unavailable:
		return nil // a limit that is tried refuses nothing
	case err != nil:
		return err
	case d.Allowed && !d.Shadowed:
		p.lease, p.held = lease, true
		return nil
	}
	info := Limited{Limiter: d.Policy, Rule: p.Rule, Cost: 1, Decision: d, Shadow: p.Shadow || p.by.Shadow || d.Shadowed}
	if p.by.OnLimited != nil {
		p.by.OnLimited(p.frame, info)
	}
	if info.Shadow {
		return nil
	}
	e := NoPlace(&d)
	e.Silent = p.Silent
	return &e
}

// End gives the place back.
func (p *Place) End() {
	if p.held {
		p.limit.Release(p.lease)
	}
	places.Put(p)
}
