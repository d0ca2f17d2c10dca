package cfdo

import (
	"context"
	"fmt"

	"github.com/wskit/wskit/limit"
)

// Peek implements [limit.ExtendedStore]. It is always a request.
func (s *store) Peek(ctx context.Context, key []byte, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Prepare(policy, cost)
	if err != nil {
		return d, err
	}
	it := s.trips.Item()
	it.Value.begin(opPeek)
	a := it.Value.add(s, string(key), plan, cost)
	if err := s.trips.Do(ctx, it); err != nil {
		return d, err
	}
	d = a.answer
	d.RetryAfter = roundUp(d.RetryAfter, s.tick)
	s.trips.Free(it)
	return d, nil
}

// Refund implements [limit.ExtendedStore].
func (s *store) Refund(ctx context.Context, key []byte, policy limit.Policy, taken limit.Decision) error {
	if taken.Charged < 1 {
		_, err := limit.Compile(policy)
		return err
	}
	return s.change(ctx, opRefund, key, policy, taken)
}

// Reset implements [limit.ExtendedStore].
func (s *store) Reset(ctx context.Context, key []byte, policy limit.Policy) error {
	return s.change(ctx, opReset, key, policy, limit.Decision{})
}

// change asks for what makes a remembered denial wrong, and forgets that whether
// or not it is known to have been done.
func (s *store) change(ctx context.Context, op operation, key []byte, policy limit.Policy, taken limit.Decision) error {
	plan, err := limit.Compile(policy)
	if err != nil {
		return err
	}
	it := s.trips.Item()
	it.Value.begin(op)
	it.Value.add(s, string(key), plan, 1)
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

// TakeMany implements [limit.ManyTaker]: at one instant for the keys of an object, whose
// order is kept. At most 64 asks may be given. When an object fails, the error is that, and
// others may have charged.
func (s *store) TakeMany(ctx context.Context, asks []limit.Ask) error {
	if err := checkMany(len(asks)); err != nil || len(asks) == 0 {
		return err
	}
	it := s.trips.Item()
	it.Value.begin(opTake)
	denied, err := s.fill(&it.Value, asks)
	if err != nil || denied == len(asks) {
		s.trips.Free(it)
		return err
	}
	// One that is remembered to be denied is asked again with the others: its
	// answer depends on what those before it take.
	if err := s.trips.Do(ctx, it); err != nil {
		return err
	}
	s.spill(&it.Value, asks)
	s.trips.Free(it)
	return nil
}

// TakeAll implements [limit.ManyTaker] for keys in one object; for others the error is
// errors.ErrUnsupported and nothing was charged. It always makes a request, because a remembered
// denial does not tell what the other costs would have got.
func (s *store) TakeAll(ctx context.Context, asks []limit.Ask) (bound int, err error) {
	if err := checkMany(len(asks)); err != nil || len(asks) == 0 {
		return 0, err
	}
	it := s.trips.Item()
	it.Value.begin(opAll)
	if _, err := s.fill(&it.Value, asks); err != nil {
		s.trips.Free(it)
		return 0, err
	}
	if err := s.trips.Do(ctx, it); err != nil {
		return 0, err
	}
	s.spill(&it.Value, asks)
	bound = it.Value.bound
	s.trips.Free(it)
	return bound, nil
}

// fill checks all asks and adds them to the call. It returns how many are remembered to be
// denied, whose decisions it fills in.
func (s *store) fill(c *call, asks []limit.Ask) (denied int, err error) {
	for i := range asks {
		a := &asks[i]
		plan, err := limit.Prepare(a.Policy, a.Cost)
		if err != nil {
			return denied, err
		}
		q, known := s.remembered(&a.Decision, a.Key, plan, a.Cost)
		if known {
			denied++
		}
		c.add(s, string(a.Key), plan, a.Cost).question = q
	}
	return denied, nil
}

// spill caches the answers and fills in the decisions.
func (s *store) spill(c *call, asks []limit.Ask) {
	for i := range c.asks {
		s.settle(&c.asks[i])
		asks[i].Decision = c.asks[i].answer
	}
}

// maxKeysAtOnce is the largest number of asks in one call.
const maxKeysAtOnce = 64

func checkMany(asks int) error {
	if asks > maxKeysAtOnce {
		return fmt.Errorf("cfdo: %d asks in one call; at most %d are allowed", asks, maxKeysAtOnce)
	}
	return nil
}
