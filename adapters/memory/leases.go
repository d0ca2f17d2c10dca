package memory

import (
	"context"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/wskit/wskit/internal/leasecheck"
	"github.com/wskit/wskit/limit"
)

// leases are those that are held. They take about 100 bytes each, and a key without
// leases takes none; concurrency limits bound how many there are.
type leases struct {
	seed   maphash.Seed
	grace  int64 // how much longer than it lasts a lease is kept: see Options.Now
	shards [64]leaseShard
}

type leaseShard struct {
	mu    sync.Mutex
	keys  map[string]*leasesOf
	spare *leasesOf // empty, of the latest key that has none any more, for the next one; or nil
}

// leasesOf are the leases under one key, those included that have ended but would last
// again if the clock were set back.
type leasesOf struct {
	until map[string]int64 // by ID
	first int64            // no lease ends before this
	grown bool             // it has had more than maxSpare
}

// sweepKeys is how many other keys Acquire looks at for leases that have ended, so that
// what was never released does not stay for ever.
const sweepKeys = 4

func (h *leases) lock(key string) *leaseShard {
	s := &h.shards[maphash.String(h.seed, key)%uint64(len(h.shards))]
	s.mu.Lock()
	return s
}

// Acquire implements [limit.LeaseStore].
func (s *store) Acquire(_ context.Context, lease limit.Lease, most int64, leaseTime time.Duration) (d limit.Decision, err error) {
	if err := leasecheck.Check(most, leaseTime); err != nil {
		return d, err
	}
	shard := s.leases.lock(lease.Key)
	defer shard.mu.Unlock()
	now := s.state.Now()
	shard.sweep(now, s.leases.grace)
	held, first := shard.look(lease.Key, now, s.leases.grace)
	if p := shard.keys[lease.Key]; p != nil && p.until[lease.ID] > now {
		held--
	}
	d = limit.Decision{Allowed: held < most, Limit: most, Remaining: max(0, most-held-1), At: now}
	if d.Allowed {
		until := now + leaseTime.Microseconds()
		shard.extend(lease, until)
		first = min(first, until)
	}
	if first != math.MaxInt64 {
		d.ResetAfter = time.Duration(first-now) * time.Microsecond
	}
	return d, nil
}

// Renew implements [limit.LeaseStore].
func (s *store) Renew(_ context.Context, leases []limit.Lease, leaseTime time.Duration) error {
	if err := leasecheck.Check(1, leaseTime); err != nil {
		return err
	}
	until := s.state.Now() + leaseTime.Microseconds()
	for _, lease := range leases {
		shard := s.leases.lock(lease.Key)
		shard.extend(lease, until)
		shard.mu.Unlock()
	}
	return nil
}

// Release implements [limit.LeaseStore].
func (s *store) Release(_ context.Context, leases []limit.Lease) error {
	for _, lease := range leases {
		shard := s.leases.lock(lease.Key)
		if p := shard.keys[lease.Key]; p != nil {
			delete(p.until, lease.ID)
			if len(p.until) == 0 {
				shard.drop(lease.Key, p)
			}
		}
		shard.mu.Unlock()
	}
	return nil
}

// Held implements [limit.LeaseStore].
func (s *store) Held(_ context.Context, key string, n int) (count int64, ids []string, err error) {
	shard := s.leases.lock(key)
	defer shard.mu.Unlock()
	now := s.state.Now()
	count, _ = shard.look(key, now, s.leases.grace)
	if int64(n) > count {
		n = int(count)
	}
	if n > 0 {
		for id, until := range shard.keys[key].until {
			if len(ids) == n {
				break
			}
			if until > now {
				ids = append(ids, id)
			}
		}
	}
	return count, ids, nil
}

// held counts all leases, those included that have ended.
func (h *leases) held() (n int) {
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

func (s *leaseShard) extend(lease limit.Lease, until int64) {
	p := s.keys[lease.Key]
	if p == nil {
		if p, s.spare = s.spare, nil; p == nil {
			p = &leasesOf{until: make(map[string]int64, 1)}
		}
		p.first = math.MaxInt64
		if s.keys == nil {
			s.keys = make(map[string]*leasesOf)
		}
		s.keys[lease.Key] = p
	}
	p.until[lease.ID] = until
	p.grown = p.grown || len(p.until) > maxSpare
	p.first = min(p.first, until)
}

// maxSpare is how many leases a key may have had whose map is used again: maps do not shrink.
const maxSpare = 8

// drop removes a key that has no leases.
func (s *leaseShard) drop(key string, p *leasesOf) {
	delete(s.keys, key)
	if !p.grown {
		s.spare = p
	}
}

// look counts the leases of a key that last, and says when the first of them ends,
// math.MaxInt64 without any. It drops the others once the grace has passed as well. It
// looks at every lease only when one may have ended.
func (s *leaseShard) look(key string, now, grace int64) (held, first int64) {
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
		s.drop(key, p)
	}
	return held, first
}

func (s *leaseShard) sweep(now, grace int64) {
	n := 0
	for key := range s.keys { // in random order
		if n++; n > sweepKeys {
			return
		}
		s.look(key, now, grace)
	}
}
