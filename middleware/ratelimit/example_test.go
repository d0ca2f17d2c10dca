package ratelimit_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// In an application, r.Use(ratelimit.New(…)) puts the middleware before a
// router; here a frame is sent through it by hand.
func ExampleNew() {
	store := memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }})
	mw := ratelimit.New(limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 4, Per: time.Second}), ratelimit.PerUserOrIP)

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
	store := memory.NewStore()
	bytes := limit.New(store, limit.TokenBucket{Capacity: 128 << 10, Refill: 16 << 10, Per: time.Second}, limit.Options{Name: "bytes"})
	mw := ratelimit.New(bytes, ratelimit.PerTenant, ratelimit.Options{
		Cost: ratelimit.Bytes,
	})

	frame := &ingress.Context{Type: "file.chunk", Size: 200_000, Identity: ingress.Identity{Tenant: "acme"}}
	fmt.Println(mw(ingress.Pass)(frame))
	// Output: FAILED_PRECONDITION: cost exceeds the rate limit's capacity (observed 200000, limit 131072, limiter bytes)
}

// One limit per user, over all message types.
func ExamplePerUser() {
	l := limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second}, limit.Options{Name: "all"})
	c := &ingress.Context{Type: "chat.send", Identity: ingress.Identity{Tenant: "acme", User: "ann"}}
	fmt.Println(ratelimit.PerUser(l.Key(nil), c))
	fmt.Println(ratelimit.PerUserPerType(l.Key(nil), c))
	fmt.Println(ratelimit.PerUserOrIPPerType(l.Key(nil), &ingress.Context{Type: "chat.send"}))
	fmt.Println(ratelimit.PerTenant(l.Key(nil), c))
	fmt.Println(ratelimit.Global(l.Key(nil), c))
	// Output:
	// wskit:all:user:acme:ann
	// wskit:all:user:acme:ann:chat.send
	// wskit:all:ip:%none:chat.send
	// wskit:all:tenant:acme
	// wskit:all
}

// A user's limit and their tenant's, charged together: what one denies does not use up
// the other.
func ExampleNewAll() {
	store := memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }})
	user := limit.New(store, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second}, limit.Options{Name: "user"})
	tenant := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 2, Per: time.Second}, limit.Options{Name: "tenant"})
	handle := ratelimit.NewAll([]ratelimit.Layer{
		{Limiter: user, Key: ratelimit.PerUser},
		{Limiter: tenant, Key: ratelimit.PerTenant},
	})(ingress.Pass)

	for _, name := range []string{"ann", "ann", "ann", "bob", "cat"} {
		err := handle(&ingress.Context{Identity: ingress.Identity{Tenant: "acme", User: name}})
		if e, ok := errors.AsType[*errors.LimitExceeded](err); ok {
			fmt.Println(name, "is limited by", e.Limiter)
		} else {
			fmt.Println(name, "passed")
		}
	}
	// Output:
	// ann passed
	// ann is limited by user
	// ann is limited by user
	// bob passed
	// cat is limited by tenant
}

// Smooth each connection without asking a store, and keep users within their limit
// behind it.
func ExampleNewPerConnection() {
	store := memory.NewStore()
	perConnection := ratelimit.NewPerConnection(limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Minute})
	perUser := ratelimit.New(limit.New(store, limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Minute}, limit.Options{Name: "user"}), ratelimit.PerUserOrIP)
	handle := perConnection(perUser(ingress.Pass)) // in an application: r.Use(perConnection, perUser)
	for _, conn := range []string{"first", "second"} {
		c := &ingress.Context{ConnID: conn, Identity: ingress.Identity{User: "ann"}}
		for range 3 {
			if e, ok := errors.AsType[*errors.LimitExceeded](handle(c)); ok {
				fmt.Println(conn, "is limited by", e.Limiter)
			} else {
				fmt.Println(conn, "passed")
			}
		}
	}
	// Output:
	// first passed
	// first passed
	// first is limited by connection
	// second passed
	// second is limited by user
	// second is limited by connection
}

// A client that is rejected three times within a minute is banned for ten.
func ExampleBans() {
	store := memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }})
	bans := ratelimit.NewBans(store, ratelimit.BanOptions{After: 3, Within: time.Minute, Ban: 10 * time.Minute})
	limited := ratelimit.New(limit.New(store, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second}), ratelimit.PerUserOrIP)
	handle := bans.Middleware(limited(ingress.Pass)) // in an application: r.Use(bans.Middleware, limited)
	ann := ingress.Identity{User: "ann"}
	for range 4 {
		if e, ok := errors.AsType[*errors.LimitExceeded](handle(&ingress.Context{Identity: ann})); ok {
			fmt.Println(e.Kind, e.RetryAfter, e.Close)
		}
	}
	// A connection that comes back.
	e, _ := errors.AsType[*errors.LimitExceeded](handle(&ingress.Context{Identity: ann}))
	fmt.Println(e.Kind, e.RetryAfter.Round(time.Minute), e.Close)
	// Output:
	// rate 1s 0
	// rate 1s 0
	// rate 10m0s 4429
	// banned 10m0s 4429
}

// The connection gate refuses banned clients.
func ExampleBans_Banned() {
	bans := ratelimit.NewBans(memory.NewStore(), ratelimit.BanOptions{After: 1, Ban: time.Minute})
	ann, ip := ingress.Identity{User: "ann"}, netip.MustParseAddr("192.0.2.1")
	_ = bans.Count(context.Background(), ip, ann, &errors.LimitExceeded{Kind: errors.LimitRate})

	authenticate := func(ip netip.Addr, id ingress.Identity) error {
		banned, err := bans.Banned(context.Background(), ip, id)
		if err == nil && banned > 0 {
			err = errors.ResourceExhausted.New("come back later").WithRetryAfter(banned.Round(10 * time.Second))
		}
		return err
	}
	err := authenticate(ip, ann)
	fmt.Println(err, errors.From(err).RetryAfter)
	fmt.Println(authenticate(ip, ingress.Identity{User: "bob"}))

	_ = bans.Unban(context.Background(), ip, ann)
	fmt.Println(authenticate(ip, ann))
	// Output:
	// RESOURCE_EXHAUSTED: come back later 1m0s
	// <nil>
	// <nil>
}

// Rejections that handlers return count where Bans.Count is called.
func ExampleBans_Count() {
	store := memory.NewStore()
	bans := ratelimit.NewBans(store)
	rooms := limit.New(store, limit.TokenBucket{Capacity: 20, Refill: 10, Per: time.Second}, limit.Options{Name: "rooms"})

	r := router.New()
	r.Use(bans.Middleware)
	r.UseHandler(func(next router.Handler) router.Handler {
		return func(c *router.Context) error { return bans.Count(c, c.IP(), *c.Identity, next(c)) }
	})
	router.On(r, "chat.send", func(c *router.Context, room string) error {
		return ratelimit.Take(c, rooms, limit.KeyOf(room), 1)
	})
}

// A limit per room, over all its senders: the room is known when the message has
// been decoded.
func ExampleTake() {
	store := memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }})
	rooms := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 2, Per: time.Second}, limit.Options{Name: "rooms"})

	send := func(ctx context.Context, tenant, room string) error { // a handler
		if err := ratelimit.Take(ctx, rooms, limit.KeyOf(tenant, room), 1); err != nil {
			return err
		}
		return nil // c.Publish(…)
	}
	for _, room := range []string{"lobby", "lobby", "lobby", "kitchen"} {
		fmt.Println(room, send(context.Background(), "acme", room))
	}
	// Output:
	// lobby <nil>
	// lobby <nil>
	// lobby RESOURCE_EXHAUSTED: rate limit exceeded (observed 1, limit 2, limiter rooms, retry after 500ms)
	// kitchen <nil>
}

// Each room has a limit of its own for the messages of all senders on all servers.
func ExamplePerTopic() {
	store := memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }})
	perRoom := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Second}, limit.Options{Name: "rooms"})
	r := router.New()
	r.AddHooks(router.Hooks{BeforePublish: ratelimit.PerTopic(perRoom)})

	for _, topic := range []string{"room:1", "room:1", "room:1", "room:2"} {
		err := r.Publish(context.Background(), topic, "chat.said", "hello")
		fmt.Println(topic, err)
	}
	// Output:
	// room:1 <nil>
	// room:1 <nil>
	// room:1 RESOURCE_EXHAUSTED: rate limit exceeded (observed 1, limit 2, limiter rooms, retry after 1s)
	// room:2 <nil>
}

func ExampleBytes() {
	frame := &ingress.Context{Size: 2500}
	fmt.Println(ratelimit.Bytes(frame), ratelimit.BytesPer(1<<10)(frame))
	// Output: 2500 3
}

// A limit for each tier of a tenant, with costs by size.
func ExampleKeyFunc() {
	perTier := func(k limit.Key, c *ingress.Context) limit.Key {
		return k.Part(c.Identity.Tenant).Part(c.Identity.Tier)
	}
	limiter := limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 4, Refill: 1, Per: time.Minute})
	handle := ratelimit.New(limiter, perTier, ratelimit.Options{Cost: ratelimit.BytesPer(1 << 10)})(ingress.Pass)
	for _, tier := range []string{"free", "free", "pro"} {
		c := &ingress.Context{Identity: ingress.Identity{Tenant: "acme", User: "ann", Tier: tier}, Size: 2500} // a cost of 3
		fmt.Println(tier, handle(c) == nil)
	}
	// Output:
	// free true
	// free false
	// pro true
}

// An operator ends a ban.
func ExampleBans_Unban() {
	bans := ratelimit.NewBans(memory.NewStore(), ratelimit.BanOptions{After: 1})
	ctx, bob := context.Background(), ingress.Identity{User: "bob"}
	_ = bans.Count(ctx, netip.Addr{}, bob, &errors.LimitExceeded{Kind: errors.LimitRate})
	before, _ := bans.Banned(ctx, netip.Addr{}, bob)
	err := bans.Unban(ctx, netip.Addr{}, bob)
	after, _ := bans.Banned(ctx, netip.Addr{}, bob)
	fmt.Println(before > 0, err, after)
	// Output: true <nil> 0s
}
