package redis_test

import (
	"context"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
)

// A message that is published alone takes no more allocations than a PUBLISH of the client.
func TestAllocationsOfALonePublish(t *testing.T) {
	if race.Enabled {
		t.Skip("pools drop what they have")
	}
	server := redistest.Start(t)
	client := func() *goredis.Client {
		c := goredis.NewClient(&goredis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	bare, b := client(), redis.NewBroker(client())
	t.Cleanup(func() { _ = b.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	m := pubsub.Message{Topic: "room", Frame: make([]byte, 100)}
	count := func(publish func() error) float64 {
		return testing.AllocsPerRun(500, func() {
			if err := publish(); err != nil {
				t.Fatal(err)
			}
		})
	}
	least := count(func() error { return bare.Publish(ctx, m.Topic, m.Frame).Err() })
	if got := count(func() error { return b.Publish(ctx, m) }); got > least {
		t.Errorf("%v allocations, and %v of the client alone", got, least)
	}
}
