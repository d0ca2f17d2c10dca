package redis_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
)

func open(t *testing.T, address string, o redis.Options) adapters.Backend {
	t.Helper()
	b, err := redis.Open(t.Context(), address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Two applications with different prefixes share a Redis and nothing in it: every key has the prefix.
func TestBackendsHaveOnePrefix(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	chat, again, board := open(t, server.URL(), redis.Options{Prefix: "chat"}), open(t, server.URL(), redis.Options{Prefix: "chat"}),
		open(t, server.URL(), redis.Options{Prefix: "board"})
	hour := pubsub.History{Messages: 10, Bytes: 1000, Age: time.Hour}
	for _, b := range []adapters.Backend{chat, board} {
		l := limit.New(b.Limits, hourly(1), limit.Options{Name: "messages"})
		if d, err := l.Take(t.Context(), limit.KeyOf("ann"), 1); err != nil || !d.Allowed {
			t.Errorf("the limit of another application counts: %+v, %v", d, err)
		}
		if err := b.Presence.Join(t.Context(), "room", pubsub.Member{ID: "1"}); err != nil {
			t.Error(err)
		}
		if _, err := b.Broker.(pubsub.Log).Append(t.Context(), pubsub.Message{Topic: "room"}, hour, ""); err != nil {
			t.Error(err)
		}
		if err := b.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	secrets := make(map[string]string)
	var all sync.WaitGroup
	var mu sync.Mutex
	for name, b := range map[string]adapters.Backend{"chat": chat, "again": again, "board": board} {
		all.Go(func() {
			secret, err := b.Secret(t.Context(), "tickets")
			if err != nil || len(secret) < 32 {
				t.Errorf("the secret has %d bytes, %v", len(secret), err)
			}
			mu.Lock()
			defer mu.Unlock()
			secrets[name] = string(secret)
		})
	}
	all.Wait()
	if secrets["chat"] != secrets["again"] || secrets["chat"] == secrets["board"] {
		t.Error("processes of one application have two secrets, or two applications share one")
	}
	for _, key := range server.Client().Keys(t.Context(), "*").Val() {
		if !strings.HasPrefix(key, "chat:") && !strings.HasPrefix(key, "board:") {
			t.Errorf("a key has no prefix: %s", key)
		}
	}
}

// Check fails while Redis takes no writes, and while it is away.
func TestCheckFindsOutWhetherRedisWorks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := open(t, server.URL(), redis.Options{})
	if err := b.Check(t.Context()); err != nil {
		t.Error(err)
	}
	server.Do("CONFIG", "SET", "maxmemory", "1")
	if err := b.Check(t.Context()); err == nil {
		t.Error("a full Redis is taken for one that works")
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	eventually(t, "it works again", func() bool { return b.Check(t.Context()) == nil })
	server.Kill()
	if err := b.Check(t.Context()); err == nil {
		t.Error("a Redis that is gone is taken for one that works")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Secret(ctx, "tickets"); err == nil {
		t.Error("a secret came from a Redis that is gone")
	}
}

// What is set for all parts is for each; what a part has of its own stays.
func TestPartsInherit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	outages := make(chan errors.Outage, 10)
	b := open(t, server.URL(), redis.Options{
		Prefix: "chat", ProcessTimeout: time.Minute, OnOutage: func(o errors.Outage) { outages <- o }, Presence: redis.PresenceOptions{Prefix: "people", Timeout: patience},
	})
	s := b.Limits.(redis.Store)
	places := limit.NewConcurrencyLimit(s, limit.ConcurrencyOptions{Max: 1, Limiter: limit.Options{Name: "places"}})
	lease, _, err := places.Acquire(t.Context(), limit.KeyOf("ann"))
	if err != nil {
		t.Fatal(err)
	}
	last := s.Client().ZRangeWithScores(t.Context(), lease.Key+"~held", 0, -1).Val()
	if left := time.UnixMicro(int64(last[0].Score)).Sub(server.Now()); left <= 50*time.Second || left > time.Minute || b.ProcessTimeout != time.Minute {
		t.Errorf("a place counts for %v more, and the router has %v", left, b.ProcessTimeout)
	}
	places.Release(lease)
	if err := places.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	server.Kill()
	if err := b.Presence.Join(t.Context(), "room", pubsub.Member{ID: "1"}); err == nil {
		t.Error("joined a Redis that is gone")
	}
	for o := range outages {
		if o.Component == "presence" {
			if o.Name != "people" {
				t.Errorf("the presence is called %q", o.Name)
			}
			break
		}
	}
}
