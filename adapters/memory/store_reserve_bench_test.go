package memory_test

import (
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// BenchmarkReserve is a take, and a reservation that is settled with less, for keys that have state.
// Both together may take 2.2 times as long as one.
func BenchmarkReserve(b *testing.B) {
	for name, p := range map[string]limit.Policy{
		"bucket": limit.TokenBucket{Capacity: 1_000_000, Refill: 1_000_000, Per: time.Second},
		"window": limit.FixedWindow{Limit: 1 << 40, Window: time.Hour},
	} {
		l := limit.New(memory.NewStore(memory.Options{}), p)
		keys := make([]limit.Key, 1000)
		for i := range keys {
			keys[i] = l.Key(nil).Int(int64(i))
			l.Take(ctx, keys[i], 1)
		}
		b.Run(name+"/take", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.Take(ctx, keys[i%1000], 3)
			}
		})
		b.Run(name+"/reserve+settle", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r, _, _ := l.Reserve(ctx, keys[i%1000], 3)
				r.Settle(ctx, 1)
			}
		})
	}
}
