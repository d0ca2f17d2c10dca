package ratelimit_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The router's own rejections, which no middleware sees, are counted in the hook: a client that
// repeatedly sends frames that are too large is banned, and no other client is.
func TestBansForFramesThatAreTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bans := ratelimit.NewBans(memory.NewStore(), ratelimit.BanOptions{After: 3})
		r := router.New(router.Options{
			Authenticate: func(r *http.Request) (ingress.Identity, error) {
				return ingress.Identity{User: r.URL.Query().Get("user")}, nil
			},
			Limits: router.Limits{MaxPayload: 1 << 10},
			OnLimitExceeded: func(i router.LimitInfo) {
				if i.Kind == errors.LimitPayload || i.Kind == errors.LimitInFlight {
					_ = bans.Count(context.Background(), i.IP, i.Identity, &i.LimitExceeded)
				}
			},
		})
		r.Use(bans.Middleware)
		router.On(r, "say", func(c *router.Context, _ struct{}) error { return c.Send("said", nil) })
		s := routertest.New(t, r)
		ann, bob := dial(s, "ann"), dial(s, "bob")
		for range 3 {
			ann.SendRaw(strings.Repeat("x", 2<<10))
			ann.ExpectError(errors.ResourceExhausted)
			synctest.Wait() // for the hook
		}
		ann.Send("say", nil)
		ann.ExpectClose(errors.CloseTooManyRequests)
		said(t, bob)
	})
}
