package memory_test

import (
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// Charges and refunds of a bucket are made without a lock. None is lost, however many goroutines make
// them and whether or not keys were reset, after which refunds lock.
func TestNoSettlementIsLost(t *testing.T) {
	const callers, rounds, capacity = 4, 30_000, 600_000
	for _, reset := range []bool{false, true} {
		store := memory.NewStore(memory.Options{Now: func() time.Time { return time.UnixMicro(1_795_219_200_000_007) }})
		l := limit.New(store, limit.TokenBucket{Capacity: capacity, Refill: 1, Per: time.Hour})
		if reset {
			other := l.Key(nil).Part("other")
			l.Take(ctx, other, 1)
			if err := l.Reset(ctx, other); err != nil {
				t.Fatal(err)
			}
		}
		key := l.Key(nil).Part("ann")
		var wait sync.WaitGroup
		for range callers {
			wait.Go(func() {
				for i := range int64(rounds) {
					r, d, err := l.Reserve(ctx, key, 5)
					if err != nil || !d.Allowed {
						t.Errorf("%+v, %v", d, err)
						return
					}
					if _, err := r.Settle(ctx, i%2); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		d, err := l.Peek(ctx, key, 1)
		if want := int64(capacity - callers*rounds/2); err != nil || d.Remaining != want {
			t.Errorf("after a reset %v: %d are left, want %d; %v", reset, d.Remaining, want, err)
		}
	}
}
