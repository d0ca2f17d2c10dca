package ratelimit

import (
	"context"
	"fmt"
	"math"

	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit/internal/enforce"
)

// A Reservation is the most that the work of a handler can cost, charged before it begins. See
// [Reserve].
type Reservation struct {
	ctx      context.Context
	reserved limit.Reservation
	used     int64 // -1: nothing is known
}

// Reserve charges the most that some work can cost, from within a handler: the tokens of a model,
// the bytes of an export. The deferred [Reservation.Settle] corrects the charge to what was used,
// before the handler's reply is sent:
//
//	router.RPC(r, "chat.ask", func(c *router.Context, q Question) (Answer, error) {
//		tokens, err := ratelimit.Reserve(c, perDay, limit.KeyOf(c.Identity.Tenant, c.Identity.User), 4000)
//		if err != nil {
//			return Answer{}, err
//		}
//		defer tokens.Settle()
//
//		answer, err := model.Ask(c, q.Text, 4000)
//		tokens.Use(answer.Tokens)
//		…
//
// Over the limit, the error is an *errors.LimitExceeded, as that of [Take], which also describes
// the parts and the effect of a [limit.Pacer]. With windows and quotas, all that was not used is
// given back while the charge counts. With a bucket, what has flowed in since is not: see
// [limit.Reservation.Settle].
//
// A reservation without Settle, such as that of a process that was killed, counts as it was
// reserved.
func Reserve(ctx context.Context, limiter *limit.Limiter, key limit.Key, most int) (*Reservation, error) {
	if most < 1 {
		return nil, fmt.Errorf("ratelimit: Reserve from limiter %s with the cost %d; it must be at least 1", limiter.Name(), most)
	}
	r := &Reservation{ctx: ctx, used: -1}
	var d limit.Decision
	var err error
	r.reserved, d, err = limiter.Reserve(ctx, key, int64(most))
	switch {
	case err != nil:
		return nil, err
	case !d.Allowed:
		e := enforce.Rejection(limiter.Name(), int64(most), &d)
		return nil, &e
	case d.Wait > 0:
		if err := wait(ctx, d.Wait); err != nil {
			_, _ = r.reserved.Settle(ctx, 0)
			return nil, err
		}
	}
	return r, nil
}

// Use adds to what the work has cost. With Use(0) alone, it has cost nothing. A negative cost
// panics. Use must not be called by several goroutines at once.
func (r *Reservation) Use(cost int) {
	if cost < 0 {
		panic(fmt.Sprintf("ratelimit: Use(%d); what was used is at least 0", cost))
	}
	r.used = max(r.used, 0)
	r.used += min(int64(cost), math.MaxInt64-r.used)
}

// Settle corrects the charge to the sum of what was used. Without a call of Use, the charge stays
// as it was reserved: also that of a handler that panicked before. What was used beyond the
// reservation is charged as far as it fits; over is the part that did not fit. Only the first call
// settles. If the store fails, the charge stays, and the limiter reports the failure.
func (r *Reservation) Settle() (over int64) {
	if r.used < 0 {
		return 0
	}
	over, _ = r.reserved.Settle(r.ctx, r.used)
	return over
}
