package engine

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/wskit/wskit/internal/table"
)

const (
	// sharedBytes is how much memory all shared states may take, for each of MaxKeys:
	// what a key with state of its own takes at most.
	sharedBytes = 54
	// leastShared is how many shared states a scope has at least.
	leastShared = 256
	// linger is how much longer shared states are kept, in microseconds, for a bucket
	// is charged by a clock that was read a little earlier.
	linger = 1e6
)

// sharedStates are those that keys without state of their own share, by scope. Those
// of a scope are made when one of its keys first finds no room, and given up once
// nothing in them counts any more.
//
// A key is charged to its shared state under the lock of its own place in the table,
// and only while it has no state there. State of its own begins only when the shared
// one counts for nothing, and ends only when it counts for nothing itself. So what
// decides never says less than what the key has used.
type sharedStates struct {
	mu     sync.Mutex // to make and to drop
	scopes atomic.Pointer[map[scope]*cells]
	budget int   // in bytes, that is left
	grace  int64 // for which states are kept after nothing in them counts
}

// scope is a limiter and its policy: states under other numbers mean nothing here.
type scope struct {
	name   string
	policy fmt.Stringer
}

// of returns the shared states for a plan, or nil while there are none.
func (s *sharedStates) of(plan *Plan) *cells {
	scopes := s.scopes.Load()
	if scopes == nil || len(*scopes) == 0 {
		return nil
	}
	return (*scopes)[scope{plan.Scope, plan.Policy}]
}

// lock locks the state that a key shares; ok is false while its scope has none.
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

// begin makes the shared states for a plan, if there are none. A scope gets half of
// the memory that is left, so that there is some for every other.
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

// relieve gives up the shared states for a plan, if nothing in them counts.
func (s *sharedStates) relieve(plan *Plan, now int64) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if all := s.of(plan); all != nil {
		s.drop(scope{plan.Scope, plan.Policy}, all, now)
	}
}

// drop gives up shared states in which nothing counts.
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
