package router_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// refusalLog collects what OnRefused gets.
type refusalLog struct {
	mu  sync.Mutex
	all []router.Refused
}

func (l *refusalLog) hook(info router.Refused) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, info)
}

func (l *refusalLog) take() []router.Refused {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.all = nil }()
	return l.all
}

// refusingGate is a gate that refuses with two errors, before and after authentication.
type refusingGate struct{ admit, identify error }

func (g refusingGate) Admit(*http.Request, netip.Addr) (ingress.Admission, error) {
	if g.admit != nil {
		return nil, g.admit
	}
	return g, nil
}
func (g refusingGate) Identify(context.Context, *ingress.Identity) error { return g.identify }
func (g refusingGate) Release()                                          {}

// Each handshake that is refused is reported once, with the check that failed, and without the
// secrets in the request.
func TestRefusedHandshakesAreReported(t *testing.T) {
	t.Parallel()
	const secret = "3c59dc048e88"
	denied := errors.PermissionDenied.New("not today")
	full := &errors.LimitExceeded{Kind: errors.LimitConnection, Observed: 11, Limit: 10}
	authenticate := func(err error) func(*http.Request) (ingress.Identity, error) {
		return func(*http.Request) (ingress.Identity, error) { return ingress.Identity{}, err }
	}
	for _, tc := range []struct {
		name string
		opts router.Options
		edit func(handshake string) string
		down bool
		want string // kind and code; empty: it is not reported
	}{
		{name: "accepted"},
		{name: "no handshake", edit: func(h string) string { return strings.Replace(h, "Upgrade: websocket", "X: y", 1) }, want: "handshake INVALID_ARGUMENT"},
		{name: "a body", edit: func(h string) string { return strings.Replace(h, "\r\n\r\n", "\r\nContent-Length: 4\r\n\r\nbody", 1) }, want: "handshake INVALID_ARGUMENT"},
		{name: "no key", edit: func(h string) string { return strings.Replace(h, "Sec-WebSocket-Key", "X-Key", 1) }, want: "handshake INVALID_ARGUMENT"},
		{name: "another version", edit: func(h string) string { return strings.Replace(h, "Version: 13", "Version: 8", 1) }, want: "handshake INVALID_ARGUMENT"},
		{name: "host", opts: router.Options{Handshake: router.Handshake{Hosts: []string{"chat.example"}}}, want: "host PERMISSION_DENIED"},
		{name: "origin", edit: func(h string) string {
			return strings.Replace(h, "\r\n\r\n", "\r\nOrigin: https://evil.example\r\n\r\n", 1)
		}, want: "origin PERMISSION_DENIED"},
		{name: "gate", opts: router.Options{Gate: refusingGate{admit: full}}, want: "gate RESOURCE_EXHAUSTED"},
		{name: "gate after authentication", opts: router.Options{Gate: refusingGate{identify: denied}}, want: "gate PERMISSION_DENIED"},
		{name: "identity", opts: router.Options{Authenticate: authenticate(errors.Unauthenticated.New("unknown token"))}, want: "identity UNAUTHENTICATED"},
		{name: "identity is a fault", opts: router.Options{Authenticate: authenticate(errors.New("no database"))}},
		{name: "identity panics", opts: router.Options{Authenticate: func(*http.Request) (ingress.Identity, error) { panic("on purpose") }}},
		{name: "shutting down", down: true, want: "draining UNAVAILABLE"},
		{name: "open", opts: router.Options{OnOpen: func(*router.Conn) error { return denied }}, want: "open PERMISSION_DENIED"},
		{name: "open is limited", opts: router.Options{OnOpen: func(*router.Conn) error { return full }}, want: "open RESOURCE_EXHAUSTED"},
		{name: "open is a fault", opts: router.Options{OnOpen: func(*router.Conn) error { return errors.New("no database") }}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log refusalLog
			tc.opts.OnRefused, tc.opts.OnError = log.hook, func(router.Fault) {}
			s := serveSocket(t, tc.opts, nil)
			handshake := s.handshake("Authorization: Bearer "+secret, "Cookie: sid="+secret)
			handshake = strings.Replace(handshake, "GET /ws", "GET /ws?access_token="+secret, 1)
			if tc.edit != nil {
				handshake = tc.edit(handshake)
			}
			if tc.down {
				_ = s.r.Shutdown(t.Context())
			}
			const times = 3
			for range times {
				p := s.connect()
				p.write([]byte(handshake))
				p.response()
				p.hangUp()
			}
			s.settled()
			if tc.want == "" {
				if got := log.take(); len(got) != 0 {
					t.Errorf("reported: %+v", got)
				}
				return
			}
			var got []router.Refused
			eventually(t, "the hook to be called", func() bool { got = append(got, log.take()...); return len(got) >= times })
			if got = append(got, log.take()...); len(got) != times {
				t.Fatalf("%d refusalLog, and the hook was called %d times: %+v", times, len(got), got)
			}
			i := got[0]
			if s := fmt.Sprint(i.Kind, " ", i.Code); s != tc.want {
				t.Errorf("reported as %s, want %s", s, tc.want)
			}
			if i.IP.String() != "127.0.0.1" || i.Message == "" || i.Type != "" || (i.Conn != nil) != (i.Kind == router.RefusedOpen) {
				t.Errorf("reported: %+v", i)
			}
			if strings.Contains(fmt.Sprintf("%#v %#v", i, i.Conn), secret) {
				t.Errorf("the report has the secret: %+v", i)
			}
		})
	}
}

// Each message that is refused before its handler is reported once, with the check that failed, and
// without its payload. What other hooks get, and what handlers refuse, is not reported.
func TestRefusedMessagesAreReported(t *testing.T) {
	t.Parallel()
	const secret = "3c59dc048e88"
	type order struct {
		Text string `json:"text" validate:"max=3"`
		N    int    `json:"n,omitempty"`
	}
	for _, tc := range []struct{ name, frame, want string }{
		{"handled", `{"type":"order","payload":{"text":"a"}}`, ""},
		{"payload of another type", `{"type":"order","payload":{"text":"a","n":"` + secret + `"}}`, "payload INVALID_ARGUMENT order"},
		{"payload not valid", `{"type":"order","payload":{"text":"` + secret + `"}}`, "payload INVALID_ARGUMENT order"},
		{"unknown member", `{"type":"order","payload":{"text":"a","` + secret + `":1}}`, "payload INVALID_ARGUMENT order"},
		{"no payload", `{"type":"order"}`, "payload INVALID_ARGUMENT order"},
		{"request, payload not valid", `{"type":"ask","meta":{"correlationId":"` + secret + `"},"payload":{"text":"long"}}`, "payload INVALID_ARGUMENT ask"},
		{"request without id", `{"type":"ask"}`, "envelope INVALID_ARGUMENT ask"},
		{"answer without id", `{"type":"$ws:answer","payload":{}}`, "envelope INVALID_ARGUMENT $ws:answer"},
		{"limits without id", `{"type":"$ws:limits","payload":{"types":[]}}`, "envelope INVALID_ARGUMENT $ws:limits"},
		{"limits of nothing", `{"type":"$ws:limits","meta":{"correlationId":"1"},"payload":{"types":"` + secret + `"}}`, "payload INVALID_ARGUMENT $ws:limits"},
		{"limits of a type that middleware refuses", `{"type":"$ws:limits","meta":{"correlationId":"1"},"payload":{"types":["denied"]}}`, "middleware PERMISSION_DENIED $ws:limits"},
		{"abort without id", `{"type":"$ws:abort"}`, "envelope INVALID_ARGUMENT $ws:abort"},
		{"not JSON", secret, "envelope INVALID_ARGUMENT "},
		{"not an object", `"` + secret + `"`, "envelope INVALID_ARGUMENT "},
		{"not registered", `{"type":"` + secret + `"}`, "type UNIMPLEMENTED "},
		{"reserved", `{"type":"__` + secret + `"}`, "type INVALID_ARGUMENT "},
		{"middleware", `{"type":"denied"}`, "middleware PERMISSION_DENIED denied"},
		{"middleware's fault", `{"type":"broken"}`, ""},
		{"limit", `{"type":"limited"}`, ""},
		{"too large", `{"type":"order","payload":"` + strings.Repeat("x", 2<<10) + `"}`, ""},
		{"handler's error", `{"type":"fails"}`, ""},
		{"handler's panic", `{"type":"panics"}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log refusalLog
			inMemory(t, router.Options{
				OnRefused: log.hook, OnError: func(router.Fault) {}, Strict: true, Limits: router.Limits{MaxPayload: 1 << 10},
			}, func(r *router.Router) {
				event := func(err error) func(*router.Context, struct{}) error {
					return func(*router.Context, struct{}) error { return err }
				}
				errs := map[string]error{
					"denied": errors.PermissionDenied.New("not today"), "broken": errors.New("broken"),
					"limited": &errors.LimitExceeded{Kind: errors.LimitRate},
				}
				r.Use(func(next ingress.Handler) ingress.Handler {
					return func(c *ingress.Context) error {
						if err := errs[c.Type]; err != nil {
							return err
						}
						return next(c)
					}
				})
				router.On(r, "order", func(*router.Context, order) error { return nil })
				router.RPC(r, "ask", func(_ *router.Context, o order) (order, error) { return o, nil })
				for typ := range errs {
					router.On(r, typ, event(nil))
				}
				router.On(r, "fails", event(errors.NotFound.New("no such room")))
				router.On(r, "panics", func(*router.Context, struct{}) error { panic("on purpose") })
			}, func(t *testing.T, r *router.Router, c *routertest.Client) {
				c.SendRaw(tc.frame)
				synctest.Wait()
				got := log.take()
				if len(got) == 1 {
					if n := outcomesOf(t, r.Stats(), got[0].Type); len(n) != 1 || n[got[0].Code] != 1 {
						t.Errorf("counted as %v, want one %s", n, got[0].Code)
					}
				}
				if tc.want == "" {
					if len(got) != 0 {
						t.Errorf("reported: %+v", got)
					}
					return
				}
				if len(got) != 1 {
					t.Fatalf("the hook was called %d times: %+v", len(got), got)
				}
				i := got[0]
				if s := fmt.Sprint(i.Kind, " ", i.Code, " ", i.Type); s != tc.want {
					t.Errorf("reported as %s, want %s", s, tc.want)
				}
				if i.Conn == nil || i.Message == "" {
					t.Errorf("reported: %+v", i)
				}
				if i.Conn = nil; strings.Contains(fmt.Sprintf("%#v", i), secret) {
					t.Errorf("the report has text of the frame: %+v", i)
				}
			})
		})
	}
}

// A message that comes while the router shuts down.
func TestRefusedWhileShuttingDownIsReported(t *testing.T) {
	t.Parallel()
	var log refusalLog
	var release chan struct{}
	inMemory(t, router.Options{OnRefused: log.hook}, func(r *router.Router) {
		release = make(chan struct{})
		router.RPC(r, "slow", func(*router.Context, struct{}) (struct{}, error) { <-release; return struct{}{}, nil })
	}, func(t *testing.T, r *router.Router, c *routertest.Client) {
		q := c.Request("slow", nil)
		synctest.Wait()
		go func() { _ = r.Shutdown(context.Background()) }()
		synctest.Wait()
		c.Request("slow", nil).ExpectError(errors.Unavailable)
		close(release)
		routertest.ExpectReply[struct{}](q)
		synctest.Wait()
		if got := log.take(); len(got) != 1 || got[0].Kind != router.RefusedDraining || got[0].Type != "slow" {
			t.Errorf("reported: %+v", got)
		}
	})
}

// A hook that hangs, panics or ends its goroutine delays no client, and loses no report but its own.
func TestRefusedHooksThatFail(t *testing.T) {
	t.Parallel()
	var log, second refusalLog
	var release chan struct{}
	inMemory(t, router.Options{
		OnError: func(router.Fault) {},
		OnRefused: func(i router.Refused) {
			log.hook(i)
			switch len(log.all) {
			case 1:
				<-release
			case 2:
				panic("on purpose")
			case 3:
				runtime.Goexit()
			}
		},
	}, func(r *router.Router) {
		release = make(chan struct{})
		r.AddHooks(router.Hooks{OnRefused: second.hook})
	}, func(t *testing.T, r *router.Router, c *routertest.Client) {
		for range 5 {
			c.Request("unheard.of", nil).ExpectError(errors.Unimplemented)
		}
		close(release)
		synctest.Wait()
		if a, b := len(log.take()), len(second.take()); a != 5 || b != 5 {
			t.Errorf("5 refusalLog, and the hooks were called %d and %d times", a, b)
		}
		if s := r.Stats(); s.HooksMissed != 0 || s.Faults != 1 {
			t.Errorf("Stats are %+v, want one fault", s)
		}
	})
}

// A message of a client whose identity has expired.
func TestRefusedExpiredIdentityIsReported(t *testing.T) {
	t.Parallel()
	var log refusalLog
	var conn *router.Conn
	inMemory(t, router.Options{
		OnRefused: log.hook,
		OnOpen:    func(c *router.Conn) error { conn = c; return nil },
		Authenticate: func(*http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: "ann", ExpiresAt: time.Now().Add(time.Hour)}, nil
		},
	}, func(r *router.Router) {
		router.RPC(r, "ask", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		router.StepClock(conn, 2*time.Hour)
		c.Request("ask", nil).ExpectError(errors.Unauthenticated)
		synctest.Wait()
		if got := log.take(); len(got) != 1 || got[0].Kind != router.RefusedIdentity || got[0].Conn != conn || got[0].Type != "ask" {
			t.Errorf("reported: %+v", got)
		}
	})
}
