package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/limit"
)

// Peek implements [limit.ExtendedStore]. It always calls Redis.
func (s *Store) Peek(ctx context.Context, key []byte, policy limit.Policy, cost int64) (limit.Decision, error) {
	plan, err := limit.Prepare(policy, cost)
	if err != nil {
		return limit.Decision{}, err
	}
	a := ask{operation: peek, key: keyOf(key, plan), plan: plan, cost: cost}
	err = s.one(ctx, &a)
	return a.answer, err
}

// Refund implements [limit.ExtendedStore].
func (s *Store) Refund(ctx context.Context, key []byte, policy limit.Policy, taken limit.Decision) error {
	plan, err := limit.Compile(policy)
	if err != nil || taken.Charged < 1 {
		return err
	}
	defer s.forget(key, plan)
	return s.one(ctx, &ask{operation: refund, key: keyOf(key, plan), plan: plan, cost: taken.Charged, taken: taken})
}

// Reset implements [limit.ExtendedStore].
func (s *Store) Reset(ctx context.Context, key []byte, policy limit.Policy) error {
	plan, err := limit.Compile(policy)
	if err != nil {
		return err
	}
	if s.prefetch != nil {
		s.prefetch.forget(string(key))
	}
	defer s.forget(key, plan)
	return s.one(ctx, &ask{operation: forget, key: keyOf(key, plan), plan: plan})
}

func (s *Store) forget(key []byte, plan *limit.Plan) {
	if s.memory != nil {
		s.memory.Invalidate(key, plan)
	}
}

// TakeMany implements [limit.ManyTaker]. What is on one server is taken at one
// instant and in one script, or in a cluster in one for each slot; servers are
// called at the same time. When it is not known which server has a key, nothing is
// taken. The error is that of all servers that failed.
func (s *Store) TakeMany(ctx context.Context, several []limit.Ask) error {
	asks, err := s.asks(several)
	if err != nil || len(asks) == 0 {
		return err
	}
	var parts []part
	for _, i := range s.remembered(asks, several) {
		server, err := s.where.server(ctx, asks[i].key)
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		at := slices.IndexFunc(parts, func(p part) bool { return p.server == server })
		if at < 0 {
			at = len(parts)
			parts = append(parts, part{server: server})
		}
		parts[at].index = append(parts[at].index, i)
	}
	errs := make([]error, len(parts)) // each server has its own
	var wait sync.WaitGroup
	for n, p := range parts {
		one := func() { errs[n] = s.takePart(ctx, p, asks, several) }
		if n == len(parts)-1 {
			one()
		} else {
			wait.Go(one)
		}
	}
	wait.Wait()
	return errors.Join(errs...)
}

// A part is what of several asks is on one server.
type part struct {
	server any
	index  []int // of the asks
}

func (s *Store) takePart(ctx context.Context, p part, asks []ask, several []limit.Ask) error {
	own := make([]ask, len(p.index))
	for j, i := range p.index {
		own[j] = asks[i]
	}
	err := s.several(ctx, p.server, own, false)
	for j, i := range p.index {
		several[i].Decision = own[j].answer
	}
	return err
}

// remembered answers what is known to be denied, and returns which are left to
// ask. An earlier ask for the same key may change what the answer says, so then
// Redis is asked.
func (s *Store) remembered(asks []ask, several []limit.Ask) (rest []int) {
	rest = make([]int, 0, len(asks))
	for i := range asks {
		a := &asks[i]
		if s.memory != nil && s.answering.Load() {
			var denied bool
			a.question, denied = s.memory.Get(&several[i].Decision, several[i].Key, a.plan, a.cost)
			for _, j := range rest {
				denied = denied && asks[j].key != a.key
			}
			if denied {
				continue
			}
		}
		rest = append(rest, i)
	}
	return rest
}

// TakeAll implements [limit.ManyTaker] for keys that one script may touch: those on
// one server, which in a cluster have to be in one slot. For others the error is
// errors.ErrUnsupported, and nothing was taken.
func (s *Store) TakeAll(ctx context.Context, several []limit.Ask) (bound int, err error) {
	asks, err := s.asks(several)
	if err != nil || len(asks) == 0 {
		return 0, err
	}
	first, err := s.where.script(ctx, asks[0].key)
	for i := 1; i < len(asks) && err == nil; i++ {
		var other any
		if other, err = s.where.script(ctx, asks[i].key); err == nil && other != first {
			err = errUnsupported
		}
	}
	if err != nil {
		return 0, err
	}
	if s.memory != nil { // what is denied together is not remembered, but what was taken is
		for i := range asks {
			var d limit.Decision
			asks[i].question, _ = s.memory.Get(&d, several[i].Key, asks[i].plan, asks[i].cost)
		}
	}
	server, err := s.where.server(ctx, asks[0].key)
	if err != nil {
		return 0, fmt.Errorf("redis: %w", err)
	}
	if err := s.several(ctx, server, asks, true); err != nil {
		return 0, err
	}
	denied := false
	for i := range asks {
		d := &several[i].Decision
		*d = asks[i].answer
		denied = denied || !d.Allowed
		if engine.Binds((*engine.Answer)(d), (*engine.Answer)(&several[bound].Decision)) {
			bound = i
		}
	}
	for i := range several {
		if denied {
			several[i].Decision.Allowed, several[i].Decision.Wait = false, 0
		}
	}
	return bound, nil
}

// asks checks all asks before the first is decided.
func (s *Store) asks(several []limit.Ask) ([]ask, error) {
	asks := make([]ask, len(several))
	for i := range several {
		a := &several[i]
		plan, err := limit.Prepare(a.Policy, a.Cost)
		if err != nil {
			return nil, err
		}
		asks[i] = ask{operation: take, key: keyOf(a.Key, plan), plan: plan, cost: a.Cost}
	}
	return asks, nil
}
