package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A denied TakeAll leaves shared states unchanged, also while the capacity of a full
// store changes.
func TestDeniedTogetherWhileCapacityChanges(t *testing.T) {
	user := tokenBucket(t, 1_000_000, 1, time.Minute)
	tenant := tokenBucket(t, 1, 1, time.Hour)
	const now, keys = int64(1e15), 8 // the clock stands still
	s := New(Options{MaxKeys: keys, Shards: 64, Now: func() int64 { return now }})
	var d Answer
	for i := range keys {
		s.Take(&d, s.Hash(fmt.Append(nil, "fill", i)), user, 1)
	}
	ann, acme, other := s.Hash([]byte("ann")), s.Hash([]byte("acme")), s.Hash([]byte("other"))
	s.Take(&d, ann, user, 500_000)
	s.Take(&d, acme, tenant, 1) // drained
	s.Take(&d, other, user, 1)
	if _, _, shared := s.Figures(); shared != 3 {
		t.Fatalf("%d decisions on shared states, want 3", shared)
	}
	for i := range 4 { // capacity for the shared states, and for one key
		s.Reset(s.Hash(fmt.Append(nil, "fill", i)), user)
	}
	used := func() int64 {
		one, ok := s.shared.lock(user, ann.With(user.Salt))
		if !ok {
			return 0
		}
		defer one.mu.Unlock()
		state := one.load(user)
		units, _ := user.bucket.owed(state[0], state[1], now)
		return units / user.bucket.p
	}

	var stop atomic.Bool
	var toggling sync.WaitGroup
	toggling.Go(func() {
		var d Answer
		for n := 0; !stop.Load(); n++ {
			s.Take(&d, other, user, 1)
			for range n % 1000 {
				_ = s.space.Used()
			}
			s.Reset(other, user)
		}
	})
	defer toggling.Wait()
	defer stop.Store(true)
	answers := make([]Answer, 2)
	for round := range 50_000 {
		before := used()
		TakeAll([]Ask{{s, ann, user, 1, &answers[0]}, {s, acme, tenant, 1, &answers[1]}})
		if answers[0].Allowed {
			s.Reset(ann, user)
			s.Reset(acme, tenant)
		}
		if after := used(); after < before {
			t.Fatalf("round %d: %d of the shared state were used, and now %d", round, before, after)
		}
	}
}
