package ingress_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

// Middleware that rejects frames by their identity, without decoding their payloads.
func Example() {
	suspended := func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			if c.Identity.Tier == "suspended" {
				return errors.PermissionDenied.New("account suspended")
			}
			return next(c)
		}
	}
	// A router does this for r.Use(suspended).
	handle := suspended(ingress.Pass)

	fmt.Println(handle(&ingress.Context{Identity: ingress.Identity{User: "ann"}}))
	fmt.Println(handle(&ingress.Context{Identity: ingress.Identity{User: "bob", Tier: "suspended"}}))
	// Output:
	// <nil>
	// PERMISSION_DENIED: account suspended
}

func ExampleContext_Reject() {
	atMost10 := func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			if c.Size > 10 {
				return c.Reject(errors.LimitExceeded{
					Kind: errors.LimitPayload, Observed: int64(c.Size), Limit: 10, Never: true,
				})
			}
			return next(c)
		}
	}
	err := atMost10(ingress.Pass)(&ingress.Context{Size: 12})
	fmt.Println(err)
	// Output: RESOURCE_EXHAUSTED: payload too large (observed 12, limit 10)
}

// Routes of a group need a role: r.Group("admin.").With(ingress.RequireRole("admin")). The router calls the
// middleware like this.
func ExampleRequireRole() {
	handle := ingress.RequireRole("admin")(ingress.Pass)
	for _, id := range []ingress.Identity{
		{User: "ann", Roles: []string{"admin", "author"}},
		{User: "bob", Roles: []string{"author"}},
		{},
	} {
		fmt.Println(handle(&ingress.Context{Type: "room.delete", Identity: id}))
	}
	// Output:
	// <nil>
	// PERMISSION_DENIED: this needs a role that the user does not have
	// UNAUTHENTICATED: this needs an authenticated user
}

func ExampleKey() {
	type Session struct{ Theme string }
	session := ingress.NewKey[Session]() // in a package variable

	authenticate := func(r *http.Request) (ingress.Identity, error) {
		id := ingress.Identity{User: "ann"}
		session.Set(&id, Session{Theme: "dark"})
		return id, nil
	}
	id, _ := authenticate(nil)

	// Later, in middleware:
	c := &ingress.Context{Identity: id}
	s, ok := session.Get(&c.Identity)
	fmt.Println(s.Theme, ok)
	// Output: dark true
}

func ExampleIdentity_Authenticated() {
	known, unknown := ingress.Identity{User: "ann"}, ingress.Identity{}
	fmt.Println(known.Authenticated(), unknown.Authenticated())
	// Output: true false
}

func ExamplePeerIP() {
	r := &http.Request{RemoteAddr: "[::ffff:192.0.2.1]:55555", Header: http.Header{"X-Forwarded-For": {"203.0.113.9"}}}
	fmt.Println(ingress.PeerIP(r))
	// Output: 192.0.2.1
}

func ExampleGroupIP() {
	for _, ip := range []string{"192.0.2.1", "2001:db8:1:2:a:b:c:d", "2001:db8:1:2::7"} {
		fmt.Println(ingress.GroupIP(netip.MustParseAddr(ip)))
	}
	// Output:
	// 192.0.2.1
	// 2001:db8:1:2::
	// 2001:db8:1:2::
}

// Middleware that delays large frames. The connection is not read meanwhile.
func ExampleContext_Hold() {
	slow := func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			if c.Size > 10<<10 {
				if err := c.Hold(time.Millisecond); err != nil {
					return err // this side has ended the connection
				}
			}
			return next(c)
		}
	}
	fmt.Println(slow(ingress.Pass)(&ingress.Context{Size: 64 << 10}))
	// Output: <nil>
}

// The trace id of a request, for logs of an application.
func ExampleTraceID() {
	r := &http.Request{Header: http.Header{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}}
	fmt.Println(ingress.TraceID(r))
	// Output: 4bf92f3577b34da6a3ce929d0e0e4736
}
