package main

import (
	"context"
	"net/http"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/router"
)

type wskit struct{ router *router.Router }

func newWskit(client *goredis.Client) node {
	r := router.New(router.Options{Backend: adapters.Backend{Broker: redis.NewBroker(client)}})
	router.RPC(r, "join", func(c *router.Context, q join) (struct{}, error) {
		if err := c.Subscribe(load.AllTopic); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, c.Subscribe(q.Room)
	}, router.RouteOptions{Reply: "joined"})
	return wskit{r}
}

func (n wskit) ServeHTTP(w http.ResponseWriter, r *http.Request) { n.router.ServeHTTP(w, r) }

func (n wskit) publishAll(ctx context.Context, topics []string, messages int, every time.Duration) error {
	return concurrently(ctx, n.publish, topics, messages, every)
}

func (n wskit) publish(ctx context.Context, m message) error {
	return n.router.Publish(ctx, m.Topic, "said", m)
}
