package enforce

import (
	"context"
	"math"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/inbound"
	"github.com/wskit/wskit/limit"
)

// Announced is a limit that clients may follow ($ws:limits), for the messages of a type.
type Announced struct {
	Source any
	Name   string // empty: it is not shown
	Hidden bool   // for this type
	Cost   int64  // of a message, 0 if it depends on the message
}

// Report reports the state of a limit. It is called only for clients that follow their limits.
func (a *Announced) Report(c *ingress.Context, plan *limit.Plan, key []byte, charged int64, d *limit.Decision) {
	if a.Name == "" || d.Shadowed {
		return
	}
	l := inbound.Limit{
		Source: a.Source, Type: c.Type, Key: key, Hidden: a.Hidden || c.State.Silent,
		Name: a.Name, Cost: a.Cost, Remaining: float64(d.Remaining), FullAfter: d.ResetAfter,
	}
	parts := plan.Compiled().Parts
	l.Ceiling = parts[0].Ceiling
	for i, part := range parts {
		l.Ceiling = min(l.Ceiling, part.Ceiling)
		refill, per := refillOf(part.Policy.(limit.Policy))
		if i == 0 || refill == 0 || l.Refill > 0 && slower(refill, per, l.Refill, l.Per) {
			l.Refill, l.Per = refill, per // 0 if one of them does not refill steadily
		}
	}
	switch {
	case len(parts) == 1 && l.Refill > 0:
		l.Remaining += fraction(&l, d)
	case len(parts) > 1 && !d.Allowed && charged > 1:
		l.Remaining = 0 // the decision is about the part with the longest wait, not with the least left
	}
	c.State.Limits.Report(l)
}

// Clear reports that messages of the type are not limited.
func (a *Announced) Clear(c *ingress.Context) {
	c.State.Limits.Report(inbound.Limit{Source: a.Source, Type: c.Type, Hidden: true})
}

// Peek reports the state of a limit without charging it. A store that cannot read its states has
// none to report before the first message.
func (a *Announced) Peek(ctx context.Context, c *ingress.Context, limiter *limit.Limiter, key limit.Key) error {
	d, err := limiter.Peek(ctx, key, max(1, a.Cost))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err == nil:
		a.Report(c, limiter.Plan(), key.Bytes(), max(1, a.Cost), &d)
	}
	return err
}

// refillOf returns the rate of a policy that refills steadily, or 0.
func refillOf(p limit.Policy) (refill int64, per time.Duration) {
	switch p := p.(type) {
	case limit.TokenBucket:
		return p.Refill, p.Per
	case limit.Pacer:
		return p.Refill, p.Per
	}
	return 0, 0
}

// slower reports whether the first rate is less than the second one.
func slower(refill int64, per time.Duration, than int64, thanPer time.Duration) bool {
	return float64(refill)*float64(thanPer) < float64(than)*float64(per)
}

// fraction is the part of the next unit of a bucket that has come back, rounded down.
func fraction(l *inbound.Limit, d *limit.Decision) float64 {
	used := float64(d.ResetAfter) * float64(l.Refill) / float64(l.Per)
	left := float64(l.Ceiling) - used - float64(d.Remaining)
	return max(0, min(1, math.Floor(left*1e6)/1e6))
}
