package denialcache_test

import (
	"fmt"
	"time"

	"github.com/wskit/wskit/internal/denialcache"
	"github.com/wskit/wskit/limit"
)

// A shared store is called until it denies. After that the cache answers until the cost
// fits again.
func Example() {
	var clock int64
	cache := denialcache.New(denialcache.Options{Now: func() int64 { return clock }})
	plan, _ := limit.Compile(limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second})

	var state []int64 // in the store
	trips := 0
	take := func() (d limit.Decision) {
		miss, denied := cache.Get(&d, []byte("ann"), plan, 1)
		if denied {
			return d
		}
		trips++
		state, _ = plan.Take(&d, state, 1_795_219_200_000_000+clock, 1)
		miss.Put(&d, state)
		return d
	}

	for range 6 {
		d := take()
		fmt.Println(d.Allowed, d.RetryAfter, "after", trips, "trips")
		clock += 250_000
	}
	// Output:
	// true 0s after 1 trips
	// false 750ms after 2 trips
	// false 500ms after 2 trips
	// false 250ms after 2 trips
	// true 0s after 3 trips
	// false 750ms after 3 trips
}
