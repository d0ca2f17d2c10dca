package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
)

// A message that takes a place and gives it back, beside one that is charged to a token bucket: in
// memory, among 10,000 users.
func BenchmarkConcurrency(b *testing.B) {
	users := make([]*ingress.Context, 10_000)
	for i := range users {
		users[i] = ann("chat.send")
		users[i].Identity.User += string(rune('0'+i%10)) + string(rune(0x4e00+i))
	}
	b.Run("take", func(b *testing.B) {
		h := ratelimit.New(limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 1 << 30, Refill: 1 << 20, Per: time.Second}), ratelimit.PerUser)(ingress.Pass)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := h(users[i%len(users)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("place", func(b *testing.B) {
		h := ratelimit.NewConcurrency(limit.NewConcurrencyLimit(memory.NewStore(), limit.ConcurrencyOptions{Max: 2}), ratelimit.PerUser)(ingress.Pass)
		ctx := context.Background()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			c := users[i%len(users)]
			_ = h(c)
			for _, g := range c.State.Guards { // as the router does around the handler
				if err := g.Begin(ctx); err != nil {
					b.Fatal(err)
				}
				g.End()
			}
			c.State.Guards = c.State.Guards[:0]
		}
	})
}
