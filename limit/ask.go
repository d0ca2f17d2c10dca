package limit

import (
	"context"
	"sync"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/engine"
)

// MaxAsks is the largest number of asks in one call.
const MaxAsks = 64

// An Ask is a cost for the subject of a key, and so of the limiter that began
// the key.
type Ask struct {
	Key  Key
	Cost int64
}

// TakeMany takes several costs, for any subjects of any limiters over one store,
// in one round trip: at one instant, in order, each as [Limiter.TakeKey] would.
// The answer to asks[i] is put into answers[i], of which there must be as many;
// at most [MaxAsks] may be given.
//
// When the store has no such operation, the error is errors.ErrUnsupported and
// nothing was taken. A failure policy answers for all.
func TakeMany(ctx context.Context, asks []Ask, answers []Decision) error {
	b, err := prepare(asks, answers)
	if err != nil || len(asks) == 0 {
		return err
	}
	defer b.done()
	first := asks[0].Key.limiter
	store, ok := first.store.(ManyTaker)
	if !ok {
		return first.unsupported("TakeMany")
	}
	if first.remote == nil {
		err = store.TakeMany(ctx, b.requests, answers)
	} else {
		var failed error
		_, failed, err = first.guard(ctx, func(ctx context.Context) (d Decision, err error) {
			return d, store.TakeMany(ctx, b.requests, answers)
		})
		if failed != nil {
			for i, a := range asks {
				if err := a.Key.limiter.failOver(&answers[i], a.Key.buf, a.Cost, failed); err != nil {
					return err
				}
			}
		}
	}
	if err != nil {
		return err
	}
	for i, a := range asks {
		a.Key.limiter.settle(&answers[i], a.Key)
	}
	return nil
}

// TakeAll charges several costs, for any subjects of any limiters over one
// store, or none of them, in one atomic step: a limit per user and one per
// tenant, where a message that one of them denies must not use up the other.
//
// It returns the index of the ask that bound: answers[bound].Allowed says
// whether all were charged. When they were not, that is the one with the longest
// wait, or an impossible one; Allowed is then false in every answer, and the
// others say what they would have said alone, so that RetryAfter is 0 where it
// would have fitted. When they were, it is the one with the least left.
//
// A limiter in shadow mode is asked after all others have been charged, and
// never binds unless it is alone.
//
// When the store has no such operation, the error is errors.ErrUnsupported and
// nothing was taken. While the store fails, the limiters' failure policies decide,
// together as well.
func TakeAll(ctx context.Context, asks []Ask, answers []Decision) (bound int, err error) {
	b, err := prepare(asks, answers)
	if err != nil || len(asks) == 0 {
		return 0, err
	}
	defer b.done()
	b.split(asks)
	if len(b.index) == 0 { // shadows only
		return 0, TakeMany(ctx, asks, answers)
	}
	first := asks[0].Key.limiter
	store, ok := first.store.(AllTaker)
	if !ok {
		return 0, first.unsupported("TakeAll")
	}
	if first.remote == nil {
		bound, err = store.TakeAll(ctx, b.requests, b.answers)
	} else {
		var failed error
		_, failed, err = first.guard(ctx, func(ctx context.Context) (d Decision, err error) {
			bound, err = store.TakeAll(ctx, b.requests, b.answers)
			return d, err
		})
		if failed != nil {
			bound, err = b.failOver(asks, failed)
		}
	}
	if err != nil {
		return 0, err
	}
	for j, i := range b.index {
		answers[i] = b.answers[j]
		if a := asks[i]; j == bound || answers[i].Allowed {
			a.Key.limiter.settle(&answers[i], a.Key)
		}
	}
	bound = b.index[bound]
	return bound, b.shadows(ctx, asks, answers, answers[bound].Allowed)
}

// severalTakes is what a call with several asks needs, used again.
type severalTakes struct {
	requests []Request
	answers  []Decision
	index    []int // of the requests in the asks
	local    []engine.Ask
}

var severals = sync.Pool{New: func() any { return new(severalTakes) }}

// prepare checks all asks before the first is decided.
func prepare(asks []Ask, answers []Decision) (*severalTakes, error) {
	if err := CheckAnswers(len(asks), len(answers)); err != nil {
		return nil, err
	}
	if len(asks) > MaxAsks {
		return nil, errors.InvalidArgument.Errorf("limit: %d asks; at most %d are allowed", len(asks), MaxAsks)
	}
	for _, a := range asks {
		if err := a.Key.limiter.refuse(a.Key, a.Cost); err != nil {
			return nil, err
		}
		if !sameStore(a.Key.limiter, asks[0].Key.limiter) {
			return nil, errors.InvalidArgument.Errorf("limit: limiters %s and %s have different stores: one call asks one store",
				asks[0].Key.limiter.name, a.Key.limiter.name)
		}
	}
	b := severals.Get().(*severalTakes)
	b.requests = b.requests[:0]
	for _, a := range asks {
		b.requests = append(b.requests, Request{Key: a.Key.buf, Policy: a.Key.limiter.plan, Cost: a.Cost})
	}
	return b, nil
}

// sameStore reports whether two limiters have one store. Stores that cannot be
// compared are taken to differ.
func sameStore(a, b *Limiter) bool {
	return a.shared == b.shared || a.comparable && b.comparable && a.store == b.store
}

// split leaves out the asks of limiters in shadow mode.
func (b *severalTakes) split(asks []Ask) {
	b.requests, b.answers, b.index = b.requests[:0], b.answers[:0], b.index[:0]
	for i, a := range asks {
		if l := a.Key.limiter; !l.shadow {
			b.requests = append(b.requests, Request{Key: a.Key.buf, Policy: l.plan, Cost: a.Cost})
			b.answers = append(b.answers, Decision{})
			b.index = append(b.index, i)
		}
	}
}

// shadows asks the limiters in shadow mode, when the others have charged.
func (b *severalTakes) shadows(ctx context.Context, asks []Ask, answers []Decision, charged bool) (err error) {
	for i, a := range asks {
		l := a.Key.limiter
		switch {
		case !l.shadow:
		case charged:
			if answers[i], err = l.TakeKey(ctx, a.Key, a.Cost); err != nil {
				return err
			}
		default:
			answers[i] = Decision{Policy: l.plan.String()}
		}
	}
	return nil
}

// failOver decides in the store's stead, all or none.
func (b *severalTakes) failOver(asks []Ask, failed error) (bound int, err error) {
	b.local = b.local[:0]
	for j, i := range b.index {
		l, answer := asks[i].Key.limiter, (*engine.Answer)(&b.answers[j])
		l.countFailure(failed)
		switch l.remote.onFailure {
		case FailClosed:
			return 0, unavailable(failed)
		case FailLocal:
			s := l.remote.fallback.open()
			b.local = append(b.local, engine.Ask{Engine: s, Hash: s.HashBytes(asks[i].Key.buf), Plan: l.plan.compiled, Cost: asks[i].Cost, Answer: answer})
		default:
			s := engine.New(engine.Options{MaxKeys: defaultFallbackKeys}) // where nothing was ever used
			b.local = append(b.local, engine.Ask{Engine: s, Plan: l.plan.compiled, Cost: asks[i].Cost, Answer: answer})
		}
	}
	bound = engine.TakeAll(b.local)
	for i := range b.answers {
		b.answers[i].Charged = 0
	}
	return bound, nil
}

func (b *severalTakes) done() {
	clear(b.requests) // the keys are the caller's
	clear(b.local)
	severals.Put(b)
}

// CheckAnswers refuses a call for several decisions that has not exactly one
// answer to fill in for each. Stores call it too.
func CheckAnswers(asks, answers int) error {
	if asks == answers {
		return nil
	}
	return errors.InvalidArgument.Errorf("limit: %d asks and room for %d answers; give as many", asks, answers)
}
