package main

import (
	"context"
	"encoding/json"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
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
		History: redisHistory{store.Client()},
		Shared:  true,
		close: func() error {
			presence.Close()
			broker.Close()
			return store.Close()
		},
	}, nil
}

// redisHistory has the messages of each room in a list, which expires a day after the latest
// one, and the names of the rooms ordered by their latest message, so that the oldest can be
// dropped.
type redisHistory struct{ client goredis.UniversalClient }

const silence = 24 * time.Hour

// All keys have one tag, so that one transaction may change them in a cluster.
const historyIndex = "wskit:{chat}:history"

func historyKey(room string) string { return historyIndex + ":" + room }

func (h redisHistory) Add(ctx context.Context, m Message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	key := historyKey(m.Room)
	var tooMany *goredis.StringSliceCmd
	_, err = h.client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.RPush(ctx, key, b)
		p.LTrim(ctx, key, -maxHistory, -1)
		p.Expire(ctx, key, silence)
		if !isLobby(m.Room) {
			p.ZAdd(ctx, historyIndex, goredis.Z{Score: float64(m.At.UnixMilli()), Member: m.Room})
			p.Expire(ctx, historyIndex, silence)
		}
		tooMany = p.ZRange(ctx, historyIndex, 0, -maxRooms-1)
		return nil
	})
	if err == nil {
		err = h.forget(ctx, tooMany.Val())
	}
	if err != nil {
		return errors.Unavailable.Wrap(err, "the message cannot be stored at the moment")
	}
	return nil
}

func (h redisHistory) forget(ctx context.Context, rooms []string) error {
	if len(rooms) == 0 {
		return nil
	}
	_, err := h.client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		for _, room := range rooms {
			p.Del(ctx, historyKey(room))
			p.ZRem(ctx, historyIndex, room)
		}
		return nil
	})
	return err
}

func (h redisHistory) Latest(ctx context.Context, room string) ([]Message, error) {
	list, err := h.client.LRange(ctx, historyKey(room), -maxHistory, -1).Result()
	if err != nil {
		return nil, errors.Unavailable.Wrap(err, "the messages of the room cannot be read at the moment")
	}
	messages := make([]Message, 0, len(list))
	for _, text := range list {
		var m Message
		if json.Unmarshal([]byte(text), &m) == nil { // else it is from another version of the chat
			messages = append(messages, m)
		}
	}
	return messages, nil
}
