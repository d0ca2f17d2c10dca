package limit

import (
	"context"
	"fmt"

	"github.com/wskit/wskit/errors"
)

// Peek says what [Limiter.Take] would answer, and takes nothing: Allowed says whether the cost
// would fit, and [Decision.Forecast] when it fits next. Peek is not counted in Stats. The error is
// errors.ErrUnsupported when the store has no such operation.
func (l *Limiter) Peek(ctx context.Context, key Key, cost int64) (d Decision, err error) {
	key = l.bind(key)
	if err := l.refuse(key, cost); err != nil {
		return d, err
	}
	store := l.extended
	if store == nil {
		return d, l.unsupported("Peek")
	}
	if l.remote == nil {
		return store.Peek(ctx, key.buf, l.plan, cost)
	}
	d, failed, err := l.guard(ctx, func(ctx context.Context) (Decision, error) {
		return store.Peek(ctx, key.buf, l.plan, cost)
	})
	if failed == nil {
		return d, err
	}
	switch {
	case l.remote.onFailure == FailLocal:
		l.remote.fallback.peek(&d, key.buf, l.plan, cost)
	case l.failsOpen():
		l.plan.Peek(&d, nil, 0, cost)
	default:
		return d, unavailable(failed)
	}
	return d, nil
}

// Refund gives back what a decision of this limiter took from the subject, because the work
// it was for was not done. Call it at most once for a decision, also when it returned an
// error: a store does not know what was given back before. Call it soon: a bucket gives back
// the cost less what has flowed in since (docs/decisions/refunds.md). What was charged before a reset
// is not given back, nor what the store did not take: a denial, a shadowed one, or what the
// failure policy allowed.
func (l *Limiter) Refund(ctx context.Context, key Key, taken Decision) error {
	key = l.bind(key)
	if err := l.refuse(key, 1); err != nil {
		return err
	}
	switch {
	case l.extended == nil:
		return l.unsupported("Refund")
	case taken.Charged < 1:
		return nil
	}
	return l.refund(ctx, key.buf, taken)
}

// Reset removes what the subject has used. What was charged before, or at the same instant,
// cannot be refunded afterwards.
func (l *Limiter) Reset(ctx context.Context, key Key) error {
	key = l.bind(key)
	if err := l.refuse(key, 1); err != nil {
		return err
	}
	store := l.extended
	if store == nil {
		return l.unsupported("Reset")
	}
	if l.remote != nil && l.remote.fallback != nil {
		l.remote.fallback.reset(key.buf, l.plan)
	}
	return l.run(ctx, func(ctx context.Context) error {
		return store.Reset(ctx, key.buf, l.plan)
	})
}

// run calls the store for something that no failure policy can do instead.
func (l *Limiter) run(ctx context.Context, call func(context.Context) error) error {
	if l.remote == nil {
		return call(ctx)
	}
	_, failed, err := l.guard(ctx, func(ctx context.Context) (d Decision, err error) { return d, call(ctx) })
	if failed != nil {
		return unavailable(failed)
	}
	return err
}

func (l *Limiter) unsupported(operation string) error {
	return fmt.Errorf("limit: the store of limiter %s has no %s: %w", l.name, operation, errors.ErrUnsupported)
}
