package limit

import (
	"context"

	"github.com/wskit/wskit/errors"
)

// A Reservation is the most that some work can cost, charged before the work begins.
// [Reservation.Settle] corrects the charge when the cost is known.
//
// A reservation that is never settled counts as it was reserved: that of a process that was killed,
// too. The store keeps nothing for a reservation but the charge itself. So the limit bounds how
// much is reserved under a key, and no lease has to be renewed.
//
// It must not be used by several goroutines at once, nor be copied once it was settled.
type Reservation struct {
	limiter *Limiter
	key     Key
	most    int64
	at      int64
	shared  bool
}

// Reserve charges the most that some work can cost, for work of which the cost is known only
// afterwards: tokens of a model, bytes of an export, seconds of a computation. It decides as
// [Limiter.Take] does. When the decision is not Allowed, there is nothing to settle.
//
// The key must not change before the reservation is settled. The error is that of Take, or
// errors.ErrUnsupported if the store is no [ExtendedStore] and [ManyTaker]; nothing is then
// charged.
func (l *Limiter) Reserve(ctx context.Context, key Key, most int64) (r Reservation, d Decision, err error) {
	if l.extended == nil {
		return r, d, l.unsupported("Refund, which Settle needs")
	}
	if l.many == nil {
		return r, d, l.unsupported("TakeMany, which Settle needs")
	}
	d, err = l.Take(ctx, key, most)
	if err == nil && d.Charged > 0 {
		r = Reservation{limiter: l, key: key, most: d.Charged, at: d.At, shared: d.Shared}
	}
	return r, d, err
}

// Settle corrects the charge to the actual cost. If that is below the reservation, the rest is
// given back as [Limiter.Refund] does it: exactly under windows and logs while the charge counts,
// and under a bucket less what has flowed in since. If it is above, the difference is charged in
// one atomic step as far as it fits; over is the part that did not fit and is not charged.
//
// Only the first call settles; further calls do nothing. After an error the charge may be as it was
// reserved, or settled. What the store did not charge is not settled: a denial, a shadowed one, or
// what the failure policy allowed. Settle does not stop at the end of ctx, for the work is done:
// Options.Timeout bounds it.
func (r *Reservation) Settle(ctx context.Context, actual int64) (over int64, err error) {
	l := r.limiter
	switch {
	case l == nil:
		return 0, nil
	case actual < 0:
		return 0, errors.InvalidArgument.Errorf("limit: a reservation of limiter %s is settled with %d; it must be at least 0", l.name, actual)
	}
	r.limiter = nil
	if actual == r.most {
		return 0, nil
	}
	if !r.key.isText() {
		return l.correct(ctx, r, r.key, actual)
	}
	buf := buffers.Get().(*[]byte)
	key := l.bindIn(*buf, r.key)
	over, err = l.correct(ctx, r, key, actual)
	*buf = key.buf
	buffers.Put(buf)
	return over, err
}

// correct is Settle with a key of the limiter.
func (l *Limiter) correct(ctx context.Context, r *Reservation, key Key, actual int64) (over int64, err error) {
	if actual > r.most {
		return l.chargeUpTo(context.WithoutCancel(ctx), key, actual-r.most)
	}
	taken := Decision{Allowed: true, Charged: r.most - actual, At: r.at, Shared: r.shared}
	if l.remote == nil {
		return 0, l.extended.Refund(ctx, key.buf, l.plan, taken)
	}
	return 0, l.refund(context.WithoutCancel(ctx), key.buf, taken)
}

func (l *Limiter) refund(ctx context.Context, key []byte, taken Decision) error {
	return l.run(ctx, func(ctx context.Context) error {
		return l.extended.Refund(ctx, key, l.plan, taken)
	})
}

// chargeUpTo charges a cost, or as much of it as fits, and returns the rest. It asks for about
// half of what is left, again and again, in one call of TakeMany: no part is larger than those
// after it together and one more, so that what is charged is the cost or all that fits.
func (l *Limiter) chargeUpTo(ctx context.Context, key Key, cost int64) (rest int64, err error) {
	asks := make([]Ask, 0, maxAsks)
	for left := cost; left > 0; left /= 2 {
		asks = append(asks, l.Ask(key, left-left/2))
	}
	err = l.run(ctx, func(ctx context.Context) error {
		return l.many.TakeMany(ctx, asks)
	})
	if err != nil {
		return cost, err
	}
	for i := range asks {
		cost -= asks[i].Decision.Charged
	}
	return cost, nil
}
