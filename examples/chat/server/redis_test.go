package server

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/router/routertest"
)

// The history is in Redis: a tab gets what it missed from another server, and from one that is
// started later. No key of it is kept for ever.
func TestHistoryInRedis(t *testing.T) {
	redis := redistest.Start(t)
	server := func() *routertest.Server {
		backend, _, err := newBackend(t.Context(), func(ctx context.Context) (adapters.Backend, error) { return onRedis.Open(ctx, redis.URL()) }, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = backend.Close() })
		return routertest.New(t, newChat(backend).Router)
	}
	one, two := server(), server()
	ann := tab(one, "ann")
	for _, room := range []string{"lobby", "garden"} {
		enter(t, ann, room, "Ann")
		bob := tab(two, "bob")
		after := enter(t, bob, room, "Bob").Pos
		bob.Vanish()
		say(t, ann, "one")
		say(t, ann, "two")
		for _, s := range []*routertest.Server{two, one, server()} {
			bob = tab(s, "bob")
			if back := enterAfter(t, bob, room, "Bob", after); !slices.Equal(texts(back.Messages), []string{"one", "two"}) || back.Gap != "" {
				t.Errorf("Bob gets %q, gap %q", texts(back.Messages), back.Gap)
			}
			bob.Vanish()
		}
		kept := 2*map[string]time.Duration{"lobby": lobbyHistory, "garden": roomHistory}[room] + time.Hour
		keys, _ := redis.Do("KEYS", "*messages:"+room+"*").([]any)
		for _, key := range keys {
			name, _ := key.(string)
			if ttl, _ := redis.Do("PTTL", name).(int64); ttl <= 0 || time.Duration(ttl)*time.Millisecond > kept {
				t.Errorf("%s is kept for %v", name, time.Duration(ttl)*time.Millisecond)
			}
		}
		if len(keys) == 0 {
			t.Errorf("Redis has no log of %s: %v", room, redis.Do("KEYS", "*"))
		}
	}
}
