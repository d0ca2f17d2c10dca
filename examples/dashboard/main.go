// Dashboard is the server of a trading dashboard. Several processes on one Redis are one
// dashboard: prices reach all pages, an order that is sent twice is placed once, and the desk sees
// and closes the sessions of traders on every server.
//
//	go run ./examples/dashboard -addr 127.0.0.1:8081 -redis redis://127.0.0.1:6379
//	go run ./examples/dashboard -addr 127.0.0.1:8082 -redis redis://127.0.0.1:6379
//
// A client connects to /ws?access_token=ann, or with the name of a role behind a colon, as in desk:dora. With
// DASHBOARD_FEED and DASHBOARD_OFFICE, secrets of at least 16 characters, other services may publish prices, and look
// at and close sessions, over HTTP: docs/other-services.md. docs/applications.md refers to the page on each part.
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/api"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

type (
	// Price is in cents.
	Price struct {
		Symbol string `json:"symbol" validate:"required,max=12"`
		Cents  int64  `json:"cents" validate:"gt=0"`
	}
	Order struct {
		Symbol   string `json:"symbol" validate:"required,max=12"`
		Quantity int    `json:"quantity" validate:"gt=0,lte=100000"`
	}
	Placed struct {
		ID string `json:"id"`
		Order
	}
	Trader struct {
		User     string `json:"user" validate:"required"`
		Sessions int    `json:"sessions,omitzero"` // that were closed
	}
)

// authenticate reads the demonstration's tokens. A real server verifies a signature here.
func authenticate(r *http.Request) (ingress.Identity, error) {
	role, user, ok := strings.Cut(ingress.Token(r), ":")
	if !ok {
		role, user = "trader", role
	}
	if user == "" {
		return ingress.Identity{}, errors.Unauthenticated.New("connect with a token")
	}
	return ingress.Identity{User: user, Roles: []string{role}}, nil
}

func newRouter(b adapters.Backend) *router.Router {
	r := router.New(router.Options{
		Authenticate: authenticate,
		Backend:      b,
		Addressing:   router.AddressingOptions{Enabled: true},
	})
	price := router.Declare[Price](r, "price", router.EventOptions{Doc: "the latest price of a symbol"})
	placed := router.Declare[Placed](r, "order.placed", router.EventOptions{Doc: "to all sessions of the trader"})

	router.RPC(r, "prices.watch", func(c *router.Context, _ struct{}) (struct{}, error) {
		return struct{}{}, c.Join("prices", nil)
	})

	// The limit is for this type alone. A page that does not know whether its order arrived sends it
	// again with the same idempotency key: the answer is the first one's.
	perTrader := ratelimit.New(limit.New(b.Limits, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second}, limit.Options{Name: "orders"}), ratelimit.PerUserOrIP)
	router.RPC(r.With(perTrader), "order.place", func(c *router.Context, o Order) (Placed, error) {
		p := Placed{ID: rand.Text(), Order: o}
		return p, placed.Send(c, r.User("", c.Identity.User), p)
	})

	market := r.Group("price.").With(ingress.RequireRole("market"))
	router.On(market, "set", func(c *router.Context, p Price) error {
		// A page that reads slowly gets the latest price of each symbol.
		return price.Publish(c, "prices", p, router.PublishOptions{Overflow: router.OverflowLatestOnly, Key: p.Symbol})
	})

	desk := r.Group("desk.").With(ingress.RequireRole("desk"))
	router.RPC(desk, "watch", func(c *router.Context, _ struct{}) (struct{}, error) {
		if err := c.Subscribe("prices"); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, c.WatchPresence("prices", router.WatchOptions{ByUser: true})
	})
	router.RPC(desk, "close", func(c *router.Context, t Trader) (Trader, error) {
		n, err := r.User("", t.User).Close(c, errors.ClosePolicy, "closed by the desk")
		return Trader{t.User, n}, err
	})
	return r
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8081", "`host:port` to serve on")
	redisURL := flag.String("redis", "redis://127.0.0.1:6379", "`URL` of the Redis that the servers share")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *addr, *redisURL); err != nil {
		log.Print("dashboard: ", err)
	}
}

// grantsOf are those of other services: what a market may do, and what the back office may.
func grantsOf(feed, office string) map[string]api.Grant {
	grants := make(map[string]api.Grant)
	if feed != "" {
		grants[feed] = api.Grant{Name: "feed", Calls: []string{"publish"}, Topics: []string{"prices"}}
	}
	if office != "" {
		grants[office] = api.Grant{Name: "office", Calls: []string{"list", "count", "presence", "close"}}
	}
	return grants
}

// serve runs the server until ctx is done, and then shuts it down.
func serve(ctx context.Context, addr, redisURL string) error {
	backend, err := redis.Open(ctx, redisURL, redis.Options{Prefix: "dashboard"})
	if err != nil {
		return err
	}
	r := newRouter(backend)
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	if grants := grantsOf(os.Getenv("DASHBOARD_FEED"), os.Getenv("DASHBOARD_OFFICE")); len(grants) > 0 {
		mux.Handle("/v1/", api.Handler(r, api.Options{Authorize: api.Secrets(grants), Idempotency: backend.Idempotency}))
	}
	return r.Serve(ctx, &http.Server{Addr: addr, Handler: mux})
}
