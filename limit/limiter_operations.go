package limit

import (
	"context"
	"fmt"

	"github.com/wskit/wskit/errors"
)

// Peek says what [Limiter.Take] would answer, and takes nothing: Allowed says
// whether the cost would fit. It is not counted in the figures. Like all that
// follow, it answers errors.ErrUnsupported when the store has no such operation.
func (l *Limiter) Peek(ctx context.Context, subject string, cost int64) (Decision, error) {
	return l.PeekKey(ctx, l.Key(nil).Part(subject), cost)
}

// PeekKey is [Limiter.Peek] for a key that [Limiter.Key] of this limiter began.
func (l *Limiter) PeekKey(ctx context.Context, key Key, cost int64) (d Decision, err error) {
	if err := l.refuse(key, cost); err != nil {
		return d, err
	}
	store, ok := l.store.(Peeker)
	if !ok {
		return d, l.unsupported("Peek")
	}
	if l.remote == nil {
		return store.Peek(ctx, key.String(), l.plan, cost)
	}
	d, failed, err := l.guard(ctx, func(ctx context.Context) (Decision, error) {
		return store.Peek(ctx, key.String(), l.plan, cost)
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

// Forecast says how many of the cost fit now, when the next one does, and when
// everything is there again. It takes nothing.
func (l *Limiter) Forecast(ctx context.Context, subject string, cost int64) (Forecast, error) {
	return l.ForecastKey(ctx, l.Key(nil).Part(subject), cost)
}

// ForecastKey is [Limiter.Forecast] for a key that [Limiter.Key] of this limiter
// began.
func (l *Limiter) ForecastKey(ctx context.Context, key Key, cost int64) (Forecast, error) {
	d, err := l.PeekKey(ctx, key, cost)
	if err != nil {
		return Forecast{}, err
	}
	return d.Forecast(cost), nil
}

// Refund gives back what a decision of this limiter took from the subject: the
// work it was for did not happen. Call it at most once for a decision, also when it
// returned an error: a store does not know what was given back before. Call it soon:
// a bucket gives back the cost less what has flowed in since ([Plan.Refund]). What
// was charged before a reset is not given back, nor what the store did not take: a
// denial, a shadowed one, or what the failure policy allowed.
func (l *Limiter) Refund(ctx context.Context, subject string, taken Decision) error {
	return l.RefundKey(ctx, l.Key(nil).Part(subject), taken)
}

// RefundKey is [Limiter.Refund] for a key that [Limiter.Key] of this limiter
// began.
func (l *Limiter) RefundKey(ctx context.Context, key Key, taken Decision) error {
	if err := l.refuse(key, 1); err != nil {
		return err
	}
	store, ok := l.store.(Refunder)
	switch {
	case !ok:
		return l.unsupported("Refund")
	case taken.Charged < 1:
		return nil
	}
	return l.run(ctx, func(ctx context.Context) error {
		return store.Refund(ctx, key.String(), l.plan, taken)
	})
}

// Reset forgets what the subject has used: it begins afresh. What it was charged
// before, or at the same instant, cannot be refunded afterwards.
func (l *Limiter) Reset(ctx context.Context, subject string) error {
	return l.ResetKey(ctx, l.Key(nil).Part(subject))
}

// ResetKey is [Limiter.Reset] for a key that [Limiter.Key] of this limiter began.
func (l *Limiter) ResetKey(ctx context.Context, key Key) error {
	if err := l.refuse(key, 1); err != nil {
		return err
	}
	store, ok := l.store.(Resetter)
	if !ok {
		return l.unsupported("Reset")
	}
	if l.remote != nil && l.remote.fallback != nil {
		l.remote.fallback.reset(key.buf, l.plan)
	}
	return l.run(ctx, func(ctx context.Context) error {
		return store.Reset(ctx, key.String(), l.plan)
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
