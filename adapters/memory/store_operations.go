package memory

import (
	"context"
	"sync"

	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/limit"
)

// Peek implements [limit.ExtendedStore].
func (s *store) Peek(_ context.Context, key []byte, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Prepare(policy, cost)
	if err == nil {
		s.state.Peek((*engine.Answer)(&d), s.state.Hash(key), plan.Compiled(), cost)
	}
	return d, err
}

// Refund implements [limit.ExtendedStore].
func (s *store) Refund(_ context.Context, key []byte, policy limit.Policy, taken limit.Decision) error {
	plan, err := limit.Compile(policy)
	if err == nil && taken.Charged > 0 {
		s.state.Refund(s.state.Hash(key), plan.Compiled(), (*engine.Answer)(&taken))
	}
	return err
}

// Reset implements [limit.ExtendedStore]. The state that a key shares with others while the
// store is full is not reset ([Options.MaxKeys]).
//
// The instants of at most 65,536 resets are remembered, which take up to 3 MB. For refunds, each
// further reset counts as a reset of all keys, so that they give back less.
func (s *store) Reset(_ context.Context, key []byte, policy limit.Policy) error {
	plan, err := limit.Compile(policy)
	if err == nil {
		s.state.Reset(s.state.Hash(key), plan.Compiled())
	}
	return err
}

// TakeMany implements [limit.ManyTaker].
func (s *store) TakeMany(_ context.Context, asks []limit.Ask) error {
	prepared, err := s.prepare(asks)
	if err == nil {
		s.state.TakeMany(*prepared)
	}
	done(prepared)
	return err
}

// TakeAll implements [limit.ManyTaker].
func (s *store) TakeAll(_ context.Context, asks []limit.Ask) (bound int, err error) {
	prepared, err := s.prepare(asks)
	if err == nil && len(asks) > 0 {
		bound = engine.TakeAll(*prepared)
	}
	done(prepared)
	return bound, err
}

var preparedPool = sync.Pool{New: func() any { return new([]engine.Ask) }}

// prepare checks all asks before the first is decided.
func (s *store) prepare(asks []limit.Ask) (*[]engine.Ask, error) {
	prepared := preparedPool.Get().(*[]engine.Ask)
	for i := range asks {
		a := &asks[i]
		plan, err := limit.Prepare(a.Policy, a.Cost)
		if err != nil {
			return prepared, err
		}
		*prepared = append(*prepared, engine.Ask{
			Engine: s.state, Hash: s.state.Hash(a.Key), Plan: plan.Compiled(), Cost: a.Cost, Answer: (*engine.Answer)(&a.Decision),
		})
	}
	return prepared, nil
}

func done(prepared *[]engine.Ask) {
	clear(*prepared) // the answers are the caller's
	*prepared = (*prepared)[:0]
	preparedPool.Put(prepared)
}
