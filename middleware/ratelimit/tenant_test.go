package ratelimit_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/router/routertest"
)

// Clients of two tenants behind one address, none of them authenticated, do not use up each
// other's limit. Two of one tenant share theirs.
func TestTenantsOfOneAddressHaveLimitsOfTheirOwn(t *testing.T) {
	store := memory.NewStore()
	limits, err := rules.New(store, rules.Rules{Default: rules.Rule{PerMinute: 1, Burst: 1}})
	if err != nil {
		t.Fatal(err)
	}
	once := limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}
	for name, m := range map[string]ingress.Middleware{
		"New":    ratelimit.New(limit.New(store, once), ratelimit.PerUserOrIPPerType),
		"NewAll": ratelimit.NewAll([]ratelimit.Layer{{Limiter: limit.New(store, once), Key: ratelimit.PerUserOrIPPerType}, {Limiter: limit.New(store, once), Key: ratelimit.PerUserOrIP}}),
		"rules":  limits.Middleware,
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
