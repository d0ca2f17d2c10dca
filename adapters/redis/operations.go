package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/wskit/wskit/internal/asks"
	"github.com/wskit/wskit/limit"
)

// Peek implements [limit.ExtendedStore]. It always calls Redis.
func (s *store) Peek(ctx context.Context, key []byte, policy limit.Policy, cost int64) (limit.Decision, error) {
	plan, err := limit.Prepare(policy, cost)
	if err != nil {
		return limit.Decision{}, err
	}
	a := asks.Ask{Operation: asks.Peek, Key: asks.KeyOf(key, plan), Plan: plan, Cost: cost}
	err = s.one(ctx, &a)
	return a.Answer, err
}

// Refund implements [limit.ExtendedStore].
func (s *store) Refund(ctx context.Context, key []byte, policy limit.Policy, taken limit.Decision) error {
	plan, err := limit.Compile(policy)
	if err != nil || taken.Charged < 1 {
		return err
	}
	defer s.forget(key, plan)
	return s.one(ctx, &asks.Ask{Operation: asks.Refund, Key: asks.KeyOf(key, plan), Plan: plan, Cost: taken.Charged, Taken: taken})
}

// Reset implements [limit.ExtendedStore].
func (s *store) Reset(ctx context.Context, key []byte, policy limit.Policy) error {
	plan, err := limit.Compile(policy)
	if err != nil {
		return err
	}
	if s.prefetch != nil {
		s.prefetch.forget(string(key))
	}
	defer s.forget(key, plan)
	return s.one(ctx, &asks.Ask{Operation: asks.Reset, Key: asks.KeyOf(key, plan), Plan: plan})
}

func (s *store) forget(key []byte, plan *limit.Plan) {
	if s.memory != nil {
		s.memory.Invalidate(key, plan)
	}
}

// TakeMany implements [limit.ManyTaker]. What is on one server is taken at one
// instant and in one script, or in a cluster in one for each slot; servers are
// called at the same time. When it is not known which server has a key, nothing is
// taken. The error is that of all servers that failed.
func (s *store) TakeMany(ctx context.Context, several []limit.Ask) error {
	all, err := asks.Of(several)
	if err != nil || len(all) == 0 {
		return err
	}
	var parts []part
	for _, i := range s.remembered(all, several) {
		server, err := s.where.server(ctx, all[i].Key)
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
		one := func() { errs[n] = s.takePart(ctx, p, all, several) }
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

func (s *store) takePart(ctx context.Context, p part, all []asks.Ask, several []limit.Ask) error {
	own := make([]asks.Ask, len(p.index))
	for j, i := range p.index {
		own[j] = all[i]
	}
	err := s.several(ctx, p.server, own, false)
	for j, i := range p.index {
		several[i].Decision = own[j].Answer
	}
	return err
}

// remembered answers what is known to be denied, and returns which are left to
// ask. An earlier ask for the same key may change what the answer says, so then
// Redis is asked.
func (s *store) remembered(all []asks.Ask, several []limit.Ask) (rest []int) {
	rest = make([]int, 0, len(all))
	for i := range all {
		a := &all[i]
		if s.memory != nil && s.answering.Load() {
			var denied bool
			a.Question, denied = s.memory.Get(&several[i].Decision, several[i].Key, a.Plan, a.Cost)
			for _, j := range rest {
				denied = denied && all[j].Key != a.Key
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
func (s *store) TakeAll(ctx context.Context, several []limit.Ask) (bound int, err error) {
	all, err := asks.Of(several)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	first, err := s.where.script(ctx, all[0].Key)
	for i := 1; i < len(all) && err == nil; i++ {
		var other any
		if other, err = s.where.script(ctx, all[i].Key); err == nil && other != first {
			err = errUnsupported
		}
	}
	if err != nil {
		return 0, err
	}
	if s.memory != nil { // what is denied together is not remembered, but what was taken is
		for i := range all {
			var d limit.Decision
			all[i].Question, _ = s.memory.Get(&d, several[i].Key, all[i].Plan, all[i].Cost)
		}
	}
	server, err := s.where.server(ctx, all[0].Key)
	if err != nil {
		return 0, fmt.Errorf("redis: %w", err)
	}
	if err := s.several(ctx, server, all, true); err != nil {
		return 0, err
	}
	return asks.Bind(several, all), nil
}
