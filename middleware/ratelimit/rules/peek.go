package rules

import (
	"context"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// Peek returns what the current rules mean for a frame, and what is left of its limit, without charging
// anything. The Decision is zero if the frame is not limited. A cost that depends on the frame
// (Options.Cost) is taken as 1.
func (l *Limiter) Peek(ctx context.Context, c *ingress.Context) (e Effective, d limit.Decision, err error) {
	now := l.now.Load()
	is := now.resolve(c)
	if e = now.effective(c, &is); !e.Limited {
		return e, d, nil
	}
	limiter, err := l.limiterOf(&is)
	if err != nil {
		return e, d, err
	}
	d, err = limiter.Peek(ctx, l.keyOf(nil, c, limiter, &is), max(1, is.cost))
	return e, d, err
}

// PeekConcurrent returns how many places are free for the message of a frame ([Rule.Concurrent]),
// without taking one: Allowed, Limit and Remaining of the Decision. The Decision is zero if any
// number of such messages may be handled at a time.
func (l *Limiter) PeekConcurrent(ctx context.Context, c *ingress.Context) (limit.Decision, error) {
	now := l.now.Load()
	is := now.resolve(c)
	if is.concurrentBy == nil || now.rules.Disabled || now.listed(c) != "" {
		return limit.Decision{}, nil
	}
	return is.concurrentBy.places.Peek(ctx, l.placeKey(nil, c, is.concurrentBy))
}
