package redis_test

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// What is published while one server's connection to Redis is half-open, so that nothing of Redis arrives, is
// reported: to that server's OnLost and, as a gap, to each member there. The other server misses nothing.
func TestMembersAreToldOfAHalfOpenConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.StartProxy(t, s.Addr)
	lost := make(chan []string, 100)
	serve := func(b redis.Broker, onLost func([]string)) *routertest.Client {
		r := router.New(router.Options{Backend: adapters.Backend{Broker: b}, OnLost: onLost, SendGaps: true,
			OnOpen: func(c *router.Conn) error { return c.Subscribe(context.Background(), "room") }})
		return routertest.New(t, r).Dial()
	}
	half := brokerOn(t, &goredis.Options{Addr: proxy.Addr}, redis.BrokerOptions{HealthTimeout: 4 * time.Second})
	whole := newBroker(t, s, redis.BrokerOptions{})
	far := serve(half, func(topics []string) { lost <- topics })
	near := serve(whole, func(topics []string) { t.Errorf("the other server lost %v", topics) })
	for range 2 {
		proxy.Mute()
		publish(t, whole, "room", `{"type":"said","payload":"missed"}`)
		near.ExpectAny("said")
		eventually(t, "it is noticed", func() bool { return half.Stats().Missing == 1 })
		proxy.Mend()
		if topics := poll.Receive(t, lost, "a report of the loss"); len(topics) != 1 || topics[0] != "room" {
			t.Errorf("lost: %q", topics)
		}
		if f := far.ExpectAny("$ws:gap"); string(f.Payload) != `{"topics":["room"]}` {
			t.Errorf("the member got %s", f.Raw)
		}
		publish(t, whole, "room", `{"type":"said","payload":"after"}`)
		far.ExpectAny("said")
		near.ExpectAny("said")
	}
}

// What was published before Subscribe was called does not come, although it was still on its way, for a subscription
// before.
func TestSubscriptionsGetNothingOlder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.StartProxy(t, s.Addr)
	far, near := brokerOn(t, &goredis.Options{Addr: proxy.Addr}, redis.BrokerOptions{}), newBroker(t, s, redis.BrokerOptions{})
	sub := subscribeTo(t, far, "room", func(pubsub.Message) {})
	proxy.Delay(200 * time.Millisecond)
	publish(t, near, "room", "old")
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
	in := subscribe(t, far, "room")
	publish(t, near, "room", "new")
	eventually(t, "what is published after Subscribe comes", func() bool { return in.count("new") == 1 })
	if in.count("old") > 0 {
		t.Error("what was published before Subscribe has come, too")
	}
}
