package memory

import (
	"context"
	"sync"

	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/limit"
)

var (
	_ limit.Peeker    = (*Store)(nil)
	_ limit.Refunder  = (*Store)(nil)
	_ limit.Resetter  = (*Store)(nil)
	_ limit.ManyTaker = (*Store)(nil)
	_ limit.AllTaker  = (*Store)(nil)
)

// Peek implements [limit.Peeker].
func (s *Store) Peek(_ context.Context, key string, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Prepare(policy, cost)
	if err == nil {
		s.state.Peek((*engine.Answer)(&d), s.state.Hash(key), plan.Compiled(), cost)
	}
	return d, err
}

// Refund implements [limit.Refunder].
func (s *Store) Refund(_ context.Context, key string, policy limit.Policy, taken limit.Decision) error {
	plan, err := limit.Compile(policy)
	if err == nil && taken.Charged > 0 {
		s.state.Refund(s.state.Hash(key), plan.Compiled(), (*engine.Answer)(&taken))
	}
	return err
}

// Reset implements [limit.Resetter]. The state that a key shares with others while the
// store is full is not reset ([Options.MaxKeys]).
//
// The instants of at most 65,536 resets are remembered, which take up to 3 MB. A reset
// beyond them counts as one of every key as far as refunds are concerned, so these give
// back less.
func (s *Store) Reset(_ context.Context, key string, policy limit.Policy) error {
	plan, err := limit.Compile(policy)
	if err == nil {
		s.state.Reset(s.state.Hash(key), plan.Compiled())
	}
	return err
}

// TakeMany implements [limit.ManyTaker].
func (s *Store) TakeMany(_ context.Context, requests []limit.Request, answers []limit.Decision) error {
	asks, err := s.asks(requests, answers)
	if err != nil {
		return err
	}
	s.state.TakeMany(*asks)
	done(asks)
	return nil
}

// TakeAll implements [limit.AllTaker].
func (s *Store) TakeAll(_ context.Context, requests []limit.Request, answers []limit.Decision) (bound int, err error) {
	asks, err := s.asks(requests, answers)
	if err != nil || len(*asks) == 0 {
		return 0, err
	}
	bound = engine.TakeAll(*asks)
	done(asks)
	return bound, nil
}

var asksPool = sync.Pool{New: func() any { return new([]engine.Ask) }}

func done(asks *[]engine.Ask) {
	clear(*asks) // the answers are the caller's
	asksPool.Put(asks)
}

// asks checks all requests before the first is decided.
func (s *Store) asks(requests []limit.Request, answers []limit.Decision) (*[]engine.Ask, error) {
	if err := limit.CheckAnswers(len(requests), len(answers)); err != nil {
		return nil, err
	}
	asks := asksPool.Get().(*[]engine.Ask)
	*asks = (*asks)[:0]
	for i, r := range requests {
		plan, err := limit.Prepare(r.Policy, r.Cost)
		if err != nil {
			return nil, err
		}
		*asks = append(*asks, engine.Ask{Engine: s.state, Hash: s.state.HashBytes(r.Key), Plan: plan.Compiled(), Cost: r.Cost, Answer: (*engine.Answer)(&answers[i])})
	}
	return asks, nil
}
