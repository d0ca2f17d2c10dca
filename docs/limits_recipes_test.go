package docs_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The recipes of limits.md, as they stand there; that of Reserve is in limits_test.go.

type (
	Login struct{ Name, Password string }
	Hook  struct{ Host string }
)

func logins(r *router.Router, store limit.Store, check func(Login) bool) {
	perAddress := limit.New(store, limit.SlidingLog{Limit: 20, Window: 15 * time.Minute}, limit.Options{Name: "login-address"})
	perPair := limit.New(store, limit.SlidingLog{Limit: 5, Window: 15 * time.Minute}, limit.Options{Name: "login-pair"})
	perName := limit.New(store, limit.FixedWindow{Limit: 100, Window: 24 * time.Hour}, limit.Options{Name: "login-name"})

	logins := r.With(ratelimit.New(perAddress, ratelimit.PerIP))
	router.RPC(logins, "login", func(c *router.Context, q Login) (struct{}, error) {
		address := ingress.GroupIP(c.IP()).String()
		if err := ratelimit.Take(c, perPair, limit.KeyOf(q.Name, address), 1); err != nil {
			return struct{}{}, err
		}
		if err := ratelimit.Take(c, perName, limit.KeyOf(q.Name), 1); err != nil {
			return struct{}{}, err
		}
		if !check(q) {
			return struct{}{}, errors.Unauthenticated.New("name or password is wrong")
		}
		return struct{}{}, perPair.Reset(c, limit.KeyOf(q.Name, address))
	})
}

func uploads(r *router.Router, store limit.Store, saveChunk func(*router.Context, string) (struct{}, error)) {
	bytes := limit.New(store, limit.TokenBucket{Capacity: 10 << 20, Refill: 1 << 20, Per: time.Second}, limit.Options{Name: "upload-bytes"})
	chunks := limit.New(store, limit.TokenBucket{Capacity: 200, Refill: 50, Per: time.Second}, limit.Options{Name: "upload-chunks"})

	uploads := r.With(ratelimit.NewAll([]ratelimit.Layer{
		{Limiter: bytes, Key: ratelimit.PerUser, Cost: ratelimit.Bytes},
		{Limiter: chunks, Key: ratelimit.PerUser},
	}))
	router.RPC(uploads, "upload.chunk", saveChunk, router.RouteOptions{MaxPayload: 1 << 20})
}

func game(r *router.Router, applyInput func(*router.Context, struct{}) error) {
	input := limit.TokenBucket{Capacity: 5, Refill: 30, Per: time.Second}

	router.On(r.With(ratelimit.NewPerConnection(input, ratelimit.Options{Silent: true})), "input", applyInput)
}

func webhooks(r *router.Router, store limit.Store, post func(context.Context, Hook) error) *limit.ConcurrencyLimit {
	hosts := limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{
		Max: 4, LeaseTime: 10 * time.Second, Limiter: limit.Options{Name: "webhooks"},
	})

	router.RPC(r, "webhook.send", func(c *router.Context, q Hook) (struct{}, error) {
		release, err := ratelimit.Acquire(c, hosts, limit.KeyOf(q.Host))
		if err != nil {
			return struct{}{}, err // RESOURCE_EXHAUSTED of the kind in_flight, without a wait: none is known
		}
		defer release()
		return struct{}{}, post(c, q)
	}, router.RouteOptions{Concurrent: true, Timeout: 30 * time.Second})
	return hosts
}

func fairShare(r *router.Router, store limit.Store) {
	perTenant := limit.New(store, limit.TokenBucket{Capacity: 2000, Refill: 1000, Per: time.Second}, limit.Options{Name: "tenant"})
	perUser := limit.New(store, limit.TokenBucket{Capacity: 40, Refill: 20, Per: time.Second}, limit.Options{Name: "user"})
	work := limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{Max: 50, Limiter: limit.Options{Name: "work"}})

	r.Use(
		ratelimit.NewAll([]ratelimit.Layer{
			{Limiter: perUser, Key: ratelimit.PerUserOrIP},
			{Limiter: perTenant, Key: ratelimit.PerTenant},
		}),
		ratelimit.NewConcurrency(work, ratelimit.PerTenant),
	)
}

// The Go of limits.md is that of this file and of limits_test.go, and its rules are valid.
func TestLimitsPageShowsTestedCode(t *testing.T) {
	page, source := read(t, "limits.md"), oneSpace(read(t, "limits_test.go")+read(t, "limits_recipes_test.go"))
	blocks := 0
	for i, block := range strings.Split(page, "```") {
		if i%2 == 0 {
			continue
		}
		blocks++
		language, code, _ := strings.Cut(block, "\n")
		switch language {
		case "go":
			for _, part := range strings.Split(code, "\n\n") {
				if !strings.Contains(source, oneSpace(part)) {
					t.Errorf("limits.md shows code that is not tested:\n%s", part)
				}
			}
		case "json":
			if _, err := rules.Parse([]byte(code)); err != nil {
				t.Error(err)
			}
		}
	}
	if blocks < 8 {
		t.Errorf("limits.md has %d blocks", blocks)
	}
}

// recipes is a router for a recipe, and a store with a clock that the test moves.
func recipes() (clock *limittest.Clock, r *router.Router, store limit.Store) {
	clock = limittest.NewClock()
	store = memory.NewStore(memory.Options{Now: clock.Now})
	r = router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			q := req.URL.Query()
			return ingress.Identity{Tenant: q.Get("tenant"), User: q.Get("user")}, nil
		},
	})
	return clock, r, store
}

func dialAs(s *routertest.Server, tenant, user string) *routertest.Client {
	return s.Dial(routertest.DialOptions{Query: url.Values{"tenant": {tenant}, "user": {user}}.Encode()})
}

func TestLimitsRecipes(t *testing.T) {
	t.Run("logins", func(t *testing.T) {
		clock, r, store := recipes()
		logins(r, store, func(q Login) bool { return q.Password == "right" })
		c := dialAs(routertest.New(t, r), "", "")
		for range 5 {
			c.Request("login", Login{"ann", "wrong"}).ExpectError(errors.Unauthenticated)
		}
		f := c.Request("login", Login{"ann", "right"}).ExpectError(errors.ResourceExhausted)
		if f.RetryAfterMs == nil || *f.RetryAfterMs != (15*time.Minute).Milliseconds() {
			t.Errorf("the wait is %v ms", f.RetryAfterMs)
		}
		clock.Advance(15 * time.Minute)
		for range 8 { // a success gives the attempts back
			routertest.ExpectReply[struct{}](c.Request("login", Login{"ann", "right"}))
		}
		for i := range 12 { // 20 of an address in all
			c.Request("login", Login{string(rune('a' + i)), "wrong"}).ExpectError(errors.Unauthenticated)
		}
		c.Request("login", Login{"zoe", "right"}).ExpectError(errors.ResourceExhausted)
	})
	t.Run("uploads", func(t *testing.T) {
		clock, r, store := recipes()
		uploads(r, store, func(*router.Context, string) (struct{}, error) { return struct{}{}, nil })
		c := dialAs(routertest.New(t, r), "acme", "ann")
		chunk := strings.Repeat("x", 1<<20-200)
		for range 10 {
			routertest.ExpectReply[struct{}](c.Request("upload.chunk", chunk))
		}
		c.Request("upload.chunk", chunk).ExpectError(errors.ResourceExhausted)
		clock.Advance(time.Second)
		routertest.ExpectReply[struct{}](c.Request("upload.chunk", chunk))
	})
	t.Run("game", func(t *testing.T) {
		_, r, _ := recipes()
		game(r, func(*router.Context, struct{}) error { return nil })
		router.RPC(r, "over", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
		c := dialAs(routertest.New(t, r), "acme", "ann")
		for range 1000 {
			c.Send("input", struct{}{})
		}
		routertest.ExpectReply[struct{}](c.Request("over", nil))
		if n := len(c.Frames()); n != 0 || r.Stats().Unanswered == 0 {
			t.Errorf("%d inputs are answered, and %d dropped", n, r.Stats().Unanswered)
		}
	})
	t.Run("webhooks", func(t *testing.T) {
		_, r, store := recipes()
		begun, letGo := make(chan bool, 10), make(chan bool)
		hosts := webhooks(r, store, func(context.Context, Hook) error { begun <- true; <-letGo; return nil })
		c := dialAs(routertest.New(t, r), "acme", "ann")
		var waits []*routertest.Request
		for _, host := range []string{"slow", "slow", "slow", "slow", "other"} {
			waits = append(waits, c.Request("webhook.send", Hook{host}))
			<-begun
		}
		if f := c.Request("webhook.send", Hook{"slow"}).ExpectError(errors.ResourceExhausted); f.RetryAfterMs != nil {
			t.Errorf("the wait is %v ms, which cannot be known", *f.RetryAfterMs)
		}
		close(letGo)
		for _, q := range waits {
			routertest.ExpectReply[struct{}](q)
		}
		if n, err := hosts.Held(t.Context(), limit.KeyOf("slow")); n != 0 || err != nil {
			t.Errorf("%d places are held, %v", n, err)
		}
	})
	t.Run("fair share", func(t *testing.T) {
		_, r, store := recipes()
		fairShare(r, store)
		router.RPC(r, "ask", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
		s := routertest.New(t, r)
		ann := dialAs(s, "acme", "ann")
		for range 40 {
			routertest.ExpectReply[struct{}](ann.Request("ask", nil))
		}
		ann.Request("ask", nil).ExpectError(errors.ResourceExhausted)
		routertest.ExpectReply[struct{}](dialAs(s, "acme", "bob").Request("ask", nil))
		routertest.ExpectReply[struct{}](dialAs(s, "initech", "ann").Request("ask", nil))
	})
}
