package denialcache_test

import (
	"testing"
	"time"

	"github.com/wskit/wskit/internal/denialcache"
	"github.com/wskit/wskit/limit"
)

// A clock that counts in milliseconds is behind by up to one millisecond. The cache
// accounts for that.
func TestCoarseClockIsRoundedToTheSafeSide(t *testing.T) {
	for _, c := range []struct {
		granularity time.Duration
		denied      bool
	}{{0, true}, {time.Millisecond, false}} {
		now := int64(0)
		m := denialcache.New(denialcache.Options{Granularity: c.granularity, Now: func() int64 { return now }})
		plan := compile(t, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second})
		s := &store{clock: skew / 1000 * 1000} // in truth 999 µs later
		s.take(plan, 1)
		var d limit.Decision
		q, _ := m.Get(&d, []byte("k"), plan, 1)
		d, state := s.take(plan, 1)
		q.Put(&d, state)
		now = 999_001 // when the store's clock shows the second
		if _, denied := m.Get(&d, []byte("k"), plan, 1); denied != c.denied {
			t.Errorf("granularity %v: %v, %+v", c.granularity, denied, d)
		}
	}
}

// A state that needs a correction is left to the store, so that the store corrects it. Here
// the rate was raised so far that a bucket cannot owe as much.
func TestStateThatNeedsCorrectionGoesToTheStore(t *testing.T) {
	now := int64(0)
	m := denialcache.New(denialcache.Options{Now: func() int64 { return now }})
	slow := compile(t, limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Minute})
	fast := compile(t, limit.TokenBucket{Capacity: 10, Refill: 10, Per: time.Second})
	s := &store{clock: skew}
	s.take(slow, 10)
	var d limit.Decision
	q, _ := m.Get(&d, []byte("k"), slow, 1)
	d, state := s.take(slow, 1)
	q.Put(&d, state)
	if _, denied := m.Get(&d, []byte("k"), slow, 1); !denied {
		t.Fatal("the denial is not cached")
	}
	if _, denied := m.Get(&d, []byte("k"), fast, 1); denied {
		t.Errorf("answered from memory: %+v", d)
	}
}
