package api

import (
	"context"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
)

// target says which connections a call is for.
type target struct {
	// Tenant and User are the connections of a user, on all devices.
	Tenant string `json:"tenant,omitzero" validate:"max=256"`
	User   string `json:"user,omitzero" validate:"max=256"`
	// Connection is one connection, by its id, and All is all of them.
	Connection string `json:"connection,omitzero" validate:"max=64"`
	All        bool   `json:"all,omitzero"`
}

var errTarget = errors.InvalidArgument.New("say which connections: user, with the tenant if users have one, or connection, " +
	"or all")

func (t target) of(r *router.Router) (router.Target, error) {
	switch {
	case t.User != "" && t.Connection == "" && !t.All:
		return r.User(t.Tenant, t.User), nil
	case t.User == "" && t.Tenant == "" && t.Connection != "" && !t.All:
		return r.Connection(t.Connection), nil
	case t.User == "" && t.Tenant == "" && t.Connection == "" && t.All:
		return r.AllConnections(), nil
	}
	return router.Target{}, errTarget
}

func (t target) call() Call {
	return Call{Tenant: t.Tenant, User: t.User, Connection: t.Connection, All: t.All}
}

// addressed is parameters with a target.
type addressed interface {
	of(*router.Router) (router.Target, error)
}

// to makes run, of a call for connections, one of [define].
func to[P addressed, R any](
	run func(context.Context, *handler, router.Target, P) (R, error),
) func(context.Context, *handler, P) (R, error) {
	return func(ctx context.Context, h *handler, p P) (none R, err error) {
		t, err := p.of(h.r)
		if err != nil {
			return none, err
		}
		return run(ctx, h, t, p)
	}
}
