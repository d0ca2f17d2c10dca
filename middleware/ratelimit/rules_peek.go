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
	limiter := is.limitBy.limiter
	if limiter == nil {
		if limiter, err = l.limiters.of(is.bucket); err != nil {
			return e, d, err
		}
	}
	key := is.mark(l.frames.Key(limiter.Key(nil), c), l.marked)
	d, err = limiter.Peek(ctx, key, max(1, is.cost))
	return e, d, err
}
