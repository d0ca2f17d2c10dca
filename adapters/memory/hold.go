package memory

import (
	"context"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/wskit/wskit/limit"
)

var _ limit.Holder = (*Store)(nil)

// holds are the slots that are held. They take about 100 bytes each, and a key
// without slots takes none; limits bound how many there are.
type holds struct {
	seed   maphash.Seed
	shards [64]holdShard
}

type holdShard struct {
	mu   sync.Mutex
	keys map[string]*places
}

// places are the slots under a key.
type places struct {
	until map[string]int64 // by ID
	first int64            // no lease ends before this
}

// sweepKeys is how many other keys an acquisition looks at for leases that are
// over: holders that are gone leave nothing for ever.
const sweepKeys = 4

func (h *holds) lock(key string) *holdShard {
	s := &h.shards[maphash.String(h.seed, key)%uint64(len(h.shards))]
	s.mu.Lock()
	return s
}

// Acquire implements [limit.Holder].
func (s *Store) Acquire(_ context.Context, slot limit.Slot, most int64, lease time.Duration) (d limit.Decision, err error) {
	if err := limit.CheckHold(most, lease); err != nil {
		return d, err
	}
	shard := s.holds.lock(slot.Key)
	defer shard.mu.Unlock()
	now := s.state.Now()
	shard.sweep(now)
	p := shard.expire(slot.Key, now)
	held := int64(0)
	if p != nil {
		held = int64(len(p.until))
		if _, again := p.until[slot.ID]; again {
			held--
		}
	}
	d = limit.Decision{Allowed: held < most, Limit: most, Remaining: max(0, most-held-1), At: now}
	if d.Allowed {
		p = shard.hold(slot, now+lease.Microseconds())
	}
	if p != nil {
		d.ResetAfter = time.Duration(p.first-now) * time.Microsecond
	}
	return d, nil
}

// Renew implements [limit.Holder].
func (s *Store) Renew(_ context.Context, slots []limit.Slot, lease time.Duration) error {
	if err := limit.CheckHold(1, lease); err != nil {
		return err
	}
	until := s.state.Now() + lease.Microseconds()
	for _, slot := range slots {
		shard := s.holds.lock(slot.Key)
		shard.hold(slot, until)
		shard.mu.Unlock()
	}
	return nil
}

// Release implements [limit.Holder].
func (s *Store) Release(_ context.Context, slots []limit.Slot) error {
	for _, slot := range slots {
		shard := s.holds.lock(slot.Key)
		if p := shard.keys[slot.Key]; p != nil {
			delete(p.until, slot.ID)
			if len(p.until) == 0 {
				delete(shard.keys, slot.Key)
			}
		}
		shard.mu.Unlock()
	}
	return nil
}

// Held implements [limit.Holder].
func (s *Store) Held(_ context.Context, key string) (int64, error) {
	shard := s.holds.lock(key)
	defer shard.mu.Unlock()
	now := s.state.Now()
	if p := shard.expire(key, now); p != nil {
		return int64(len(p.until)), nil
	}
	return 0, nil
}

// HeldIDs implements [limit.Holder].
func (s *Store) HeldIDs(_ context.Context, key string, n int) (ids []string, err error) {
	shard := s.holds.lock(key)
	defer shard.mu.Unlock()
	p := shard.expire(key, s.state.Now())
	if p == nil {
		return nil, nil
	}
	for id := range p.until {
		if len(ids) == n {
			break
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// held counts all slots, those whose lease is over included.
func (h *holds) held() (n int) {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		for _, p := range s.keys {
			n += len(p.until)
		}
		s.mu.Unlock()
	}
	return n
}

func (s *holdShard) hold(slot limit.Slot, until int64) *places {
	p := s.keys[slot.Key]
	if p == nil {
		p = &places{until: make(map[string]int64, 1), first: math.MaxInt64}
		if s.keys == nil {
			s.keys = make(map[string]*places)
		}
		s.keys[slot.Key] = p
	}
	p.until[slot.ID] = until
	p.first = min(p.first, until)
	return p
}

// expire drops the slots of a key whose lease is over and returns what is left, or
// nil. It looks at all of them only when one may be.
func (s *holdShard) expire(key string, now int64) *places {
	p := s.keys[key]
	if p == nil || now < p.first {
		return p
	}
	p.first = math.MaxInt64
	for id, until := range p.until {
		if until <= now {
			delete(p.until, id)
		} else {
			p.first = min(p.first, until)
		}
	}
	if len(p.until) == 0 {
		delete(s.keys, key)
		return nil
	}
	return p
}

func (s *holdShard) sweep(now int64) {
	n := 0
	for key := range s.keys { // in random order
		if n++; n > sweepKeys {
			return
		}
		s.expire(key, now)
	}
}
