package cfdo_test

import (
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
)

// A rejection says what is left, over every store, and also where the store is not asked because
// its denial is cached.
func TestRejectionsOfAllStoresSayWhatIsLeft(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	t.Cleanup(func() { _ = client.Close() })
	shared := redis.NewStore(client)
	worker := openStore(t, workerdtest.Shared(t).URL, cfdo.Options{})
	none := func() int64 { return 0 }
	for name, store := range map[string]struct {
		limit.Store
		asked func() int64
	}{
		"memory": {memory.NewStore(), none},
		"Redis":  {shared, func() int64 { return shared.Stats().Sent }},
		"Worker": {worker, func() int64 { return worker.Stats().Asks }},
	} {
		t.Run(name, func(t *testing.T) {
			cost := 7
			l := limit.New(store.Store, limit.TokenBucket{Capacity: 20, Refill: 1, Per: 24 * time.Hour}, limit.Options{Name: own("left"), OnFailure: limit.FailClosed, Timeout: time.Minute})
			h := ratelimit.New(l, ratelimit.PerUserOrIPPerType, ratelimit.Options{Cost: func(*ingress.Context) int { return cost }})(ingress.Pass)
			send := func() *errors.LimitExceeded {
				e, _ := errors.AsType[*errors.LimitExceeded](h(&ingress.Context{Type: "report"}))
				return e
			}
			for range 2 {
				if e := send(); e != nil {
					t.Fatalf("rejected: %v", e)
				}
			}
			for range 2 {
				if e := send(); e == nil || e.Observed != 7 || e.Limit != 20 || e.Remaining != 6 {
					t.Fatalf("rejected with %+v, want 6 of 20 left", e)
				}
			}
			asked := store.asked()
			for range 50 {
				if e := send(); e == nil || e.Remaining != 6 {
					t.Fatalf("rejected with %+v, want 6 of 20 left", e)
				}
			}
			if n := store.asked() - asked; n != 0 {
				t.Errorf("50 rejections took %d questions to the store", n)
			}
			cost = 6
			if e := send(); e != nil {
				t.Errorf("what is left is rejected: %v", e)
			}
		})
	}
}
