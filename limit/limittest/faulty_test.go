package limittest_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

// plain is the simplest correct store: a map, a lock and a plan. Its hooks add faults.
type plain struct {
	mu    sync.Mutex
	state map[string][]int64
	reset map[string]int64 // when keys were reset
	clock *limittest.Clock
	fault fault
}

// A fault is a defect that some store once had.
type fault struct {
	name string
	// part is the part of the suite that must fail.
	part string
	// rule is the rule that the failure must name.
	rule string

	key      func(string) string
	now      func(int64) int64
	cost     func(int64) int64
	state    func(before, after []int64, d *limit.Decision, now int64) []int64
	decision func(*limit.Decision)
	unlocked bool

	load           func(before []int64, policy limit.Policy, now int64) []int64
	separate       bool // the parts of a composite are separate keys
	peek           func(s *plain, key []byte, policy limit.Policy, cost int64)
	refund         func(taken *limit.Decision, now int64)
	refunds        func(plan *limit.Plan, state []int64, now, reset int64, taken *limit.Decision) (next []int64, write bool)
	noReset        bool
	resetForgotten bool // refunds ignore resets
	reversed       bool // TakeMany takes the last ask first
	noTakeAll      bool // TakeAll answers that it is unsupported
	noUndo         bool // when an ask is denied, the earlier ones stay charged
}

func (s *plain) Take(_ context.Context, key []byte, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Compile(policy)
	if err != nil {
		return d, err
	}
	if s.fault.cost != nil {
		cost = s.fault.cost(cost)
	}
	if _, err := limit.Prepare(plan, cost); err != nil {
		return d, err
	}
	now := s.clock.Now().UnixMicro()
	if s.fault.now != nil {
		now = s.fault.now(now)
	}
	if s.fault.key != nil {
		key = []byte(s.fault.key(string(key)))
	}
	if parts := plan.Compiled().Parts; s.fault.separate && len(parts) > 1 {
		for i, part := range parts {
			if d, err = s.Take(context.Background(), fmt.Append(nil, key, "#", i), limit.Named(part.Name, part.Policy.(limit.Policy)), cost); err != nil || !d.Allowed {
				break
			}
		}
		return d, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.state[string(key)]
	if s.fault.load != nil {
		before = s.fault.load(before, plan.Compiled().Policy.(limit.Policy), now)
	}
	if s.fault.unlocked {
		s.mu.Unlock()
		runtime.Gosched() // others come between
		s.mu.Lock()
	}
	after, write := plan.Take(&d, append([]int64(nil), before...), now, cost)
	if !write {
		after = before
	}
	if s.fault.state != nil {
		after = s.fault.state(before, after, &d, now)
	}
	s.state[string(key)] = after
	if s.fault.decision != nil {
		s.fault.decision(&d)
	}
	return d, nil
}

func (s *plain) Peek(_ context.Context, key []byte, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Compile(policy)
	if err != nil {
		return d, err
	}
	if s.fault.peek != nil {
		s.fault.peek(s, key, policy, cost)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	plan.Peek(&d, s.state[string(key)], s.clock.Now().UnixMicro(), cost)
	return d, nil
}

func (s *plain) Refund(_ context.Context, key []byte, policy limit.Policy, taken limit.Decision) error {
	plan, err := limit.Compile(policy)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now().UnixMicro()
	if s.fault.refund != nil {
		s.fault.refund(&taken, now)
	}
	state, write := append([]int64(nil), s.state[string(key)]...), false
	if s.fault.refunds != nil {
		state, write = s.fault.refunds(plan, state, now, s.reset[string(key)], &taken)
	} else {
		state, _, write = plan.Refund(state, now, s.reset[string(key)], &taken)
	}
	if write {
		s.state[string(key)] = state
	}
	return nil
}

func (s *plain) Reset(_ context.Context, key []byte, policy limit.Policy) error {
	plan, err := limit.Compile(policy)
	if err != nil || s.fault.noReset {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now().UnixMicro()
	if plan.Reset(s.state[string(key)], now) > 0 && !s.fault.resetForgotten {
		s.reset[string(key)] = now
	}
	delete(s.state, string(key))
	return nil
}

func (s *plain) TakeMany(ctx context.Context, asks []limit.Ask) (err error) {
	for _, r := range asks {
		if _, err := limit.Prepare(r.Policy, r.Cost); err != nil {
			return err
		}
	}
	for i := range asks {
		if s.fault.reversed {
			i = len(asks) - 1 - i
		}
		r := &asks[i]
		if r.Decision, err = s.Take(ctx, r.Key, r.Policy, r.Cost); err != nil {
			return err
		}
	}
	return nil
}

func (s *plain) TakeAll(_ context.Context, asks []limit.Ask) (bound int, err error) {
	if s.fault.noTakeAll {
		return 0, errors.ErrUnsupported
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := s.clock.Now().UnixMicro(), maps.Clone(s.state)
	for i, r := range asks {
		plan, err := limit.Compile(r.Policy)
		if err != nil {
			return 0, err
		}
		state, write := plan.Take(&asks[i].Decision, slices.Clone(s.state[string(r.Key)]), now, r.Cost)
		if write {
			s.state[string(r.Key)] = state
		}
		if asks[i].Decision.Allowed {
			if asks[i].Decision.Remaining < asks[bound].Decision.Remaining {
				bound = i
			}
			continue
		}
		if !s.fault.noUndo {
			s.state = before
		}
		bound = i
		for j, r := range asks {
			plan, _ := limit.Compile(r.Policy)
			if j != i {
				plan.Peek(&asks[j].Decision, s.state[string(r.Key)], now, r.Cost)
			}
			if d := &asks[j].Decision; d.Impossible && !asks[bound].Decision.Impossible || d.Impossible == asks[bound].Decision.Impossible && d.RetryAfter > asks[bound].Decision.RetryAfter {
				bound = j
			}
			asks[j].Decision.Allowed, asks[j].Decision.Wait = false, 0
		}
		break
	}
	return bound, nil
}

func open(f fault) func(*testing.T) limittest.Subject {
	return func(*testing.T) limittest.Subject {
		clock := limittest.NewClock()
		return limittest.Subject{Store: &plain{state: map[string][]int64{}, reset: map[string]int64{}, clock: clock, fault: f}, Clock: clock}
	}
}
