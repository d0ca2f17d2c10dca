package limit_test

import (
	"context"
	"fmt"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// At most two documents open at a time for each user.
func ExampleConcurrencyLimit() {
	open := limit.NewConcurrencyLimit(memory.NewStore(memory.Options{}), 2, 0)
	ctx := context.Background()

	var first limit.Lease
	for i, document := range []string{"plan", "budget", "notes"} {
		lease, d, err := open.Acquire(ctx, open.Key(nil).Part("ann"), document)
		fmt.Println(document, d.Allowed, d.Remaining, err)
		if i == 0 {
			first = lease
		}
	}
	_ = open.Release(ctx, first)
	_, d, _ := open.Acquire(ctx, open.Key(nil).Part("ann"), "notes")
	fmt.Println("notes", d.Allowed)
	// Output:
	// plan true 1 <nil>
	// budget true 0 <nil>
	// notes false 0 <nil>
	// notes true
}
