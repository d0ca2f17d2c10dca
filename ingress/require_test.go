package ingress_test

import (
	"testing"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

func TestRequire(t *testing.T) {
	ann := ingress.Identity{User: "ann", Roles: []string{"reader", "author"}}
	nameless := ingress.Identity{Tenant: "acme", Roles: []string{"author"}}
	for _, c := range []struct {
		name     string
		required ingress.Middleware
		id       ingress.Identity
		typ      string
		want     errors.Code
	}{
		{"a user", ingress.RequireUser, ann, "post", ""},
		{"no user", ingress.RequireUser, ingress.Identity{Tenant: "acme"}, "post", "UNAUTHENTICATED"},
		{"no user, unknown type", ingress.RequireUser, ingress.Identity{}, "", "UNAUTHENTICATED"},
		{"no user, heartbeat", ingress.RequireUser, ingress.Identity{}, "__heartbeat", ""},
		{"the role", ingress.RequireRole("author"), ann, "post", ""},
		{"one of the roles", ingress.RequireRole("admin", "author"), ann, "post", ""},
		{"none of the roles", ingress.RequireRole("admin", "owner"), ann, "post", "PERMISSION_DENIED"},
		{"a part of the name", ingress.RequireRole("auth"), ann, "post", "PERMISSION_DENIED"},
		{"no roles", ingress.RequireRole("admin"), ingress.Identity{User: "bob"}, "", "PERMISSION_DENIED"},
		{"no role, renewal", ingress.RequireRole("admin"), ann, "$ws:renew", ""},
		{"a role without a user", ingress.RequireRole("author"), nameless, "post", "UNAUTHENTICATED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := ingress.Context{Type: c.typ, Identity: c.id}
			err := c.required(ingress.Pass)(&frame)
			if errors.CodeOf(err) != c.want || frame.State.Passed != (err == nil) {
				t.Errorf("error %v, passed %v, want %q", err, frame.State.Passed, c.want)
			}
		})
	}
}

func TestRequireAllocatesNothing(t *testing.T) {
	handle := ingress.RequireRole("admin", "author")(ingress.Pass)
	frame := ingress.Context{Type: "post", Identity: ingress.Identity{User: "ann", Roles: []string{"reader", "author"}}}
	if n := testing.AllocsPerRun(100, func() { _ = handle(&frame) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRequireRoleNeedsARole(t *testing.T) {
	for _, roles := range [][]string{nil, {"admin", ""}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("RequireRole(%q) does not panic", roles)
				}
			}()
			ingress.RequireRole(roles...)
		}()
	}
}
