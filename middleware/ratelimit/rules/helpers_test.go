package rules_test

import (
	"context"
	"net/netip"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// ann is a frame of one user.
func ann(typ string) *ingress.Context {
	return &ingress.Context{Type: typ, ConnID: "c1", IP: netip.MustParseAddr("192.0.2.1"), Identity: ingress.Identity{Tenant: "acme", User: "ann"}}
}

// passes runs a frame through the middleware.
func passes(h ingress.Handler, c *ingress.Context) bool {
	return h(c) == nil && c.State.Passed
}

type brokenStore struct{}

func (brokenStore) Take(context.Context, []byte, limit.Policy, int64) (limit.Decision, error) {
	return limit.Decision{}, errors.New("down")
}
