package docs_test

import (
	"context"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The code of several-servers.md.

// shared is one of several servers, with what closes its backend.
func shared(ctx context.Context, url string) (r *router.Router, closeAll func() error, err error) {
	backend, err := redis.Open(ctx, url, redis.Options{Prefix: "chat"}) // redis://localhost:6379
	if err != nil {
		return nil, nil, err
	}
	r = router.New(router.Options{
		Backend:    backend,                                 // topics, presence, idempotency keys, resuming
		Addressing: router.AddressingOptions{Enabled: true}, // r.User, r.Connection, r.AllConnections
		Gate:       gate.New(backend.Limits, gate.Options{Limiter: limit.Options{Name: "gate"}}),
	})
	perUser := limit.New(backend.Limits, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second}, limit.Options{Name: "messages"})
	r.Use(ratelimit.New(perUser, ratelimit.PerUserOrIP))

	// The same handlers as with one server.
	router.RPC(r, "room.join", func(c *router.Context, room string) (struct{}, error) {
		return struct{}{}, c.Join("room:"+room, nil)
	})
	router.RPC(r, "chat.say", func(c *router.Context, text string) (struct{}, error) {
		return struct{}{}, c.Publish("room:lobby", "chat.said", text)
	})
	return r, backend.Close, nil
}

func TestSeveralServersPage(t *testing.T) {
	url := redistest.Start(t).URL()
	var clients []*routertest.Client
	for range 2 {
		r, closeAll, err := shared(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := closeAll(); err != nil {
				t.Error(err)
			}
		})
		c := routertest.New(t, r).Dial()
		routertest.ExpectReply[struct{}](c.Request("room.join", "lobby"))
		clients = append(clients, c)
	}
	routertest.ExpectReply[struct{}](clients[0].Request("chat.say", "hi"))
	if got := routertest.ExpectEvent[string](clients[1], "chat.said"); got != "hi" {
		t.Errorf("got %q", got)
	}
}
