package docs_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The code of authentication.md.

type session struct {
	User    string
	Roles   []string
	Expires time.Time
}

type sessions map[string]session

// verify is the application's own: it checks a signature, or looks a session up.
func (s sessions) verify(_ context.Context, token string) (ingress.Identity, error) {
	found, ok := s[token]
	if !ok {
		return ingress.Identity{}, errors.Unauthenticated.New("unknown token")
	}
	return ingress.Identity{User: found.User, Roles: found.Roles, ExpiresAt: found.Expires}, nil
}

func (s sessions) options() router.Options {
	return router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) { // before the connection is opened
			return s.verify(req.Context(), ingress.Token(req))
		},
		Renew: func(ctx context.Context, _ *router.Conn, token string) (ingress.Identity, error) {
			return s.verify(ctx, token) // for the same user; the router refuses another one
		},
		Handshake: router.Handshake{Hosts: []string{"https://chat.example.com"}}, // this server's names
		Origins:   []string{"https://app.example.com"},                           // pages of other hosts that may connect
	}
}

func withRoles(o router.Options) *router.Router {
	r := router.New(o)
	router.RPC(r, "whoami", func(c *router.Context, _ struct{}) (string, error) {
		return c.Identity.User, nil
	})

	admin := r.Group("admin.").With(ingress.RequireRole("admin"))
	router.RPC(admin, "users", func(c *router.Context, _ struct{}) ([]string, error) {
		return []string{"ann", "bob"}, nil
	})
	return r
}

func TestAuthenticationPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sessions{
			"first":  {User: "ann", Expires: time.Now().Add(10 * time.Minute)},
			"second": {User: "ann", Roles: []string{"admin"}, Expires: time.Now().Add(time.Hour)},
			"bob's":  {User: "bob"},
		}
		options := s.options()
		options.Handshake.Hosts = nil // the server of routertest has another name
		server := routertest.New(t, withRoles(options))
		if _, res, err := server.TryDial(routertest.DialOptions{Token: "unknown"}); err == nil || res.StatusCode != http.StatusUnauthorized {
			t.Errorf("an unknown token: %v, %v", res, err)
		}
		ann := server.Dial(routertest.DialOptions{Token: "first"})
		if got := routertest.ExpectReply[string](ann.Request("whoami", nil)); got != "ann" {
			t.Errorf("the user is %q", got)
		}
		ann.Request("admin.users", nil).ExpectError(errors.PermissionDenied)

		time.Sleep(9 * time.Minute)
		ann.ExpectAny("$ws:expiring")
		ann.Request("$ws:renew", map[string]string{"token": "bob's"}).ExpectError(errors.PermissionDenied)
		ann.SendRaw(`{"type":"$ws:renew","meta":{"correlationId":"r"},"payload":{"token":"second"}}`)
		ann.ExpectAny("$ws:renewed")
		time.Sleep(2 * time.Minute)
		routertest.ExpectReply[[]string](ann.Request("admin.users", nil))

		time.Sleep(time.Hour)
		ann.ExpectClose(4401)
	})
}
