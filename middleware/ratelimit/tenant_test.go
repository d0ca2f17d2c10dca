package ratelimit_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Clients of two tenants behind one address, none of them authenticated, do not use up each
// other's limit. Two of one tenant share theirs.
func TestTenantsOfOneAddressHaveLimitsOfTheirOwn(t *testing.T) {
	store := memory.NewStore(memory.Options{})
	rules, err := ratelimit.NewRuleLimiter(store, ratelimit.Rules{Default: ratelimit.Rule{PerMinute: 1, Burst: 1}}, ratelimit.RuleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	once := limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}
	for name, m := range map[string]ingress.Middleware{
		"New":    ratelimit.New(limit.New(store, once), ratelimit.PerUserOrIPPerType),
		"NewAll": ratelimit.NewAll([]ratelimit.Layer{{Limiter: limit.New(store, once), Key: ratelimit.PerUserOrIPPerType}, {Limiter: limit.New(store, once), Key: ratelimit.PerUserOrIP}}),
		"rules":  rules.Middleware,
	} {
		t.Run(name, func(t *testing.T) {
			s := routertest.New(t, newRouter(m).Router)
			of := func(tenant string) *routertest.Client {
				return s.Dial(routertest.DialOptions{Query: url.Values{"tenant": {tenant}}.Encode()})
			}
			for _, tenant := range []string{"acme", "other", "", "ip"} {
				said(t, of(tenant))
				second := of(tenant)
				second.Send("say", nil)
				second.ExpectError(errors.ResourceExhausted)
			}
		})
	}
}

// A client that is not authenticated is banned in its tenant, at the gate, too.
func TestBansOfTenantsOfOneAddress(t *testing.T) {
	clock := limittest.NewClock()
	store := memory.NewStore(memory.Options{Now: clock.Now})
	bans := ratelimit.NewBans(store, ratelimit.BanOptions{After: 2, Ban: time.Minute, Recheck: time.Nanosecond})
	gate := ratelimit.NewGate(store, ratelimit.GateOptions{
		PerIP: many, PerIdentity: many, Banned: bans.Banned, OnRefused: func(ratelimit.GateRefusal) {},
	})
	r := router.New(router.Options{Gate: gate, Authenticate: func(r *http.Request) (ingress.Identity, error) {
		return ingress.Identity{Tenant: r.Header.Get("X-Tenant")}, nil
	}})
	r.Use(bans.Middleware)
	h := &house{t: t, clock: clock, store: store, gate: gate, r: r, addr: serve(t, &http.Server{Handler: r})}
	router.On(r.With(func(ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error { return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate}) }
	}), "reject", func(*router.Context, struct{}) error { return nil })

	c := h.expect(101, "X-Tenant: acme")
	for range 3 {
		_ = c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"reject"}`))
	}
	var err error
	for err == nil {
		_, _, err = c.Read(t.Context())
	}
	if websocket.CloseStatus(err) != 4429 {
		t.Fatalf("disconnected with %v", err)
	}
	if _, res := h.dial("X-Tenant: acme"); res.StatusCode != 429 {
		t.Errorf("the banned client is answered %s", res.Status)
	}
	h.expect(101, "X-Tenant: other")
	h.expect(101)
	if s := gate.Stats(); s.Admitted != 3 || s.Refused != 1 {
		t.Errorf("Stats are %+v, want 3 admitted and 1 refused", s)
	}
	clock.Advance(time.Minute)
	h.expect(101, "X-Tenant: acme")
}
