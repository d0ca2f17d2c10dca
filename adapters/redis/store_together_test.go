package redis_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// Several costs together, of several policies, keys more than once among them,
// under a clock that is set back: the script does what happens in a process. Half
// of the time these are buckets alone, which the script has a faster way for, and
// where each is charged by itself, they are of several rates on one state.
func TestStoreDecidesTogetherAsInProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := storeClient(t, server.Addr)
	const buckets = 3
	var plans []*limit.Plan
	for _, p := range []limit.Policy{
		limit.TokenBucket{Capacity: 9, Refill: 7, Per: 3 * time.Second}, limit.TokenBucket{Capacity: 20, Refill: 5, Per: 7 * time.Second},
		limit.Pacer{Burst: 3, Refill: 2, Per: time.Second, MaxWait: 2 * time.Second}, limit.FixedWindow{Limit: 8, Window: 5 * time.Second},
		limit.SlidingWindow{Limit: 8, Window: 6 * time.Second, Buckets: 3}, limit.SlidingLog{Limit: 7, Window: 4 * time.Second},
		limit.All(limit.TokenBucket{Capacity: 5, Refill: 3, Per: time.Second}, limit.SlidingLog{Limit: 6, Window: 3 * time.Second}),
	} {
		plan, err := limit.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, plan)
	}
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		now := int64(1_795_219_200_000_007)
		s := redis.NewStore(client, redis.StoreOptions{Now: func() time.Time { return time.UnixMicro(now) }})
		local := engine.New(engine.Options{MaxKeys: 1000, Shards: 1, Grace: (240 * time.Hour).Microseconds(), Now: func() int64 { return now }})
		for range 25 {
			now += rapid.OneOf(rapid.Int64Range(0, 800_000), rapid.Int64Range(0, 5_000_000), rapid.SampledFrom([]int64{-1, -30_000_000, -60_000_001, -100_000_000})).Draw(t, "advance")
			var requests []limit.Ask
			var asks []engine.Ask
			together := rapid.Bool().Draw(t, "together")
			kinds, most := len(plans), 5
			if rapid.Bool().Draw(t, "buckets only") {
				kinds, most = buckets, 20
			}
			for range rapid.IntRange(1, most).Draw(t, "asks") {
				i := rapid.IntRange(0, kinds-1).Draw(t, "plan")
				state := i
				if !together {
					state = max(i, buckets-1)
				}
				key := fmt.Appendf(nil, "together%d:%t:%d:%d", run, together, state, rapid.IntRange(0, 1).Draw(t, "key"))
				cost := rapid.OneOf(rapid.Int64Range(1, 4), rapid.Int64Range(1, 10)).Draw(t, "cost")
				requests = append(requests, limit.Ask{Key: key, Policy: plans[i], Cost: cost})
				asks = append(asks, engine.Ask{Engine: local, Hash: local.Hash(key), Plan: plans[i].Compiled(), Cost: cost})
			}
			got, want := make([]limit.Decision, len(requests)), make([]limit.Decision, len(requests))
			if together {
				bound, err := s.TakeAll(t.Context(), requests)
				if err != nil {
					t.Fatal(err)
				}
				for i := range asks {
					asks[i].Answer = (*engine.Answer)(&want[i])
				}
				if b := engine.TakeAll(asks); b != bound {
					t.Fatalf("bound %d, want %d", bound, b)
				}
			} else {
				if err := s.TakeMany(t.Context(), requests); err != nil {
					t.Fatal(err)
				}
				for i, a := range asks {
					local.Take((*engine.Answer)(&want[i]), a.Hash, a.Plan, a.Cost)
				}
			}
			for i := range requests {
				got[i] = requests[i].Decision
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got\n%+v\nwant\n%+v", got, want)
			}
		}
	})
}

// Several keys in one script may differ by less than a microsecond of refill.
func TestStoreKeepsWhatIsLessThanAnInstant(t *testing.T) {
	t.Parallel()
	plan, err := limit.Compile(limit.TokenBucket{Capacity: 20, Refill: 7000, Per: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := redis.NewStore(storeClient(t, redistest.Start(t).Addr), redis.StoreOptions{Now: func() time.Time { return time.UnixMicro(1_795_219_200_000_007) }})
	costs := []int64{1, 2, 2, 8, 9, 14, 7}
	asks := make([]limit.Ask, len(costs))
	for i, cost := range costs {
		asks[i] = limit.Ask{Key: []byte{'a' + byte(i)}, Policy: plan, Cost: cost}
	}
	if err := s.TakeMany(t.Context(), asks); err != nil {
		t.Fatal(err)
	}
	for i, cost := range costs {
		d, err := s.Peek(t.Context(), asks[i].Key, plan, 1)
		if want := 20 - cost; err != nil || asks[i].Decision.Remaining != want || d.Remaining != want {
			t.Errorf("after %d of 20: %d remain, then %d, %v", cost, asks[i].Decision.Remaining, d.Remaining, err)
		}
	}
}
