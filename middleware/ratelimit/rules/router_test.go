package rules_test

import (
	"net/http"
	"testing"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Clients see what the rules say: a wait that helps where there is one, and that
// nothing helps where they are denied, until the rules change.
func TestRulesBeforeARouter(t *testing.T) {
	limits := newLimits(t, `{"default": {"perMinute": 60, "burst": 2}, "types": {"ask": {"cost": 2}}, "deny": [{"user": "bob"}]}`)
	r := router.New(router.Options{Authenticate: func(r *http.Request) (ingress.Identity, error) {
		return ingress.Identity{User: r.URL.Query().Get("user")}, nil
	}})
	r.Use(limits.Middleware)
	router.RPC(r, "ask", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	router.On(r, "say", func(*router.Context, struct{}) error { return nil })
	s := routertest.New(t, r)

	ann := s.Dial(routertest.DialOptions{Query: "user=ann"})
	routertest.ExpectReply[struct{}](ann.Request("ask", nil))
	if f := ann.Request("ask", nil).ExpectError(errors.ResourceExhausted); !f.Retryable || f.RetryAfterMs == nil || *f.RetryAfterMs != 2000 {
		t.Errorf("%+v", f)
	}
	bob := s.Dial(routertest.DialOptions{Query: "user=bob"})
	if f := bob.Request("ask", nil).ExpectError(errors.PermissionDenied); f.Retryable {
		t.Errorf("%+v", f)
	}
	bob.Send("say", nil)
	if f := bob.ExpectError(errors.PermissionDenied); f.Retryable {
		t.Errorf("%+v", f)
	}
	if err := limits.Replace(mustParse(t, `{"disabled": true}`)); err != nil {
		t.Fatal(err)
	}
	routertest.ExpectReply[struct{}](bob.Request("ask", nil))
	routertest.ExpectReply[struct{}](ann.Request("ask", nil))
}
