package memory_test

import (
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// 64 goroutines take from one key and give everything back: nothing is lost. Each
// charge must be noted at the instant that its decision carries, whichever
// goroutine gets the lock first.
func TestRefundsOfOneKeyAtOnce(t *testing.T) {
	const callers, rounds = 64, 200
	const most = 2 * callers
	plenty := limit.TokenBucket{Capacity: 1 << 20, Refill: 1 << 20, Per: time.Second}
	for name, p := range map[string]limit.Policy{
		"log":     limit.SlidingLog{Limit: most, Window: time.Hour},
		"fixed":   limit.FixedWindow{Limit: most, Window: 10000 * time.Hour},
		"sliding": limit.SlidingWindow{Limit: most, Window: 10000 * time.Hour, Buckets: 4},
		"all":     limit.All(limit.SlidingLog{Limit: most, Window: time.Hour}, limit.FixedWindow{Limit: most, Window: 10000 * time.Hour}),
	} {
		t.Run(name, func(t *testing.T) {
			s := memory.NewStore()
			plan, other := compile(t, p), compile(t, plenty)
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for range rounds {
						var d [2]limit.Decision
						switch i % 3 {
						case 0:
							d[0], _ = s.Take(ctx, []byte("key"), plan, 1)
						case 1:
							asks := []limit.Ask{{Key: []byte("key"), Policy: plan, Cost: 1}, {Key: []byte("key"), Policy: plan, Cost: 1}}
							s.TakeMany(ctx, asks)
							d = [2]limit.Decision{asks[0].Decision, asks[1].Decision}
						case 2:
							asks := []limit.Ask{{Key: []byte("key"), Policy: plan, Cost: 1}, {Key: []byte("other"), Policy: other, Cost: 1}}
							s.TakeAll(ctx, asks)
							d[0] = asks[0].Decision
						}
						for _, taken := range d {
							s.Refund(ctx, []byte("key"), plan, taken)
						}
					}
				})
			}
			wg.Wait()
			if d, _ := s.Peek(ctx, []byte("key"), plan, 1); d.Remaining != most {
				t.Errorf("after everything was given back, %d of %d remain", d.Remaining, most)
			}
		})
	}
}

// A charge at the first instant that a clock has is given back like any other.
func TestRefundAtInstantZero(t *testing.T) {
	t.Parallel()
	for _, p := range []limit.Policy{
		limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Hour}, limit.FixedWindow{Limit: 5, Window: time.Hour},
		limit.SlidingWindow{Limit: 5, Window: time.Hour}, limit.SlidingLog{Limit: 5, Window: time.Hour},
	} {
		s := memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }})
		plan, err := limit.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.Take(t.Context(), []byte("k"), plan, 5)
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		if err := s.Refund(t.Context(), []byte("k"), plan, d); err != nil {
			t.Fatal(err)
		}
		if d, err := s.Take(t.Context(), []byte("k"), plan, 5); err != nil || !d.Allowed {
			t.Errorf("%v: after the refund %+v, %v", p, d, err)
		}
	}
}
