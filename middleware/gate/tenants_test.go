package gate_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit/limittest"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// Users of one name of two tenants have places of their own.
func TestPlacesOfUsersOfOneNameOfTwoTenants(t *testing.T) {
	t.Parallel()
	g := gate.New(memory.NewStore(), gate.Options{MaxPerUser: 1})
	for _, c := range []struct {
		tenant, user string
		admitted     bool
	}{{"a", "ann", true}, {"b", "ann", true}, {"a", "bob", true}, {"a", "ann", false}, {"b", "ann", false}} {
		a, err := g.Admit(httptest.NewRequest("GET", "/ws", nil), netip.MustParseAddr("192.0.2.1"))
		if err != nil {
			t.Fatal(err)
		}
		defer a.Release()
		if err := a.Identify(t.Context(), &ingress.Identity{Tenant: c.tenant, User: c.user}); (err == nil) != c.admitted {
			t.Errorf("%s of %s: %v, want admitted: %v", c.user, c.tenant, err, c.admitted)
		}
	}
}

// A client that is not authenticated is banned in its tenant, at the gate, too.
func TestBansOfTenantsOfOneAddress(t *testing.T) {
	clock := limittest.NewClock()
	store := memory.NewStore(memory.Options{Now: clock.Now})
	bans := ratelimit.NewBans(store, ratelimit.BanOptions{After: 2, Ban: time.Minute, Recheck: time.Nanosecond})
	gate := gate.New(store, gate.Options{
		PerIP: many, PerIdentity: many, Banned: bans.Banned, OnRefused: func(gate.Refusal) {},
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
