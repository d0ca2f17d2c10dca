package memory_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

func compile(t testing.TB, p limit.Policy) *limit.Plan {
	plan, err := limit.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// shuffled returns n keys in random order, as traffic finds them.
func shuffled(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%08d", i)
	}
	rand.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// BenchmarkTake is the time of one decision for keys that have state: one hot
// key, and growing numbers of keys in random order.
func BenchmarkTake(b *testing.B) {
	plan := compile(b, limit.TokenBucket{Capacity: 1_000_000, Refill: 1_000_000, Per: time.Second})
	for _, n := range []int{1, 10_000, 100_000, 1_000_000} {
		keys := shuffled(n)
		s := memory.NewStore()
		for _, k := range keys {
			s.Take(ctx, []byte(k), plan, 1)
		}
		b.Run(fmt.Sprintf("serial/keys=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.Take(ctx, []byte(keys[i]), plan, 1)
				if i++; i == n {
					i = 0
				}
			}
		})
		b.Run(fmt.Sprintf("parallel/keys=%d", n), func(b *testing.B) {
			var start atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				i := int(start.Add(7919)) % n
				for pb.Next() {
					s.Take(ctx, []byte(keys[i]), plan, 1)
					if i++; i == n {
						i = 0
					}
				}
			})
		})
	}
}

// BenchmarkPolicies is the time of one decision by every policy and by several
// at once, for 10,000 keys that have state.
func BenchmarkPolicies(b *testing.B) {
	const n = 10_000
	big := limit.TokenBucket{Capacity: 1_000_000, Refill: 1_000_000, Per: time.Second}
	for _, c := range []struct {
		name   string
		policy limit.Policy
	}{
		{"bucket", big},
		{"pacer", limit.Pacer{Burst: 1_000_000, Refill: 1_000_000, Per: time.Second, MaxWait: time.Second}},
		{"fixed", limit.FixedWindow{Limit: 1 << 40, Window: time.Second}},
		{"sliding1", limit.SlidingWindow{Limit: 1 << 30, Window: time.Second}},
		{"sliding10", limit.SlidingWindow{Limit: 1 << 30, Window: time.Second, Buckets: 10}},
		{"log", limit.SlidingLog{Limit: 100, Window: time.Second}},
		{"all3", limit.All(big, limit.TokenBucket{Capacity: 1 << 30, Refill: 999_983, Per: time.Second}, limit.TokenBucket{Capacity: 1 << 28, Refill: 1_000_000, Per: time.Second})},
		{"all3windows", limit.All(big, limit.FixedWindow{Limit: 1 << 40, Window: time.Minute}, limit.FixedWindow{Limit: 1 << 40, Window: 24 * time.Hour})},
	} {
		b.Run(c.name, func(b *testing.B) {
			plan := compile(b, c.policy)
			keys := shuffled(n)
			s := memory.NewStore()
			for _, k := range keys {
				s.Take(ctx, []byte(k), plan, 1)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.Take(ctx, []byte(keys[i]), plan, 1)
				if i++; i == n {
					i = 0
				}
			}
		})
	}
}

// BenchmarkTogether is the time of one step for two keys, all or none.
func BenchmarkTogether(b *testing.B) {
	plan := compile(b, limit.TokenBucket{Capacity: 1_000_000, Refill: 1_000_000, Per: time.Second})
	s := memory.NewStore()
	asks := []limit.Ask{{Key: []byte("user:ann"), Policy: plan, Cost: 1}, {Key: []byte("tenant:acme"), Policy: plan, Cost: 1}}
	b.Run("TakeMany", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.TakeMany(ctx, asks)
		}
	})
	b.Run("TakeAll", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.TakeAll(ctx, asks)
		}
	})
}
