package docs_test

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The code of rate-limits.md.

func search(*router.Context, struct{}) (string, error) { return "found", nil }

// withOneLimit has all types of a user share one limit.
func withOneLimit(store limit.Store) *router.Router {
	r := router.New()
	r.Use(ratelimit.New(limit.New(store, limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Second}), ratelimit.PerUserOrIP))
	router.RPC(r, "search", search)
	return r
}

// withCosts charges reports more than other messages.
func withCosts(store limit.Store) *router.Router {
	r := router.New()
	costly := limit.New(store, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second}, limit.Options{Name: "costly"})
	r.Use(ratelimit.New(costly, ratelimit.PerUserOrIP, ratelimit.Options{
		Cost: ratelimit.CostByType(map[string]int{"report.render": 10}), // 1 for the others
	}))
	router.RPC(r, "report.render", search)
	return r
}

// withRules reads the limits from a document.
func withRules(store limit.Store) (*router.Router, error) {
	r := router.New()
	parsed, err := rules.Parse([]byte(`{
		"maximum": {"perMinute": 6000, "burst": 500},
		"default": {"perMinute": 300, "burst": 20},
		"types":   {"report.*": {"perHour": 10, "burst": 2}, "cursor.move": {"silent": true}},
		"tiers":   {"free": {"perMinute": 60}},
		"tenants": {"acme": {"perMinute": 3000, "burst": 100}}
	}`)) // an error names the field: tenants.acme.perMinute
	if err != nil {
		return nil, err
	}
	limits, err := rules.New(store, parsed)
	if err != nil {
		return nil, err
	}
	r.Use(limits.Middleware)
	router.RPC(r, "report.render", search)
	return r, nil
}

// withRoutes has limits for one type and for a group.
func withRoutes(store limit.Store) *router.Router {
	r := router.New()
	overall := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Minute}, limit.Options{Name: "overall"})
	searches := limit.New(store, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Minute}, limit.Options{Name: "searches"})
	strokes := limit.New(store, limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Minute}, limit.Options{Name: "strokes"})
	r.Use(ratelimit.New(overall, ratelimit.PerUserOrIP))

	router.RPC(r.With(ratelimit.New(searches, ratelimit.PerUserOrIP)), "search", search)
	board := r.Group("board.", router.RouteOptions{Exempt: true, MaxPayload: 1 << 20})
	board.Use(ratelimit.New(strokes, ratelimit.PerUserOrIP))
	router.RPC(board, "draw", search)
	return r
}

// withGate limits connections, and bans clients that are rejected too often.
func withGate(store limit.Store, authenticate func(*http.Request) (ingress.Identity, error)) *router.Router {
	bans := ratelimit.NewBans(store)
	r := router.New(router.Options{
		Authenticate: authenticate,
		Gate:         gate.New(store, gate.Options{Banned: bans.Banned}),
	})
	r.Use(bans.Middleware) // before the limits whose rejections it counts
	return r
}

func TestRateLimitsPage(t *testing.T) {
	clock := limittest.NewClock()
	store := func() limit.Store { return memory.NewStore(memory.Options{Now: clock.Now}) }
	ask := func(c *routertest.Client, typ string, replies int) {
		t.Helper()
		for range replies {
			routertest.ExpectReply[string](c.Request(typ, nil))
		}
		c.Request(typ, nil).ExpectError(errors.ResourceExhausted)
	}
	ask(routertest.New(t, withOneLimit(store())).Dial(), "search", 10)
	ask(routertest.New(t, withCosts(store())).Dial(), "report.render", 2)
	ruled, err := withRules(store())
	if err != nil {
		t.Fatal(err)
	}
	c := routertest.New(t, ruled).Dial()
	ask(c, "report.render", 2)
	clock.Advance(6 * time.Minute) // ten an hour
	ask(c, "report.render", 1)
	c = routertest.New(t, withRoutes(store())).Dial()
	ask(c, "search", 1)
	ask(c, "board.draw", 5) // more than the limit over all
}

// By default a token may open five connections at once, however many its address may.
func TestRateLimitsPageOfConnections(t *testing.T) {
	old := slog.SetLogLoggerLevel(slog.LevelError)
	defer slog.SetLogLoggerLevel(old)
	s := routertest.New(t, withGate(memory.NewStore(memory.Options{Now: limittest.NewClock().Now}), nil))
	ann := routertest.DialOptions{Token: "ann"}
	for range 5 {
		s.Dial(ann)
	}
	s.Dial(routertest.DialOptions{Token: "bob"})
	if _, res, err := s.TryDial(ann); err == nil || res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("the sixth connection: %v, %v", res, err)
	}
}
