package main

import (
	"context"
	"fmt"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
)

// Backend stores what outlives a connection. In memory it serves one server; servers that share a
// Redis are one.
type Backend struct {
	Limits   limit.Store
	Broker   pubsub.Log // the drawings, and what is published
	Presence pubsub.Presence
	// TicketKeys sign the tickets with which pages resume. Empty: a random one.
	TicketKeys [][]byte

	close func()
}

func inMemory() Backend {
	return Backend{
		Limits:   memory.NewStore(memory.Options{}),
		Broker:   memory.NewBroker(memory.BrokerOptions{}),
		Presence: memory.NewPresence(),
	}
}

func onRedis(ctx context.Context, url, secret string) (Backend, error) {
	if len(secret) < 32 {
		return Backend{}, fmt.Errorf("BOARD_SECRET has %d bytes; with -redis it needs 32 or more, such as the output of openssl rand -hex 32", len(secret))
	}
	store, err := redis.Open(ctx, url)
	if err != nil {
		return Backend{}, err
	}
	broker := redis.NewBroker(store.Client(), redis.BrokerOptions{Prefix: "board"})
	presence := redis.NewPresence(store.Client(), redis.PresenceOptions{Prefix: "board"})
	return Backend{
		Limits: store, Broker: broker, Presence: presence, TicketKeys: [][]byte{[]byte(secret)},
		close: func() {
			presence.Close()
			broker.Close()
			store.Close()
		},
	}, nil
}
