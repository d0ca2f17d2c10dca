package limit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// An export whose size is known only when it is done.
func ExampleLimiter_Reserve() {
	ctx := context.Background()
	bytes := limit.New(memory.NewStore(), limit.FixedWindow{Limit: 1000, Window: 9999 * 24 * time.Hour})
	key := limit.KeyOf("acme", "ann")

	r, d, err := bytes.Reserve(ctx, key, 800)
	fmt.Println(d.Allowed, d.Remaining, err)
	over, err := r.Settle(ctx, 300) // 500 are given back
	fmt.Println(over, err)

	r, d, _ = bytes.Reserve(ctx, key, 600)
	fmt.Println(d.Allowed, d.Remaining)
	over, _ = r.Settle(ctx, 750) // 100 of 150 more fit
	fmt.Println(over)
	// Output:
	// true 200 <nil>
	// 0 <nil>
	// true 100
	// 50
}
