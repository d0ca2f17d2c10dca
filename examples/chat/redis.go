package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
)

// onRedis is the backend that servers share: each with the same URL.
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
		History: redisHistory{store.Client()},
		Shared:  true,
		closers: []io.Closer{presence, broker, store},
	}, nil
}

// redisHistory keeps each room's messages in a list, which a day of silence ends.
type redisHistory struct{ client goredis.UniversalClient }

const silence = 24 * time.Hour

func historyKey(room string) string { return "wskit:chat:history:" + room }

func (h redisHistory) Add(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	key := historyKey(m.Room)
	_, err = h.client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.RPush(ctx, key, b)
		p.LTrim(ctx, key, -maxHistory, -1)
		p.Expire(ctx, key, silence)
		return nil
	})
	if err != nil {
		return errors.Unavailable.Wrap(err, "the message cannot be kept just now")
	}
	return nil
}

func (h redisHistory) Latest(ctx context.Context, room string) ([]Message, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	list, err := h.client.LRange(ctx, historyKey(room), -maxHistory, -1).Result()
	if err != nil {
		return nil, errors.Unavailable.Wrap(err, "the room's messages cannot be read just now")
	}
	messages := make([]Message, 0, len(list))
	for _, text := range list {
		var m Message
		if json.Unmarshal([]byte(text), &m) == nil { // else it is of another version of the chat
			messages = append(messages, m)
		}
	}
	return messages, nil
}
