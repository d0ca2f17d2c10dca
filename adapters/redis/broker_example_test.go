package redis_test

import (
	"context"
	"fmt"
	"log"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/pubsub"
)

// A router takes the broker as its Backend.Broker; this is what it does with it. The store
// keeps limits, and has a client to share.
func ExampleNewBroker() {
	ctx := context.Background()
	store, err := redis.OpenStore(ctx, "redis://localhost:6379")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	broker := redis.NewBroker(store.Client(), redis.BrokerOptions{Prefix: "shop"})
	defer broker.Close() // before the store

	sub, err := broker.Subscribe(ctx, "room:a", func(m pubsub.Message) {
		fmt.Printf("%s: %s\n", m.Topic, m.Frame)
	})
	if err != nil {
		log.Fatal(err)
	}
	defer sub.Close()
	err = broker.Publish(ctx, pubsub.Message{Topic: "room:a", Frame: []byte("to all processes")})
	if err != nil {
		log.Print("not published: ", err)
	}
	// A health check asks for what is missing.
	if stats := broker.Stats(); stats.Missing > 0 {
		fmt.Printf("%d of %d topics are not delivered\n", stats.Missing, stats.Topics)
	}
}

// A router takes the presence as its Backend.Presence; this is what it does with it.
func ExampleNewPresence() {
	ctx := context.Background()
	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	presence := redis.NewPresence(client, redis.PresenceOptions{Prefix: "shop"})
	defer presence.Close() // takes the members of this process out, before the client is closed

	err := presence.Join(ctx, "room:a", pubsub.Member{ID: "connection 1", User: "ann"})
	if err != nil {
		log.Fatal(err)
	}
	members, err := presence.Members(ctx, "room:a")
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range members {
		fmt.Println(m.User)
	}
	presence.Leave("room:a", "connection 1")
	// A health check asks whether Redis can be written to.
	if stats := presence.Stats(); stats.Failed > 0 {
		fmt.Printf("%d writes have failed, with %d members here\n", stats.Failed, stats.Members)
	}
}
