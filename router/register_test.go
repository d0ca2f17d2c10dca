package router_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

func none(*router.Context, struct{}) error { return nil }

// Mistakes in the wiring fail at start-up and say what to change.
func TestWiringMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, says string
		wire       func()
	}{
		{"twice", "registered twice", func() { r := router.New(); router.On(r, "a", none); router.On(r, "a", none) }},
		{"empty type", "give it a name", func() { router.On(router.New(), "", none) }},
		{"reserved type", "reserved", func() { router.On(router.New(), "__mine", none) }},
		{"reserved error", "reserved", func() { router.On(router.New(), "RPC_ERROR", none) }},
		{"long type", "longer than 128", func() { router.On(router.New(), strings.Repeat("x", 129), none) }},
		{"reply of an event", "register it with RPC", func() {
			router.On(router.New(), "a", none, router.RouteOptions{Reply: "b"})
		}},
		{"unknown rule", "RegisterValidation", func() {
			router.On(router.New(), "a", func(*router.Context, struct {
				A string `validate:"requird"`
			}) error {
				return nil
			})
		}},
		{"nil handler", "pass a function", func() { router.On[struct{}](router.New(), "a", nil) }},
		{"nil middleware", "argument 2 of Use is nil", func() { router.New().Use(ingress.RequireUser, nil) }},
		{"nil middleware of handlers", "UseHandler is nil", func() { router.New().UseHandler(nil) }},
		{"nil middleware of routes", "With is nil", func() { router.New().With(nil) }},
		{"two options", "merge them", func() {
			router.On(router.New(), "a", none, router.RouteOptions{}, router.RouteOptions{})
		}},
		{"any origin", "InsecureAnyOrigin", func() { router.New(router.Options{Origins: []string{"*"}}) }},
		{"origin with a path", "has no path", func() { router.New(router.Options{Origins: []string{"https://a.example/chat"}}) }},
		{"host with a path", "has no path", func() { router.New(router.Options{Origins: []string{"a.example/chat"}}) }},
		{"any host", "leave Hosts empty", func() { router.New(router.Options{Handshake: router.Handshake{Hosts: []string{"*"}}}) }},
		{"own host with a path", "has no path", func() { router.New(router.Options{Handshake: router.Handshake{Hosts: []string{"a.example/chat"}}}) }},
		{"own host with the scheme of WebSockets", "https or http", func() { router.New(router.Options{Handshake: router.Handshake{Hosts: []string{"wss://a.example"}}}) }},
		{"bad pattern", "malformed", func() { router.New(router.Options{Origins: []string{"[a"}}) }},
		{"payload", "in bytes", func() { router.New(router.Options{Limits: router.Limits{MaxPayload: -1}}) }},
		{"queue", "in bytes", func() { router.New(router.Options{Limits: router.Limits{MaxQueued: 1}}) }},
		{"custom without a hook", "OnLimitExceeded", func() { router.New(router.Options{Limits: router.Limits{OnExceeded: router.OnExceededCustom}}) }},
		{"close code", "4000 to 4999", func() { router.New(router.Options{Limits: router.Limits{CloseCode: 1006}}) }},
		{"wait for a CPU", "at least 1ms", func() { router.New(router.Options{Overload: router.OverloadOptions{Target: time.Microsecond}}) }},
		{"priority of a tier", "from -3 to 3", func() { router.New(router.Options{Overload: router.OverloadOptions{Tiers: map[string]int{"paid": 4}}}) }},
		{"priority of a route", "from -3 to 3", func() { router.On(router.New(), "x", none, router.RouteOptions{Priority: -4}) }},
		{"time", "negative", func() { router.New(router.Options{Liveness: router.Liveness{PongTimeout: -1}}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defer func() {
				v, _ := recover().(string)
				if !strings.HasPrefix(v, "router: ") || !strings.Contains(v, tc.says) {
					t.Errorf("panic is %q, want it to begin with the package and say %q", v, tc.says)
				}
			}()
			tc.wire()
		})
	}
}

func TestRegisteringAfterServing(t *testing.T) {
	t.Parallel()
	r := router.New()
	g := r.Group("g.")
	routertest.New(t, r).Dial()
	for name, late := range map[string]func(){
		"Declare":          func() { router.Declare[int](r, "late") },
		"On, in a group":   func() { router.On(g, "late", none) },
		"Group.Use":        func() { g.Use(func(h ingress.Handler) ingress.Handler { return h }) },
		"Group.UseHandler": func() { g.UseHandler(func(h router.Handler) router.Handler { return h }) },
		"On":               func() { router.On(r, "late", none) },
		"Use":              func() { r.Use(func(h ingress.Handler) ingress.Handler { return h }) },
		"UseHandler":       func() { r.UseHandler(func(h router.Handler) router.Handler { return h }) },
	} {
		func() {
			defer func() {
				if v, _ := recover().(string); !strings.Contains(v, "before http.Serve") {
					t.Errorf("%s: panic is %q", name, v)
				}
			}()
			late()
		}()
	}
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	r := router.New(router.Options{
		Origins: []string{"*.example.com", "https://other.test"},
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			switch token := ingress.Token(req); token {
			case "good":
				return ingress.Identity{User: "ann"}, nil
			case "":
				return ingress.Identity{}, errors.Unauthenticated.New("no token")
			case "banned":
				return ingress.Identity{}, errors.PermissionDenied.New("banned")
			case "fast":
				return ingress.Identity{}, errors.ResourceExhausted.New("slow down").WithRetryAfter(1100 * time.Millisecond)
			case "down":
				return ingress.Identity{}, errors.Unavailable.New("later")
			case "panic":
				panic("secret")
			default:
				return ingress.Identity{}, errors.New("secret")
			}
		},
		OnError: func(router.Fault) {},
	})
	router.RPC(r, "who", func(c *router.Context, _ struct{}) (string, error) { return c.Identity.User, nil })
	s := routertest.New(t, r)

	for _, tc := range []struct {
		name   string
		opts   routertest.DialOptions
		status int
		says   string
	}{
		{"no token", routertest.DialOptions{}, 401, "no token"},
		{"banned", routertest.DialOptions{Token: "banned"}, 403, "banned"},
		{"too fast", routertest.DialOptions{Token: "fast"}, 429, "slow down"},
		{"down", routertest.DialOptions{Token: "down"}, 503, "later"},
		{"uncoded", routertest.DialOptions{Token: "x"}, 500, "internal error"},
		{"panic", routertest.DialOptions{Token: "panic"}, 500, "internal error"},
		{"foreign origin", routertest.DialOptions{Token: "good", Header: http.Header{"Origin": {"https://evil.test"}}}, 403, "router.Options.Origins"},
		{"origin's scheme", routertest.DialOptions{Token: "good", Header: http.Header{"Origin": {"http://other.test"}}}, 403, "router.Options.Origins"},
		{"a suffix is no subdomain", routertest.DialOptions{Token: "good", Header: http.Header{"Origin": {"https://evilexample.com"}}}, 403, "router.Options.Origins"},
		{"two origins", routertest.DialOptions{Token: "good", Header: http.Header{"Origin": {"https://a.example.com", "https://evil.test"}}}, 403, ""},
		{"null origin", routertest.DialOptions{Token: "good", Header: http.Header{"Origin": {"null"}}}, 403, ""},
		{"token in a subprotocol", routertest.DialOptions{Token: "good"}, 101, ""},
		{"token in the query", routertest.DialOptions{Query: "access_token=good"}, 101, ""},
		{"token in a header", routertest.DialOptions{Header: http.Header{"Authorization": {"bearer good"}}}, 101, ""},
		{"same host", routertest.DialOptions{Token: "good", Header: http.Header{"Origin": {"https://RouterTest"}}}, 101, ""},
		{"listed origin", routertest.DialOptions{Token: "good", Header: http.Header{"Origin": {"https://A.Example.com"}}}, 101, ""},
		{"listed with scheme", routertest.DialOptions{Token: "good", Header: http.Header{"Origin": {"https://other.test"}}}, 101, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, res, err := s.TryDial(tc.opts)
			if tc.status == 101 {
				if err != nil {
					t.Fatal(err)
				}
				if res.Header.Get("X-Client-Id") == "" {
					t.Error("the answer has no X-Client-Id")
				}
				if p := res.Header.Get("Sec-WebSocket-Protocol"); p != "" && p != "bearer."+tc.opts.Token {
					t.Errorf("the subprotocol %q was agreed on", p)
				}
				if who := routertest.ExpectReply[string](c.Request("who", nil)); who != "ann" {
					t.Errorf("the user is %q", who)
				}
				return
			}
			if err == nil || res == nil || res.StatusCode != tc.status {
				t.Fatalf("got %v %+v, want status %d", err, res, tc.status)
			}
			body := make([]byte, 1024)
			n, _ := res.Body.Read(body)
			if ct := res.Header.Get("Content-Type"); ct != "application/problem+json" || !strings.Contains(string(body[:n]), tc.says) || strings.Contains(string(body[:n]), "secret") {
				t.Errorf("%s: %s, want it to say %q", ct, body[:n], tc.says)
			}
			if tc.status == 429 && res.Header.Get("Retry-After") != "2" {
				t.Errorf("Retry-After is %q, want 1.1 s rounded up", res.Header.Get("Retry-After"))
			}
		})
	}
}

func TestSubprotocols(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		options []string
		offered string
		agreed  string
	}{
		{"the first that is no token", nil, "bearer.secret, chat.v1, chat.v2", "chat.v1"},
		{"the most wanted", []string{"chat.v2", "chat.v1"}, "chat.v1, chat.v2", "chat.v2"},
		{"none in common", []string{"chat.v3"}, "chat.v1", ""},
		{"a token is never wanted", []string{"bearer.secret"}, "bearer.secret, chat.v1", ""},
		{"a token that is the only offer", []string{"chat.v1"}, "bearer.secret", "bearer.secret"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serveSocket(t, router.Options{Handshake: router.Handshake{Subprotocols: tc.options}}, nil)
			p := s.connect()
			p.write([]byte(s.handshake("Sec-WebSocket-Protocol: " + tc.offered)))
			res := p.response()
			if got := res.Header.Get("Sec-WebSocket-Protocol"); got != tc.agreed {
				t.Errorf("agreed on %q, want %q", got, tc.agreed)
			}
		})
	}
}

func TestAPlainRequestGetsAnExplanation(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		w := httptest.NewRecorder()
		router.New().ServeHTTP(w, httptest.NewRequest(method, "/ws", nil))
		if w.Code != http.StatusUpgradeRequired || !strings.Contains(w.Body.String(), "WebSocket client") {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
	w, req := httptest.NewRecorder(), httptest.NewRequest("GET", "/ws", nil) // of a client, through a proxy
	req.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	if router.New().ServeHTTP(w, req); w.Code != http.StatusUpgradeRequired || !strings.Contains(w.Body.String(), "the proxy") {
		t.Errorf("without Upgrade: %d %s", w.Code, w.Body)
	}
}
