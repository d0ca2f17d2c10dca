package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// What another application has written under the key of a state counts as no state: the
// script and the client agree about that, and the next cost finds a state again.
func TestStoreForeignStates(t *testing.T) {
	t.Parallel()
	client := storeClient(t, redistest.Start(t).Addr)
	for kind, p := range map[string]limit.Policy{
		"bucket": limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Hour},
		"fixed":  limit.FixedWindow{Limit: 5, Window: time.Hour},
		"log":    limit.SlidingLog{Limit: 5, Window: time.Hour},
	} {
		plan, err := limit.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		now := int64(1_795_219_200_000_007)
		s := redis.NewStore(client, redis.StoreOptions{Now: func() time.Time { return time.UnixMicro(now) }, RememberedKeys: -1})
		for i, foreign := range []string{
			"", "nothing of ours", "-1", "9007199254740992", "9007199254740992 1", "1 9007199254740992",
			"99999999999999999999999999", "1000000000000 1", "1001", "1e18", "inf", "\x00\xff",
		} {
			key := fmt.Sprint(kind, i)
			if err := client.Set(t.Context(), key+"~"+plan.Shape(), foreign, 0).Err(); err != nil {
				t.Fatal(err)
			}
			for left := int64(4); left >= -1; left-- {
				d, err := s.Take(t.Context(), []byte(key), plan, 1)
				if err != nil || d.Allowed != (left >= 0) || d.Remaining != max(0, left) {
					t.Errorf("%s, %q: %+v, %v; want %d left", kind, foreign, d, err, left)
					break
				}
			}
		}
	}
}
