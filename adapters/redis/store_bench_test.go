package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// What a decision costs, by how many ask at a time and for how many keys.
func BenchmarkTake(b *testing.B) {
	server := redistest.Start(b)
	plan, err := limit.Compile(limit.TokenBucket{Capacity: 1e6, Refill: 1e6, Per: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct{ callers, keys int }{{1, 10_000}, {64, 10_000}, {256, 10_000}, {64, 1}} {
		b.Run(fmt.Sprintf("callers=%d/keys=%d", c.callers, c.keys), func(b *testing.B) {
			s := redis.NewStore(storeClient(b, server.Addr))
			keys := make([][]byte, c.keys)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "wskit:chat:u:acme:%06d:chat.send", i)
			}
			b.ReportAllocs()
			var next atomic.Int64
			var wait sync.WaitGroup
			for range c.callers {
				wait.Go(func() {
					for {
						n := next.Add(1)
						if n > int64(b.N) {
							return
						}
						if _, err := s.Take(context.Background(), keys[int(n*2654435761>>7)%len(keys)], plan, 1); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wait.Wait()
			b.ReportMetric(float64(s.Stats().Sent)/float64(max(1, s.Stats().Trips)), "calls/trip")
		})
	}
}
