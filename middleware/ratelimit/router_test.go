package ratelimit_test

import (
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// watched is a router whose rejections are collected.
type watched struct {
	*router.Router
	mu   sync.Mutex
	info []router.LimitInfo
}

// newRouter makes a router with an event "say" and a request "ask". The identity of the client
// says the query: user and tenant.
func newRouter(middleware ...ingress.Middleware) *watched {
	w := new(watched)
	w.Router = router.New(router.Options{
		Authenticate: func(r *http.Request) (ingress.Identity, error) {
			q := r.URL.Query()
			return ingress.Identity{Tenant: q.Get("tenant"), User: q.Get("user")}, nil
		},
		OnLimitExceeded: func(i router.LimitInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.info = append(w.info, i)
		},
	})
	w.Use(middleware...)
	router.On(w.Router, "say", func(c *router.Context, _ struct{}) error { return c.Send("said", nil) })
	router.RPC(w.Router, "ask", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	return w
}

// reported are the rejections so far.
func (w *watched) reported() []router.LimitInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.info
}

// dial connects a user of the tenant acme.
func dial(s *routertest.Server, user string) *routertest.Client {
	return s.Dial(routertest.DialOptions{Query: url.Values{"user": {user}, "tenant": {"acme"}}.Encode()})
}

// said sends an event and expects that it was handled.
func said(t *testing.T, c *routertest.Client) {
	t.Helper()
	c.Send("say", nil)
	routertest.ExpectEvent[struct{}](c, "said")
}
