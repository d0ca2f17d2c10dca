package redis_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// An injected clock outside the range stops at its end: it admits what the policy
// allows, once, however it goes on there.
func TestInjectedClockOutsideItsRange(t *testing.T) {
	t.Parallel()
	client := storeClient(t, redistest.Start(t).Addr)
	for _, at := range []int64{math.MinInt64, -1, 1 << 52, 1 << 53, math.MaxInt64} {
		s := redis.NewStore(client, redis.StoreOptions{Now: func() time.Time { return time.UnixMicro(at) }, RememberedKeys: -1})
		for _, p := range []limit.Policy{
			limit.TokenBucket{Capacity: 8, Refill: 1, Per: time.Second}, limit.FixedWindow{Limit: 8, Window: time.Minute},
			limit.SlidingWindow{Limit: 8, Window: time.Minute, Buckets: 4}, limit.SlidingLog{Limit: 8, Window: time.Minute},
		} {
			admitted := 0
			for range 20 {
				d, err := s.Take(context.Background(), []byte(fmt.Sprint(p, at)), p, 1)
				if err != nil {
					t.Fatalf("%v at %d: %v", p, at, err)
				}
				if d.Allowed {
					admitted++
				}
			}
			if admitted != 8 {
				t.Errorf("%v at %d: %d admitted of 8", p, at, admitted)
			}
		}
		held := 0
		for i := range 3 {
			d, err := s.Acquire(context.Background(), limit.Lease{Key: fmt.Sprint("slots", at), ID: fmt.Sprint(i)}, 2, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				held++
			}
		}
		if held != 2 {
			t.Errorf("at %d: %d hold 2 slots", at, held)
		}
	}
}
