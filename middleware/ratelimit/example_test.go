package ratelimit_test

import (
	"fmt"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
)

// In an application, r.Use(ratelimit.New(…)) puts the middleware before a
// router; here a frame is sent through it by hand.
func ExampleNew() {
	store := memory.NewStore(memory.Options{Now: func() int64 { return 0 }})
	mw := ratelimit.New(limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 4, Per: time.Second}))

	handle := mw(ingress.Pass)
	frame := &ingress.Context{Type: "chat.send", Identity: ingress.Identity{User: "ann"}}
	for range 3 {
		if e, ok := errors.AsType[*errors.LimitExceeded](handle(frame)); ok {
			fmt.Println(e.Code(), "retry after", e.RetryAfter)
		} else {
			fmt.Println("passed")
		}
	}
	// Output:
	// passed
	// passed
	// RESOURCE_EXHAUSTED retry after 250ms
}

// Limit bytes instead of messages, for each tenant.
func ExampleOptions() {
	store := memory.NewStore(memory.Options{})
	bytes := limit.New(store, limit.TokenBucket{Capacity: 64 << 10, Refill: 16 << 10, Per: time.Second}, limit.Options{Name: "bytes"})
	mw := ratelimit.New(bytes, ratelimit.Options{
		Key:  func(k limit.Key, c *ingress.Context) limit.Key { return k.Part(c.Identity.Tenant) },
		Cost: func(c *ingress.Context) int { return max(c.Size, 1) },
	})

	frame := &ingress.Context{Type: "file.chunk", Size: 100_000, Identity: ingress.Identity{Tenant: "acme"}}
	fmt.Println(mw(ingress.Pass)(frame))
	// Output: FAILED_PRECONDITION: cost exceeds the rate limit's capacity (observed 100000, limit 65536, limiter bytes)
}

// One limit per user, over all message types.
func ExamplePerUser() {
	l := limit.New(memory.NewStore(memory.Options{}), limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second}, limit.Options{Name: "all"})
	c := &ingress.Context{Type: "chat.send", Identity: ingress.Identity{Tenant: "acme", User: "ann"}}
	fmt.Println(ratelimit.PerUser(l.Key(nil), c))
	fmt.Println(ratelimit.PerUserPerType(l.Key(nil), c))
	fmt.Println(ratelimit.PerUserOrIPPerType(l.Key(nil), &ingress.Context{Type: "chat.send"}))
	// Output:
	// wskit:all:user:acme:ann
	// wskit:all:user:acme:ann:chat.send
	// wskit:all:ip:%none:chat.send
}
