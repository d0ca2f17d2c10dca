package ratelimit

import (
	"context"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// Peek returns what the current rules mean for a frame, and what is left of its limit, without charging
// anything. The Decision is zero if the frame is not limited. A cost that depends on the frame
// (Options.Cost) is taken as 1.
func (l *RuleLimiter) Peek(ctx context.Context, c *ingress.Context) (e Effective, d limit.Decision, err error) {
	now := l.now.Load()
	if e = now.effective(c); !e.Limited {
		return e, d, nil
	}
	is := now.resolve(c)
	limiter, err := l.limiterOf(&is)
	if err != nil {
		return e, d, err
	}
	d, err = limiter.Peek(ctx, l.keyOf(nil, c, limiter, &is), max(1, is.cost))
	return e, d, err
}
