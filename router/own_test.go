package router_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/router"
)

// once lets n frames of a user pass in an hour, whatever their types.
func once(n int64) ingress.Middleware {
	return ratelimit.New(limit.New(memory.NewStore(), limit.FixedWindow{Limit: n, Window: 24 * time.Hour}), ratelimit.PerUserOrIP)
}

// How many of n requests are answered with a reply; all others must be refused by a limit.
func (p *peer) admitted(typ string, n int) (replies int) {
	p.t.Helper()
	for range n {
		p.write(request("1", typ))
		switch got := p.next(); got {
		case "reply 1 ", "reply 1 x":
			replies++
		case "RPC_ERROR 1 RESOURCE_EXHAUSTED":
		default:
			p.t.Fatalf("%s is answered %q", typ, got)
		}
	}
	return replies
}

func (p *peer) admits(typ string, want int) {
	p.t.Helper()
	if got := p.admitted(typ, want+3); got != want {
		p.t.Errorf("%s: %d of %d pass, want %d", typ, got, want+3, want)
	}
}

// A limit that is declared with a route or a group charges its types alone, and what the
// router's middleware charges besides is charged once.
func TestLimitsOfARoute(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		r.Use(once(40))
		router.RPC(r.With(once(2)), "search", ok)
		g := r.Group("board.")
		g.Use(once(5))
		router.RPC(g, "open", ok)
		router.RPC(g.With(once(3)), "draw", ok)
	})
	p := s.dial()
	p.admits("search", 2)     // 5 sent
	p.admits("board.draw", 3) // 6 sent; all of them count for the group, whose limit is reached
	p.admits("board.open", 0) // 3 sent
	p.admits("echo", 40-5-6-3)
	p.bye()
	s.settled()
}

// A type that is exempt is free from what the router and the groups around charge, and not
// from what itself or its group charges. Other types pay as before.
func TestExemptTypes(t *testing.T) {
	t.Parallel()
	given, err := rules.Parse([]byte(`{"default": {"perMinute": 1, "burst": 2}}`))
	if err != nil {
		t.Fatal(err)
	}
	ruled, err := rules.New(memory.NewStore(), given, rules.Options{Key: ratelimit.PerUserOrIP})
	if err != nil {
		t.Fatal(err)
	}
	for name, charge := range map[string]ingress.Middleware{
		"a limit":        once(2),
		"rules":          ruled.Middleware,
		"per connection": ratelimit.NewPerConnection(limit.FixedWindow{Limit: 2, Window: 24 * time.Hour}),
	} {
		t.Run(name, func(t *testing.T) {
			exempt := router.RouteOptions{Exempt: true}
			s := serveSocket(t, router.Options{}, func(r *router.Router) {
				r.Use(charge)
				router.RPC(r, "typing", ok, exempt)
				router.RPC(r.With(once(4)), "draw", ok, router.RouteOptions{Exempt: true})

				free := r.Group("free.", exempt)
				router.RPC(free, "a", ok)
				free.Use(once(7))
				router.RPC(free.Group("er.", exempt), "b", ok)
			})
			p := s.dial()
			if got := p.admitted("typing", 50); got != 50 {
				t.Errorf("%d of 50 messages of an exempt type pass", got)
			}
			p.admits("draw", 4)
			p.admits("free.a", 7)
			if got := p.admitted("free.er.b", 50); got != 50 {
				t.Errorf("%d of 50 messages of an exempt group within another pass", got)
			}
			// In one write, what is exempt does not free what follows.
			var together []byte
			for range 4 {
				together = append(append(together, request("1", "typing")...), request("2", "echo")...)
			}
			p.write(together)
			p.expectInAnyOrder("reply 1 ", "reply 1 ", "reply 1 ", "reply 1 ",
				"reply 2 x", "reply 2 x", "RPC_ERROR 2 RESOURCE_EXHAUSTED", "RPC_ERROR 2 RESOURCE_EXHAUSTED")
			p.admits("echo", 0)
			if got := p.admitted("typing", 5); got != 5 {
				t.Errorf("%d of 5 messages of an exempt type pass when nothing is left", got)
			}
			p.bye()
			s.settled()
		})
	}
}

// Bans are no charge: they see what a route's own limit rejects, and hold for types that
// are exempt. So does a deny list.
func TestExemptTypesAreNotFreeFromBans(t *testing.T) {
	t.Parallel()
	bans := ratelimit.NewBans(memory.NewStore(), ratelimit.BanOptions{After: 3})
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		r.Use(bans.Middleware)
		router.RPC(r, "typing", ok, router.RouteOptions{Exempt: true})
		router.RPC(r.With(once(1)), "search", ok, router.RouteOptions{Exempt: true})
	})
	p := s.dial()
	p.write(request("1", "search"), request("2", "search"), request("3", "search"), request("4", "typing"))
	// A refusal may overtake the answer of a handler.
	p.expectInAnyOrder("reply 1 ", "RPC_ERROR 2 RESOURCE_EXHAUSTED", "RPC_ERROR 3 RESOURCE_EXHAUSTED", "reply 4 ")
	p.write(request("5", "search")) // the third rejection
	p.expect("close 4429")
	p.hangUp()
	p = s.dial()
	p.write(request("6", "typing"))
	p.expect("close 4429")
	p.hangUp()
	s.settled()
}

func TestDenyListsHoldForExemptTypes(t *testing.T) {
	t.Parallel()
	given, err := rules.Parse([]byte(`{"default": {"unlimited": true}, "deny": [{"user": "eve"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	limits, err := rules.New(memory.NewStore(), given)
	if err != nil {
		t.Fatal(err)
	}
	s := serveSocket(t, router.Options{Authenticate: func(*http.Request) (ingress.Identity, error) {
		return ingress.Identity{User: "eve"}, nil
	}}, func(r *router.Router) {
		r.Use(limits.Middleware)
		router.RPC(r, "typing", ok, router.RouteOptions{Exempt: true})
	})
	p := s.dial()
	p.write(request("1", "typing"))
	p.expect("RPC_ERROR 1 PERMISSION_DENIED")
	p.bye()
	s.settled()
}

// sized is a request of exactly size bytes, whose text has as much as fits.
func sized(typ string, size int) string {
	const form = `{"type":%q,"meta":{"correlationId":"1"},"payload":{"text":%q}}`
	return fmt.Sprintf(form, typ, strings.Repeat("x", size-len(fmt.Sprintf(form, typ, ""))))
}

// limitOf reads the answer to a request that is too large.
func (p *peer) limitOf() (limit int64) {
	p.t.Helper()
	f, err := p.read()
	var m struct {
		Type    string
		Meta    struct{ CorrelationID string }
		Payload struct {
			Code         errors.Code
			RetryAfterMs *int64
			Details      struct {
				Kind            string
				Observed, Limit int64
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(f.payload, &m)
	}
	d := m.Payload.Details
	if err != nil || m.Type != "RPC_ERROR" || m.Meta.CorrelationID != "1" || m.Payload.Code != errors.ResourceExhausted || d.Kind != "payload" || d.Observed != d.Limit+1 {
		p.t.Fatalf("a request that is too large is answered %.200s (%v)", f.payload, err)
	}
	return d.Limit
}

// Each type has the largest size that its route, its group or the router says, to the byte,
// however the message comes, and a frame over it is refused as one over the router's.
func TestSizesOfRoutes(t *testing.T) {
	t.Parallel()
	const small, byDefault, grouped, large = 200, 10_000, 20_000, 300_000
	var charged journal
	note := func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			charged.add(fmt.Sprint(c.Type, " ", c.Size))
			return next(c)
		}
	}
	register := func(r *router.Router) {
		r.Use(note)
		echo := func(_ *router.Context, m said) (said, error) { return m, nil }
		router.RPC(r, "small", echo, router.RouteOptions{MaxPayload: small})
		router.RPC(r, "plain", echo)
		g := r.Group("g.", router.RouteOptions{MaxPayload: grouped})
		router.RPC(g, "a", echo)
		router.RPC(g, "large", echo, router.RouteOptions{MaxPayload: large})
	}
	limits := router.Limits{MaxPayload: byDefault}
	for _, way := range []struct {
		name  string
		opts  router.Options
		lines []string
		send  func(p *peer, message string)
	}{
		{"whole", router.Options{Limits: limits}, nil, func(p *peer, m string) { p.write(textFrame(m)) }},
		{"in parts", router.Options{Limits: limits}, nil, func(p *peer, m string) {
			p.write(frame(opText, m[:len(m)/2]), frame(fin|opCont, m[len(m)/2:]))
		}},
		{"compressed", router.Options{Limits: limits, Compression: true}, []string{"Sec-WebSocket-Extensions: permessage-deflate"}, func(p *peer, m string) {
			p.write(deflatedFrame(m))
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			s := serveSocket(t, way.opts, register)
			p := s.dial(way.lines...)
			for _, tc := range []struct {
				typ  string
				most int
			}{{"small", small}, {"plain", byDefault}, {"g.a", grouped}, {"g.large", large}, {"unknown", byDefault}} {
				for _, size := range []int{tc.most - 1, tc.most, tc.most + 1, tc.most + 5000, large + 1, 2 * large} {
					charged.take()
					way.send(p, sized(tc.typ, size))
					if size > tc.most {
						// In a message of which not all is read, the type is in the part that is.
						if got := p.limitOf(); got != int64(tc.most) {
							t.Errorf("%s of %d bytes: the limit is said to be %d, want %d", tc.typ, size, got, tc.most)
						}
						if got, want := charged.take(), fmt.Sprint(" ", tc.most+1); !slices.Equal(got, []string{want}) {
							t.Errorf("%s of %d bytes is charged as %q, want %q once", tc.typ, size, got, want)
						}
						continue
					}
					got := p.next()
					if tc.typ == "unknown" && got == "RPC_ERROR 1 UNIMPLEMENTED" {
						continue
					}
					if !strings.HasPrefix(got, "reply 1 xxx") {
						t.Fatalf("%s of %d bytes is answered %.100q", tc.typ, size, got)
					}
				}
			}
			p.bye()
			s.settled()
		})
	}
}
