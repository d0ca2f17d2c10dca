package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

func ExampleNewStore() {
	store := memory.NewStore(memory.Options{MaxKeys: 1_000_000})
	logins := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 10, Per: time.Hour})
	for range 3 {
		d, _ := logins.Take(context.Background(), limit.KeyOf("ann"), 1)
		fmt.Println(d.Allowed)
	}
	fmt.Println("keys:", store.Stats().Keys)
	// Output:
	// true
	// true
	// false
	// keys: 1
}
