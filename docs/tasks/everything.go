// Package tasks has the usual tasks of an application, as short as they get. A test counts the lines and the names that
// each needs: the surface of the packages is to stay as small.
package tasks

import (
	"context"
	"net/http"
	"time"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// everything is on Redis: limits, topics, presence, idempotency, users, the gate and health.
func everything(ctx context.Context, url string, authenticate func(*http.Request) (ingress.Identity, error)) error {
	b, err := redis.Open(ctx, url, redis.Options{Prefix: "chat"})
	if err != nil {
		return err
	}
	r := router.New(router.Options{
		Authenticate: authenticate, Backend: b, Addressing: router.AddressingOptions{Enabled: true},
		Gate: gate.New(b.Limits, gate.Options{Limiter: limit.Options{Name: "gate"}}),
	})
	messages := limit.New(b.Limits, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second}, limit.Options{Name: "messages"})
	r.Use(ratelimit.New(messages, ratelimit.PerUser))
	router.RPC(r, "room.join", func(c *router.Context, room string) (struct{}, error) {
		return struct{}{}, c.Join("room:"+room, nil)
	})
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.Handle("/ready", r.Ready())
	return r.Serve(ctx, &http.Server{Addr: ":8080", Handler: mux})
}
