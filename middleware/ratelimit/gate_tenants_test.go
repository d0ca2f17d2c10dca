package ratelimit_test

import (
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/middleware/ratelimit"
)

// Users of one name of two tenants have places of their own.
func TestPlacesOfUsersOfOneNameOfTwoTenants(t *testing.T) {
	t.Parallel()
	g := ratelimit.NewGate(memory.NewStore(memory.Options{}), ratelimit.GateOptions{MaxPerUser: 1})
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
