package limit_test

import (
	"context"
	"fmt"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// At most two reports are computed at a time for each user of a tenant.
func ExampleConcurrencyLimit() {
	store := memory.NewStore() // over Redis, the limit is that of all processes
	reports := limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{Max: 2})
	ctx, ann := context.Background(), limit.KeyOf("acme", "ann")

	var first limit.Lease
	for i := range 3 {
		lease, d, err := reports.Acquire(ctx, ann)
		fmt.Println(d.Allowed, d.Remaining, err)
		if i == 0 {
			first = lease
		}
	}
	reports.Release(first) // when its work is done
	_, d, _ := reports.Acquire(ctx, ann)
	held, _ := reports.Held(ctx, ann)
	fmt.Println(d.Allowed, held)
	fmt.Println(reports.Flush(ctx)) // before the process ends
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
	// true 2
	// <nil>
}
