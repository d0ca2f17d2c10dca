package cfdo

import (
	"context"
	"fmt"

	"github.com/wskit/wskit/limit"
)

// Peek implements [limit.Peeker]. It always asks.
func (s *Store) Peek(ctx context.Context, key string, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Prepare(policy, cost)
	if err != nil {
		return d, err
	}
	it := s.trips.Item()
	it.Value.begin(opPeek)
	a := it.Value.add(s, key, plan, cost)
	if err := s.trips.Do(ctx, it); err != nil {
		return d, err
	}
	d = a.answer
	d.RetryAfter = roundUp(d.RetryAfter, s.tick)
	s.trips.Free(it)
	return d, nil
}

// Refund implements [limit.Refunder].
func (s *Store) Refund(ctx context.Context, key string, policy limit.Policy, taken limit.Decision) error {
	if taken.Charged < 1 {
		_, err := limit.Compile(policy)
		return err
	}
	return s.change(ctx, opRefund, key, policy, taken)
}

// Reset implements [limit.Resetter].
func (s *Store) Reset(ctx context.Context, key string, policy limit.Policy) error {
	return s.change(ctx, opReset, key, policy, limit.Decision{})
}

// change asks for what makes a remembered denial wrong, and forgets that whether
// or not it is known to have been done.
func (s *Store) change(ctx context.Context, op operation, key string, policy limit.Policy, taken limit.Decision) error {
	plan, err := limit.Compile(policy)
	if err != nil {
		return err
	}
	it := s.trips.Item()
	it.Value.begin(op)
	it.Value.add(s, key, plan, 1)
	it.Value.taken = taken
	err = s.trips.Do(ctx, it)
	if err == nil {
		s.trips.Free(it)
	}
	if s.denials != nil {
		s.denials.Invalidate(key, plan)
	}
	return err
}

// TakeMany implements [limit.ManyTaker]: at one instant for the keys of an object,
// whose order is kept. At most [limit.MaxAsks] requests may be given. When an
// object fails, the error is that, and others may have charged.
func (s *Store) TakeMany(ctx context.Context, requests []limit.Request, answers []limit.Decision) error {
	if err := checkMany(len(requests), len(answers)); err != nil || len(requests) == 0 {
		return err
	}
	it := s.trips.Item()
	it.Value.begin(opTake)
	denied, err := s.fill(&it.Value, requests, answers)
	if err != nil || denied == len(requests) {
		s.trips.Free(it)
		return err
	}
	// One that is remembered to be denied is asked again with the others: its
	// answer depends on what those before it take.
	if err := s.trips.Do(ctx, it); err != nil {
		return err
	}
	s.spill(&it.Value, answers)
	s.trips.Free(it)
	return nil
}

// TakeAll implements [limit.AllTaker] for keys in one object; for others the
// error is errors.ErrUnsupported and nothing was charged. It always asks: the
// answers to what would have fitted are not known otherwise.
func (s *Store) TakeAll(ctx context.Context, requests []limit.Request, answers []limit.Decision) (bound int, err error) {
	if err := checkMany(len(requests), len(answers)); err != nil || len(requests) == 0 {
		return 0, err
	}
	it := s.trips.Item()
	it.Value.begin(opAll)
	if _, err := s.fill(&it.Value, requests, answers); err != nil {
		s.trips.Free(it)
		return 0, err
	}
	if err := s.trips.Do(ctx, it); err != nil {
		return 0, err
	}
	s.spill(&it.Value, answers)
	bound = it.Value.bound
	s.trips.Free(it)
	return bound, nil
}

// fill checks all requests and adds them to the call. It returns how many are
// remembered to be denied, whose answers it fills in.
func (s *Store) fill(c *call, requests []limit.Request, answers []limit.Decision) (denied int, err error) {
	for i, r := range requests {
		plan, err := limit.Prepare(r.Policy, r.Cost)
		if err != nil {
			return denied, err
		}
		q, known := s.remembered(&answers[i], r.Key, plan, r.Cost)
		if known {
			denied++
		}
		c.add(s, string(r.Key), plan, r.Cost).question = q
	}
	return denied, nil
}

// spill learns from the answers and hands them out.
func (s *Store) spill(c *call, answers []limit.Decision) {
	for i := range c.asks {
		s.settle(&c.asks[i])
		answers[i] = c.asks[i].answer
	}
}

func checkMany(requests, answers int) error {
	if err := limit.CheckAnswers(requests, answers); err != nil {
		return err
	}
	if requests > limit.MaxAsks {
		return fmt.Errorf("cfdo: %d requests in one call; at most %d are allowed", requests, limit.MaxAsks)
	}
	return nil
}
