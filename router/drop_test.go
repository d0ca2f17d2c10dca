package router_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// rejecting is middleware that rejects frames of the types cursor and text, and passes all others.
func rejecting(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		if c.Type == "echo" {
			return next(c)
		}
		return &errors.LimitExceeded{Kind: errors.LimitRate, Limit: 1, RetryAfter: time.Second}
	}
}

// What is dropped has no answer and is counted. Whatever has a correlation id is answered, and so
// are other types and limits.
func TestDroppedFrames(t *testing.T) {
	t.Parallel()
	limiting := func(drop bool) ingress.Middleware {
		m := ratelimit.New(limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 1, Refill: 1, Per: 24 * time.Hour}), ratelimit.PerUserOrIPPerType, ratelimit.Options{Silent: drop, Cost: func(*ingress.Context) int { return 2 }})
		return func(next ingress.Handler) ingress.Handler {
			limited := m(next)
			return func(c *ingress.Context) error {
				if c.Type == "echo" {
					return next(c)
				}
				return limited(c)
			}
		}
	}
	event := func(*router.Context, struct{}) error { return nil }
	const (
		cursor, cursorID = `{"type":"cursor"}`, `{"type":"cursor","meta":{"correlationId":"1"}}`
		text, ask        = `{"type":"text"}`, `{"type":"ask","meta":{"correlationId":"1"}}`
	)
	large := `{"type":"cursor","payload":"` + strings.Repeat("x", 1<<10) + `"}`
	answered := "ERROR RESOURCE_EXHAUSTED"
	for _, tc := range []struct {
		name        string
		limits      router.Limits
		route       router.RouteOptions // of cursor and ask
		middleware  ingress.Middleware
		text, large string // the answers; empty: none
	}{
		{"all", router.Limits{OnExceeded: router.OnExceededSilent}, router.RouteOptions{}, rejecting, "", ""},
		{"one type", router.Limits{}, router.RouteOptions{Silent: true}, rejecting, answered, answered},
		{"one type, rate limit", router.Limits{}, router.RouteOptions{Silent: true}, limiting(false), "ERROR FAILED_PRECONDITION", answered},
		{"one limit", router.Limits{}, router.RouteOptions{}, limiting(true), "", "ERROR RESOURCE_EXHAUSTED"},
	} {
		for _, grouped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, grouped %v", tc.name, grouped), func(t *testing.T) {
				var hooked rejections
				tc.limits.MaxPayload = 1 << 10
				s := serveSocket(t, router.Options{Limits: tc.limits, OnLimitExceeded: hooked.hook}, func(r *router.Router) {
					r.Use(tc.middleware)
					router.On(r, "text", event)
					to, opts := router.Registrar(r), tc.route
					if grouped {
						to, opts = r.Group("", tc.route), router.RouteOptions{}
					}
					router.On(to, "cursor", event, opts)
					router.RPC(to, "ask", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, opts)
				})
				p := s.dial()
				rejected, dropped := int64(0), int64(0)
				send := func(frame, want string) {
					t.Helper()
					p.write(textFrame(frame), echo("next", ""))
					rejected++
					if want == "" {
						dropped++
					} else if got := p.next(); !strings.HasPrefix(got, want) {
						t.Fatalf("%.60s is answered %q, want %q", frame, got, want)
					}
					if got := p.next(); got != "reply next " {
						t.Fatalf("after %.60s: %q, want nothing but the answer to the next request", frame, got)
					}
				}
				for range 3 {
					send(cursor, "")
				}
				send(cursorID, "RPC_ERROR 1 ")
				send(ask, "RPC_ERROR 1 ")
				send(text, tc.text)
				send(large, tc.large)
				if got := s.r.Stats(); got.Rejected != rejected || got.Unanswered != dropped {
					t.Errorf("%d rejected and %d unanswered, want %d and %d", got.Rejected, got.Unanswered, rejected, dropped)
				}
				eventually(t, "the hook to be called for each", func() bool { return int64(len(hooked.all())) == rejected })
				p.bye()
			})
		}
	}
}

// A rejection that closes the connection is not dropped.
func TestDroppedFramesMayClose(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{Limits: router.Limits{OnExceeded: router.OnExceededSilent}}, func(r *router.Router) {
		router.On(r.With(func(ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error { e := banned; e.Silent = true; return c.Reject(e) }
		}), "cursor", func(*router.Context, struct{}) error { return nil }, router.RouteOptions{
			Silent: true,
		})
	})
	p := s.dial()
	p.write(textFrame(`{"type":"cursor"}`))
	p.expect("close 4429")
	p.hangUp()
	if got := s.r.Stats(); got.Rejected != 1 || got.Unanswered != 0 {
		t.Errorf("Stats are %+v", got)
	}
}

// A client whose frames are dropped does not know that it is over a limit, and is not banned.
func TestDroppedFramesAreNoReasonForABan(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	one := func(drop bool) ingress.Middleware {
		return ratelimit.New(limit.New(store, limit.TokenBucket{Capacity: 1, Refill: 1, Per: 24 * time.Hour}), ratelimit.PerUserOrIPPerType, ratelimit.Options{Silent: drop})
	}
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		r.Use(ratelimit.NewBans(store, ratelimit.BanOptions{After: 3}).Middleware)
		event := func(*router.Context, struct{}) error { return nil }
		router.On(r.With(one(true)), "limit drops", event)
		router.On(r.With(one(false)), "type drops", event, router.RouteOptions{Silent: true})
		router.On(r.With(one(false)), "answered", event)
	})
	p := s.dial()
	for _, typ := range []string{"limit drops", "type drops"} {
		for range 20 {
			p.write(textFrame(`{"type":"` + typ + `"}`))
		}
		p.write(echo("1", typ))
		p.expect("reply 1 " + typ)
	}
	if got := s.r.Stats().Unanswered; got != 2*19 {
		t.Errorf("%d frames were dropped, want 38", got)
	}
	for range 4 {
		p.write(textFrame(`{"type":"answered"}`))
	}
	p.expect("ERROR RESOURCE_EXHAUSTED", "ERROR RESOURCE_EXHAUSTED", "close 4429")
	p.hangUp()
}

// The details of a rejection say what is left.
func TestDetailsSayWhatIsLeft(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		l := limit.New(store, limit.TokenBucket{Capacity: 20, Refill: 1, Per: 24 * time.Hour})
		cost := map[string]int{"seven": 7, "one": 1}
		r.Use(ratelimit.New(l, ratelimit.PerUserOrIP, ratelimit.Options{Cost: func(c *ingress.Context) int { return max(1, cost[c.Type]) }}))
		router.On(r, "seven", func(*router.Context, struct{}) error { return nil })
		router.On(r, "take", func(*router.Context, struct{}) error {
			return ratelimit.Take(context.Background(), l, limit.KeyOf("room"), 5)
		})
	})
	p := s.dial()
	for range 3 {
		p.write(textFrame(`{"type":"seven"}`))
	}
	details := func(want string) {
		t.Helper()
		f, err := p.read()
		if err != nil || !strings.Contains(string(f.payload), `"details":`+want) {
			t.Fatalf("got %s, %v; want the details %s", f.payload, err, want)
		}
	}
	details(`{"kind":"rate","observed":7,"limit":20,"remaining":6}`)
	for range 5 {
		p.write(textFrame(`{"type":"take"}`))
	}
	details(`{"kind":"rate","observed":5,"limit":20,"remaining":0}`)
	p.write(textFrame(`{"type":"seven"}`))
	details(`{"kind":"rate","observed":7,"limit":20,"remaining":1}`)
	p.write(textFrame(`{"type":"seven","payload":"` + strings.Repeat("x", 64<<10) + `"}`))
	details(`{"kind":"payload","observed":65537,"limit":65536}`)
	p.bye()
}
