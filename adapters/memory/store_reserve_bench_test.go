package memory_test

import (
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// BenchmarkReserve is how many times as long as a take a reservation takes that is settled with less,
// for keys that have state: at most 2.2. Both take turns, and the fastest turns are compared, so that
// another process on the machine changes little.
func BenchmarkReserve(b *testing.B) {
	const keys, turn = 1000, 1000
	bucket := limit.TokenBucket{Capacity: 1_000_000, Refill: 1_000_000, Per: time.Second}
	window := limit.FixedWindow{Limit: 1 << 40, Window: time.Hour}
	for _, kind := range []struct {
		name   string
		policy limit.Policy
	}{
		{"bucket", bucket},
		{"pacer", limit.Pacer{Burst: 1_000_000, Refill: 1_000_000, Per: time.Second, MaxWait: time.Second}},
		{"window", window},
		{"sliding", limit.SlidingWindow{Limit: 2_000_000, Window: time.Minute, Buckets: 4}},
		{"log", limit.SlidingLog{Limit: 300, Window: 20 * time.Millisecond}},
		{"bucket+window", limit.All(bucket, window)},
	} {
		b.Run(kind.name, func(b *testing.B) {
			l := limit.New(memory.NewStore(), kind.policy)
			all := make([]limit.Key, keys)
			for i := range all {
				all[i] = l.Key(nil).Int(int64(i))
				l.Take(ctx, all[i], 1)
			}
			fastest := [2]time.Duration{1 << 62, 1 << 62}
			do := func(i int, f func(key limit.Key)) {
				start := b.Elapsed()
				for n := range turn {
					f(all[n%keys])
				}
				fastest[i] = min(fastest[i], b.Elapsed()-start)
			}
			take := func(key limit.Key) { l.Take(ctx, key, 3) }
			reserve := func(key limit.Key) {
				r, _, _ := l.Reserve(ctx, key, 3)
				r.Settle(ctx, 1)
			}
			b.ReportAllocs()
			for b.Loop() {
				do(0, take)
				do(1, reserve)
			}
			b.ReportMetric(float64(fastest[0])/turn, "ns/take")
			b.ReportMetric(float64(fastest[1])/turn, "ns/settled")
			b.ReportMetric(float64(fastest[1])/float64(fastest[0]), "ratio")
		})
	}
}
