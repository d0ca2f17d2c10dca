package redis_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// In every process of a service: topics, presence, idempotency keys and limits that they share.
func ExampleOpen() {
	ctx := context.Background()
	backend, err := redis.Open(ctx, "redis://localhost:6379", redis.Options{Prefix: "chat"})
	if err != nil {
		log.Fatal(err)
	}
	r := router.New(router.Options{Backend: backend})
	messages := limit.New(backend.Limits, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second}, limit.Options{Name: "messages"})
	r.Use(ratelimit.New(messages, ratelimit.PerUserOrIP))
	log.Fatal(r.Serve(ctx, &http.Server{Addr: ":8080", Handler: r})) // closes the backend at its end
}

// The connections of an application that has some already.
func ExampleNew() {
	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	backend := redis.New(client, redis.Options{Prefix: "chat"})
	fmt.Println(backend.Check(context.Background()))
}

// In every process of a service: one limit per user, wherever they connect.
func ExampleOpenStore() {
	ctx := context.Background()
	store, err := redis.OpenStore(ctx, "redis://localhost:6379")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	messages := limit.New(store, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second}, limit.Options{Name: "messages"})

	d, err := messages.Take(ctx, limit.KeyOf("ann"), 1)
	fmt.Println(d.Allowed, d.Remaining, err)
}

// A client that the application has already.
func ExampleNewStore() {
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs:                 []string{"redis-1:6379", "redis-2:6379"},
		ContextTimeoutEnabled: true, // a limiter's timeout ends what waits on the network
		ReadTimeout:           time.Second,
	})
	defer client.Close()
	store := redis.NewStore(client, redis.StoreOptions{RememberFor: time.Second})
	fmt.Println(store.Stats().Sent)
}

// One key that all share and that is asked for more often than Redis could answer:
// each process takes 500 tokens in advance.
func ExampleNewPrefetch() {
	store, err := redis.OpenStore(context.Background(), "redis://localhost:6379")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	prefetch := redis.NewPrefetch(store, redis.PrefetchOptions{Tokens: 500})
	defer prefetch.Close() // gives back what is left; before the store is closed
	global := limit.New(prefetch, limit.TokenBucket{Capacity: 100_000, Refill: 1_000_000, Per: time.Second},
		limit.Options{Name: "global"})

	d, err := global.Take(context.Background(), limit.KeyOf(""), 1)
	fmt.Println(d.Allowed, err)
}
