package cfdo_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
)

// plenty admits everything, so that every decision is charged and written.
var plenty = limit.TokenBucket{Capacity: 1 << 30, Refill: 1 << 20, Per: time.Second}

// BenchmarkAlone is one caller: what a decision takes, on the runtime here and
// without a network.
func BenchmarkAlone(b *testing.B) {
	w := workerdtest.Start(b, workerdtest.Config{File: "production.capnp"})
	s := openStore(b, w.URL, cfdo.Options{})
	spend := limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}
	take(b, s, "spent", spend, 1)
	for _, c := range []struct {
		name   string
		decide func()
	}{
		{"allowed", func() { take(b, s, "alone", plenty, 1) }},
		{"remembered", func() { take(b, s, "spent", spend, 1) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.decide()
			}
		})
	}
}

// BenchmarkCallers is 64 callers with a key each: sharing requests, and with a
// request for every decision.
func BenchmarkCallers(b *testing.B) {
	w := workerdtest.Start(b, workerdtest.Config{File: "production.capnp"})
	const callers = 64
	for _, c := range []struct {
		name   string
		tenant func(string) string
		single bool
	}{
		{"combined/one object", func(string) string { return "bench" }, false},
		{"combined/four objects", func(string) string { return "big" }, false},
		{"combined/64 objects", func(key string) string { return key }, false},
		{"a request each/one object", func(string) string { return "bench" }, true},
		{"a request each/64 objects", func(key string) string { return key }, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			// A store for each caller never combines; their connections are kept.
			var stores []cfdo.Store
			for range callers {
				if len(stores) == 0 || c.single {
					stores = append(stores, openStore(b, w.URL, cfdo.Options{Tenant: c.tenant}))
				}
			}
			for i := range callers {
				take(b, stores[i%len(stores)], fmt.Sprint("caller", i), plenty, 1)
			}
			before := stores[0].Stats()
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range callers {
				key, s := fmt.Sprint("caller", i), stores[i%len(stores)]
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := s.Take(ctx, []byte(key), plenty, 1); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			if !c.single {
				st := stores[0].Stats()
				b.ReportMetric(float64(st.Asks-before.Asks)/float64(st.Requests-before.Requests), "decisions/request")
			}
		})
	}
}
