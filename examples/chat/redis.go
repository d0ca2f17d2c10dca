package main

import (
	"context"

	"github.com/wskit/wskit/adapters/redis"
)

// onRedis is a backend that servers with the same URL share.
func onRedis(ctx context.Context, url string) (Backend, error) {
	store, err := redis.Open(ctx, url)
	if err != nil {
		return Backend{}, err
	}
	broker := redis.NewBroker(store.Client(), redis.BrokerOptions{})
	presence := redis.NewPresence(store.Client(), redis.PresenceOptions{})
	return Backend{
		Limits: store, Connections: store,
		Broker: broker, Presence: presence,
		Shared: true,
		close: func() error {
			presence.Close()
			broker.Close()
			return store.Close()
		},
	}, nil
}
