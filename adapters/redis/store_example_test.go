package redis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/limit"
)

// In every process of a service: one limit per user, wherever they connect.
func ExampleOpen() {
	ctx := context.Background()
	store, err := redis.Open(ctx, "redis://localhost:6379")
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
	store := redis.NewStore(client, redis.Options{RememberFor: time.Second})
	fmt.Println(store.Stats().Sent)
}

// One key that all share and that is asked for more often than Redis could answer:
// each process takes 500 tokens in advance.
func ExampleNewPrefetch() {
	store, err := redis.Open(context.Background(), "redis://localhost:6379")
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
