package engine

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/internal/table"
)

const (
	// sharedBytes times MaxKeys is how much memory all shared states may take. It is what
	// a key with its own state takes at most.
	sharedBytes = 54
	// leastShared is how many shared states a scope has at least.
	leastShared = 256
	// linger is how much longer shared states are kept, in microseconds, because the clock
	// for the charge of a bucket is read a little earlier.
	linger = 1e6
)

// sharedStates are the states that keys without their own state share, by scope. Those
// of a scope are made when one of its keys first finds the table full, and dropped when
// nothing in them counts any more.
//
// A key is charged to its shared state while its shard of the table is locked, and only
// while it has no state there. It gets its own state only when nothing in the shared one
// counts, and loses it only when nothing in it counts. So the deciding state never shows
// less than the key has used.
type sharedStates struct {
	mu     sync.Mutex // to make and to drop
	scopes atomic.Pointer[map[scope]*cells]
	budget int   // the bytes that are left
	grace  int64 // how long states are kept after nothing in them counts
}

// A scope is a limiter and its policy. States of different policies cannot be shared.
type scope struct {
	name   string
	policy fmt.Stringer
}

// of returns the shared states of a plan, or nil if there are none.
func (s *sharedStates) of(plan *Plan) *cells {
	scopes := s.scopes.Load()
	if scopes == nil || len(*scopes) == 0 {
		return nil
	}
	return (*scopes)[scope{plan.Scope, plan.Policy}]
}

// lock locks the shared state of a key. ok is false if its scope has none.
func (s *sharedStates) lock(plan *Plan, h table.Hash) (one cell, ok bool) {
	for {
		all := s.of(plan)
		if all == nil {
			return one, false
		}
		if one = all.lock(h); !one.dropped {
			return one, true
		}
		one.mu.Unlock()
	}
}

// begin makes the shared states of a plan, if there are none. A scope gets half of
// the memory that is left, so that later scopes get some too.
func (s *sharedStates) begin(plan *Plan, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of(plan) != nil {
		return
	}
	if scopes := s.scopes.Load(); scopes != nil {
		for of, all := range *scopes {
			s.drop(of, all, now)
		}
	}
	width := plan.packedWidth()
	all := newCells(max(leastShared, s.budget/2/(8*width)), width, now+linger)
	s.budget -= all.bytes()
	s.change(func(m map[scope]*cells) { m[scope{plan.Scope, plan.Policy}] = all })
}

// relieve drops the shared states of a plan if nothing in them counts.
func (s *sharedStates) relieve(plan *Plan, now int64) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if all := s.of(plan); all != nil {
		s.drop(scope{plan.Scope, plan.Policy}, all, now)
	}
}

// drop removes shared states in which nothing counts.
func (s *sharedStates) drop(of scope, all *cells, now int64) {
	if all.drop(now, s.grace, func() {
		s.change(func(m map[scope]*cells) { delete(m, of) })
	}) {
		s.budget += all.bytes()
	}
}

// change replaces the map by a changed one.
func (s *sharedStates) change(by func(map[scope]*cells)) {
	m := map[scope]*cells{}
	if old := s.scopes.Load(); old != nil {
		m = maps.Clone(*old)
	}
	by(m)
	s.scopes.Store(&m)
}
