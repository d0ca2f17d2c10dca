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
	grace  int64 // how much longer than its lease a slot is kept: see Options.Now
	shards [64]holdShard
}

type holdShard struct {
	mu   sync.Mutex
	keys map[string]*places
}

// places are the slots under a key, those included whose leases are over but that a
// clock that is set back would find again.
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
	shard.sweep(now, s.holds.grace)
	held, first := shard.look(slot.Key, now, s.holds.grace)
	if p := shard.keys[slot.Key]; p != nil && p.until[slot.ID] > now {
		held--
	}
	d = limit.Decision{Allowed: held < most, Limit: most, Remaining: max(0, most-held-1), At: now}
	if d.Allowed {
		until := now + lease.Microseconds()
		shard.hold(slot, until)
		first = min(first, until)
	}
	if first != math.MaxInt64 {
		d.ResetAfter = time.Duration(first-now) * time.Microsecond
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
	held, _ := shard.look(key, now, s.holds.grace)
	return held, nil
}

// HeldIDs implements [limit.Holder].
func (s *Store) HeldIDs(_ context.Context, key string, n int) (ids []string, err error) {
	shard := s.holds.lock(key)
	defer shard.mu.Unlock()
	p := shard.keys[key]
	if p == nil {
		return nil, nil
	}
	now := s.state.Now()
	for id, until := range p.until {
		if len(ids) == n {
			break
		}
		if until > now {
			ids = append(ids, id)
		}
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

func (s *holdShard) hold(slot limit.Slot, until int64) {
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
}

// look counts the slots of a key whose leases are not over, and says when the first of
// those ends, math.MaxInt64 without any. It drops the others once the grace has passed
// as well. It looks at every slot only when one may be over.
func (s *holdShard) look(key string, now, grace int64) (held, first int64) {
	p := s.keys[key]
	switch {
	case p == nil:
		return 0, math.MaxInt64
	case now < p.first:
		return int64(len(p.until)), p.first
	}
	first, p.first = math.MaxInt64, math.MaxInt64
	for id, until := range p.until {
		if until+grace <= now {
			delete(p.until, id)
			continue
		}
		p.first = min(p.first, until)
		if until > now {
			held++
			first = min(first, until)
		}
	}
	if len(p.until) == 0 {
		delete(s.keys, key)
	}
	return held, first
}

func (s *holdShard) sweep(now, grace int64) {
	n := 0
	for key := range s.keys { // in random order
		if n++; n > sweepKeys {
			return
		}
		s.look(key, now, grace)
	}
}
