package ingress

import (
	"slices"
	"strings"

	"github.com/wskit/wskit/errors"
)

var (
	errNoUser = errors.Unauthenticated.New("this needs an authenticated user")
	errNoRole = errors.PermissionDenied.New("this needs a role that the user does not have")
)

// RequireUser is middleware that refuses frames of clients without an authenticated user:
// UNAUTHENTICATED. Like [RequireRole], it can be used for a router, a group or a route, and lets
// the protocol's own types pass, such as heartbeats and renewals.
//
//	r.Use(ingress.RequireUser)
func RequireUser(next Handler) Handler {
	return func(c *Context) error {
		if !c.Identity.Authenticated() && !ofProtocol(c.Type) {
			return errNoUser
		}
		return next(c)
	}
}

// RequireRole returns middleware that refuses frames of users with none of the roles:
// PERMISSION_DENIED, and UNAUTHENTICATED for clients without an authenticated user. The answer
// does not name the roles. It panics without a role.
//
//	admin := r.Group("admin.").With(ingress.RequireRole("admin"))
func RequireRole(roles ...string) Middleware {
	if len(roles) == 0 || slices.Contains(roles, "") {
		panic("ingress: RequireRole without a role, or with an empty one; name the roles, or use RequireUser")
	}
	roles = slices.Clone(roles)
	return func(next Handler) Handler {
		return RequireUser(func(c *Context) error {
			for _, role := range roles {
				if c.Identity.HasRole(role) {
					return next(c)
				}
			}
			if ofProtocol(c.Type) {
				return next(c)
			}
			return errNoRole
		})
	}
}

// ofProtocol reports whether a registered type is one of the protocol's own.
func ofProtocol(typ string) bool {
	return strings.HasPrefix(typ, "$ws:") || strings.HasPrefix(typ, "__")
}
