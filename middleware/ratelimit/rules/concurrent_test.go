package rules_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Rules say how many messages of a client are handled at a time, by type and tier, and may be
// replaced while handlers run.
func TestConcurrentInRules(t *testing.T) {
	const document = `{
		"default": {"unlimited": true},
		"types": {
			"report.*": {"perDay": 100, "burst": 100, "concurrent": %d},
			"report.list": {"exempt": true},
			"try": {"concurrent": 1, "shadow": true}
		},
		"tiers": {"free": {"types": {"report.*": {"concurrent": 1}}}}
	}`
	limited := make(chan ratelimit.Limited, 10)
	limits, err := rules.New(memory.NewStore(), mustParse(t, fmt.Sprintf(document, 2)), rules.Options{
		Limiter: limit.Options{Name: "chat"},
		Key:     ratelimit.PerUser, // the types of a rule share a limit
		Options: ratelimit.Options{OnLimited: func(_ *ingress.Context, l ratelimit.Limited) { limited <- l }},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := router.New(router.Options{Authenticate: func(r *http.Request) (ingress.Identity, error) {
		user := r.URL.Query().Get("user")
		return ingress.Identity{User: user, Tier: strings.TrimPrefix(user, "of ")}, nil
	}})
	r.Use(limits.Middleware)
	begun, letGo := make(chan bool, 10), make(chan bool)
	for _, typ := range []string{"report.make", "report.mail", "report.list", "try", "other"} {
		router.RPC(r, typ, func(*router.Context, struct{}) (string, error) {
			begun <- true
			<-letGo
			return typ, nil
		}, router.RouteOptions{Concurrent: true})
	}
	s := routertest.New(t, r)
	var waits []*routertest.Request
	handled := func(c *routertest.Client, types ...string) {
		t.Helper()
		for _, typ := range types {
			waits = append(waits, c.Request(typ, nil))
			<-begun
		}
	}
	refused := func(c *routertest.Client, typ, rule string) {
		t.Helper()
		f := c.Request(typ, nil).ExpectError(errors.ResourceExhausted)
		if l := <-limited; !strings.Contains(string(f.Details), `"in_flight"`) || l.Rule != rule || l.Limiter != "chat/concurrent" {
			t.Errorf("%s is refused with %s, by %+v", typ, f.Details, l)
		}
	}
	paid := s.Dial(routertest.DialOptions{Query: url.Values{"user": {"of paid"}}.Encode()})
	free := s.Dial(routertest.DialOptions{Query: url.Values{"user": {"of free"}}.Encode()})
	handled(paid, "report.make", "report.mail", "report.list", "other", "other", "other")
	refused(paid, "report.mail", `types["report.*"].concurrent`)
	handled(free, "report.make")
	refused(free, "report.mail", `tiers.free.types["report.*"].concurrent`)
	handled(paid, "try", "try")
	if l := <-limited; !l.Shadow || l.Rule != "types.try.concurrent" {
		t.Errorf("over a limit in shadow mode: %+v", l)
	}
	e, err := limits.Rules().Effective(&ingress.Context{Type: "report.make", Identity: ingress.Identity{User: "of free", Tier: "free"}})
	if err != nil || e.Concurrent.String() != `1 (tiers.free.types["report.*"].concurrent)` {
		t.Errorf("the rules say %v, %v", e.Concurrent, err)
	}

	if err := limits.Replace(mustParse(t, fmt.Sprintf(document, 3))); err != nil {
		t.Fatal(err)
	}
	handled(paid, "report.mail")
	refused(paid, "report.mail", `types["report.*"].concurrent`)
	if s := limits.Stats(); s.Concurrent.Denied != 4 || s.Denied != 0 {
		t.Errorf("the figures are %+v", s)
	}
	close(letGo)
	for _, q := range waits {
		routertest.ExpectReply[string](q)
	}
	handled(paid, "report.make", "report.make", "report.make")
	if err := limits.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConcurrentInRulesThatMakesNoSense(t *testing.T) {
	for document, want := range map[string]string{
		`{"default": {"unlimited": true, "concurrent": 0}}`:                                               "default.concurrent is 0",
		`{"default": {"unlimited": true}, "types": {"x": {"exempt": true, "concurrent": 2}}}`:             "types.x.concurrent has no effect on exempt",
		`{"default": {"unlimited": true}, "types": {"x": {"concurrent": "many"}}}`:                        "types.x.concurrent is",
		`{"default": {"perMinute": 1, "burst": 1}, "types": {"x": {"limits": [{"kind": "concurrent"}]}}}`: "bucket, pacer, fixedWindow, calendar, slidingWindow or log; write how many at a time as concurrent",
	} {
		if _, err := rules.Parse([]byte(document)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", document, err, want)
		}
	}
	ratesOnly := struct{ limit.Store }{memory.NewStore()}
	options := rules.Options{Limiter: limit.Options{Name: "chat"}}
	limits, err := rules.New(ratesOnly, mustParse(t, `{"default": {"unlimited": true}}`), options)
	if err != nil {
		t.Fatal(err)
	}
	err = limits.Replace(mustParse(t, `{"default": {"unlimited": true, "concurrent": 2}}`))
	if want := "default.concurrent needs a store that keeps leases"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
