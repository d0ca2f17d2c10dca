package limit

import (
	"context"
	"sync"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/engine"
)

// An Ask is one of several costs that are decided by one call, and the answer to it.
// [Limiter.Ask] makes one for [TakeAll] and [TakeMany].
//
// A store gets the same asks. It reads Key, Policy and Cost, and fills in Decision. It
// keeps nothing of them when its method has returned.
type Ask struct {
	Key      []byte   // of the state, as in Store.Take
	Policy   Policy   // of the limit
	Cost     int64    // at least 1
	Decision Decision // the answer

	limiter *Limiter
}

// maxAsks is the largest number of asks in one call.
const maxAsks = 64

// Ask makes one of several costs that [TakeAll] or [TakeMany] decides. The key must not
// change before that is done.
func (l *Limiter) Ask(key Key, cost int64) Ask {
	key = l.bind(key)
	a := Ask{Key: key.buf, Cost: cost, limiter: l}
	if key.limiter == l {
		a.Policy = l.plan
	}
	return a
}

// TakeMany takes several costs, for any subjects of any limiters over one store, in one
// round trip: at one instant, in order, each as [Limiter.Take] would. It fills in the
// decision of each. At most 64 asks may be given.
//
// When the store has no such operation, the error is errors.ErrUnsupported and nothing was
// taken. While the store fails, the limiters' failure policies decide.
func TakeMany(ctx context.Context, asks []Ask) error {
	if err := checkAsks(asks); err != nil || len(asks) == 0 {
		return err
	}
	first := asks[0].limiter
	store := first.many
	if store == nil {
		return first.unsupported("TakeMany")
	}
	if first.remote == nil {
		if err := store.TakeMany(ctx, asks); err != nil {
			return err
		}
	} else {
		_, failed, err := first.guard(ctx, func(ctx context.Context) (d Decision, err error) {
			return d, store.TakeMany(ctx, asks)
		})
		if err != nil {
			return err
		}
		for i := range asks {
			a := &asks[i]
			if failed == nil {
				break
			}
			if err := a.limiter.failOver(&a.Decision, a.Key, a.Cost, failed); err != nil {
				return err
			}
		}
	}
	for i := range asks {
		asks[i].settle()
	}
	return nil
}

// TakeAll charges several costs, for any subjects of any limiters over one store, or none
// of them, in one atomic step: a limit per user and one per tenant, where a message that
// one of them denies must not use up the other. It fills in the decision of each ask. At
// most 64 may be given.
//
// It returns the index of the ask that decided: asks[bound].Decision.Allowed says whether
// all were charged. When they were not, that is the one with the longest wait, or an
// impossible one; Allowed is then false in every decision, and the others say what they
// would have said alone, so that RetryAfter is 0 where the cost would have fitted. When
// they were, it is the one with the least left.
//
// A limiter in shadow mode is asked after all others have been charged, and never decides
// unless it is alone.
//
// When the store has no such operation, the error is errors.ErrUnsupported and nothing was
// taken. While the store fails, the limiters' failure policies decide, together as well.
func TakeAll(ctx context.Context, asks []Ask) (bound int, err error) {
	if err := checkAsks(asks); err != nil {
		return 0, err
	}
	shadows := 0
	for i := range asks {
		if asks[i].limiter.shadow {
			shadows++
		}
	}
	switch shadows {
	case 0:
		return takeAll(ctx, asks)
	case len(asks):
		return 0, TakeMany(ctx, asks)
	}
	others := askSlices.Get().(*[]Ask)
	defer func() {
		clear(*others) // the keys are the caller's
		askSlices.Put(others)
	}()
	*others = (*others)[:0]
	for _, a := range asks {
		if !a.limiter.shadow {
			*others = append(*others, a)
		}
	}
	decided, err := takeAll(ctx, *others)
	if err != nil {
		return 0, err
	}
	charged := (*others)[decided].Decision.Allowed
	other := 0
	for i := range asks {
		a := &asks[i]
		switch l := a.limiter; {
		case !l.shadow:
			if a.Decision = (*others)[other].Decision; other == decided {
				bound = i
			}
			other++
		case charged:
			if a.Decision, err = l.Take(ctx, Key{a.Key, l}, a.Cost); err != nil {
				return 0, err
			}
		default:
			a.Decision = Decision{Policy: l.plan.String()}
		}
	}
	return bound, nil
}

var askSlices = sync.Pool{New: func() any { return new([]Ask) }}

// takeAll is [TakeAll] without limiters in shadow mode.
func takeAll(ctx context.Context, asks []Ask) (bound int, err error) {
	if len(asks) == 0 {
		return 0, nil
	}
	first := asks[0].limiter
	store := first.many
	if store == nil {
		return 0, first.unsupported("TakeAll")
	}
	if first.remote == nil {
		bound, err = store.TakeAll(ctx, asks)
	} else {
		var failed error
		_, failed, err = first.guard(ctx, func(ctx context.Context) (d Decision, err error) {
			bound, err = store.TakeAll(ctx, asks)
			return d, err
		})
		if failed != nil {
			bound, err = failOverAll(asks, failed)
		}
	}
	if err != nil {
		return 0, err
	}
	for i := range asks {
		if i == bound || asks[i].Decision.Allowed {
			asks[i].settle()
		}
	}
	return bound, nil
}

// settle is [Limiter.settle] of the answer.
func (a *Ask) settle() { a.limiter.settle(&a.Decision, a.Key) }

// checkAsks checks all asks before the first is decided.
func checkAsks(asks []Ask) error {
	if len(asks) > maxAsks {
		return errors.InvalidArgument.Errorf("limit: %d asks; at most %d are allowed", len(asks), maxAsks)
	}
	for i := range asks {
		a := &asks[i]
		if a.limiter == nil {
			return errors.InvalidArgument.Errorf("limit: ask %d was not made by a limiter: use its method Ask", i)
		}
		if a.Policy == nil || a.Cost < 1 {
			key := Key{buf: a.Key}
			if a.Policy != nil {
				key.limiter = a.limiter
			}
			return a.limiter.refuse(key, a.Cost)
		}
		if !sameStore(a.limiter, asks[0].limiter) {
			return errors.InvalidArgument.Errorf("limit: limiters %s and %s have different stores: one call uses one store",
				asks[0].limiter.name, a.limiter.name)
		}
	}
	return nil
}

// sameStore reports whether two limiters have one store. Stores that cannot be compared
// are taken to differ.
func sameStore(a, b *Limiter) bool {
	return a.shared == b.shared || a.comparable && b.comparable && a.store == b.store
}

// failOverAll decides in place of the store, all or none.
func failOverAll(asks []Ask, failed error) (bound int, err error) {
	local := make([]engine.Ask, len(asks))
	for i := range asks {
		a := &asks[i]
		l := a.limiter
		l.countFailure(failed)
		local[i] = engine.Ask{Plan: l.plan.compiled, Cost: a.Cost, Answer: (*engine.Answer)(&a.Decision)}
		switch l.remote.onFailure {
		case FailClosed:
			return 0, unavailable(failed)
		case FailLocal:
			local[i].Engine = l.remote.fallback.open()
			local[i].Hash = local[i].Engine.Hash(a.Key)
		default:
			local[i].Engine = engine.New(engine.Options{MaxKeys: defaultFallbackKeys}) // where nothing was ever used
		}
	}
	bound = engine.TakeAll(local)
	for i := range asks {
		asks[i].Decision.Charged = 0
	}
	return bound, nil
}
