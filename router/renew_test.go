package router_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// An identity of these tests is the token "<tenant>/<user>/<roles>/<life>", where the roles are
// separated by + and the life is a time or empty.
func identityOf(token string) (ingress.Identity, error) {
	part := strings.Split(token, "/")
	if len(part) != 4 {
		return ingress.Identity{}, errors.Unauthenticated.New("bad token")
	}
	id := ingress.Identity{Tenant: part[0], User: part[1], Roles: strings.Split(part[2], "+"), Tier: part[2]}
	if part[3] != "" {
		life, err := time.ParseDuration(part[3])
		if err != nil {
			return ingress.Identity{}, err
		}
		id.ExpiresAt = time.Now().Add(life)
	}
	return id, nil
}

func authenticated(opts router.Options) router.Options {
	opts.Authenticate = func(r *http.Request) (ingress.Identity, error) { return identityOf(ingress.Token(r)) }
	if opts.Renew == nil {
		opts.Renew = func(_ context.Context, _ *router.Conn, token string) (ingress.Identity, error) {
			return identityOf(token)
		}
	}
	return opts
}

func bearer(token string) routertest.DialOptions {
	return routertest.DialOptions{Header: http.Header{"Authorization": {"Bearer " + token}}}
}

// renewing serves authenticated clients: "roles" says which roles the handler's identity has, and
// "delete" needs the role admin.
func renewing(t *testing.T, opts router.Options, token string, test func(*testing.T, *router.Router, *routertest.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := router.New(authenticated(opts))
		router.RPC(r, "roles", func(c *router.Context, _ struct{}) (string, error) {
			return strings.Join(c.Identity.Roles, "+"), nil
		})
		router.RPC(r.With(ingress.RequireRole("admin")), "delete", func(*router.Context, struct{}) (string, error) { return "deleted", nil })
		test(t, r, routertest.New(t, r).Dial(bearer(token)))
	})
}

type tokenOf struct {
	Token string `json:"token"`
}

type expiring struct {
	InMs int64 `json:"inMs"`
}

type renewed struct {
	ExpiresAt *int64 `json:"expiresAt"`
}

func renew(c *routertest.Client, token string) *routertest.Request {
	return c.Request("$ws:renew", tokenOf{token})
}

// wheelTick is how late the wheel may be.
const wheelTick = 500 * time.Millisecond

func mustBeWithin(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want || got > want+wheelTick {
		t.Errorf("%s after %v, want %v", what, got, want)
	}
}

func TestExpiryIsAnnouncedAndCloses(t *testing.T) {
	t.Parallel()
	var info atomic.Pointer[router.CloseInfo]
	opts := router.Options{OnClose: func(_ *router.Conn, i router.CloseInfo) { info.Store(&i) }}
	renewing(t, opts, "acme/ann/reader/5m", func(t *testing.T, _ *router.Router, c *routertest.Client) {
		start := time.Now()
		time.Sleep(4*time.Minute - time.Millisecond)
		if frames := c.Frames(); len(frames) != 0 {
			t.Errorf("there is a frame before the notice: %v", frames)
		}
		notice := routertest.ExpectEvent[expiring](c, "$ws:expiring")
		mustBeWithin(t, "the notice came", time.Since(start), 4*time.Minute)
		if left := 5*time.Minute - time.Since(start); notice.InMs > left.Milliseconds() || notice.InMs < left.Milliseconds()-1 {
			t.Errorf("the notice says %d ms, and %v are left", notice.InMs, left)
		}
		time.Sleep(5*time.Minute - time.Since(start) - time.Millisecond)
		if roles := routertest.ExpectReply[string](c.Request("roles", nil)); roles != "reader" {
			t.Errorf("the roles are %q", roles)
		}
		if reason := c.ExpectClose(errors.CloseUnauthenticated); reason != "identity expired" {
			t.Errorf("the reason is %q", reason)
		}
		mustBeWithin(t, "the connection ended", time.Since(start), 5*time.Minute)
		synctest.Wait()
		if i := info.Load(); i == nil || i.Code != errors.CloseUnauthenticated || !i.ByServer {
			t.Errorf("OnClose got %+v", i)
		}
		if frames := c.Frames(); len(frames) != 0 {
			t.Errorf("there are further frames: %v", frames)
		}
	})
}

func TestExpiryWithoutLiveness(t *testing.T) {
	t.Parallel()
	opts := router.Options{
		Liveness: router.Liveness{ExpiryNotice: -1, PingInterval: -1, MessageTimeout: -1},
	}
	renewing(t, opts, "acme/ann/reader/", func(t *testing.T, _ *router.Router, c *routertest.Client) {
		time.Sleep(24 * time.Hour)
		if r := routertest.ExpectReply[renewed](renew(c, "acme/ann/reader/5m")); r.ExpiresAt == nil || *r.ExpiresAt != time.Now().Add(5*time.Minute).UnixMilli() {
			t.Errorf("the answer is %v", r)
		}
		start := time.Now()
		time.Sleep(5*time.Minute - time.Millisecond)
		if frames := c.Frames(); len(frames) != 0 {
			t.Errorf("there is a notice: %v", frames)
		}
		c.ExpectClose(errors.CloseUnauthenticated)
		mustBeWithin(t, "the connection ended", time.Since(start), 5*time.Minute)
	})
}

func TestRenewedInTime(t *testing.T) {
	t.Parallel()
	renewing(t, router.Options{}, "acme/ann/reader/30s", func(t *testing.T, _ *router.Router, c *routertest.Client) {
		routertest.ExpectEvent[expiring](c, "$ws:expiring") // at once
		c.Request("delete", nil).ExpectError(errors.PermissionDenied)
		start := time.Now()
		routertest.ExpectReply[renewed](renew(c, "acme/ann/reader+admin/5m"))
		if roles := routertest.ExpectReply[string](c.Request("roles", nil)); roles != "reader+admin" {
			t.Errorf("the roles are %q", roles)
		}
		routertest.ExpectReply[string](c.Request("delete", nil))

		time.Sleep(4*time.Minute - time.Millisecond)
		if frames := c.Frames(); len(frames) != 0 {
			t.Errorf("there are further frames: %v", frames)
		}
		routertest.ExpectEvent[expiring](c, "$ws:expiring")
		mustBeWithin(t, "the second notice came", time.Since(start), 4*time.Minute)
		if r := routertest.ExpectReply[renewed](renew(c, "acme/ann/reader/")); r.ExpiresAt != nil {
			t.Errorf("an identity that never expires is answered %d", *r.ExpiresAt)
		}
		c.Request("delete", nil).ExpectError(errors.PermissionDenied)
		time.Sleep(time.Hour)
		if roles := routertest.ExpectReply[string](c.Request("roles", nil)); roles != "reader" || len(c.Frames()) != 0 {
			t.Errorf("the roles are %q", roles)
		}
	})
}

// A renewal that is refused changes nothing.
func TestRefusedRenewals(t *testing.T) {
	t.Parallel()
	var faults faults
	var calls atomic.Int64
	opts := router.Options{OnError: faults.add, Renew: func(_ context.Context, c *router.Conn, token string) (ingress.Identity, error) {
		calls.Add(1)
		switch token {
		case "panic":
			panic("in Renew")
		case "uncoded":
			return *c.Identity(), errors.New("the token server answers 500")
		case "denied":
			return *c.Identity(), errors.PermissionDenied.New("account suspended")
		}
		return identityOf(token)
	}}
	renewing(t, opts, "acme/ann/reader/1h", func(t *testing.T, _ *router.Router, c *routertest.Client) {
		for _, tc := range []struct {
			token string
			want  errors.Code
			calls int64
		}{
			{"acme/bob/admin/1h", "PERMISSION_DENIED", 1},
			{"other/ann/admin/1h", "PERMISSION_DENIED", 1},
			{"acme//admin/1h", "PERMISSION_DENIED", 1},
			{"acme/ann/admin/-1s", "UNAUTHENTICATED", 1},
			{"acme/ann/admin/0s", "UNAUTHENTICATED", 1},
			{"bad", "UNAUTHENTICATED", 1},
			{"denied", "PERMISSION_DENIED", 1},
			{"uncoded", "INTERNAL", 1},
			{"panic", "INTERNAL", 1},
			{"", "INVALID_ARGUMENT", 0},
			{strings.Repeat("x", 8<<10+1), "INVALID_ARGUMENT", 0},
			{strings.Repeat("x", 8<<10), "UNAUTHENTICATED", 1},
		} {
			calls.Store(0)
			renew(c, tc.token).ExpectError(tc.want)
			if n := calls.Load(); n != tc.calls {
				t.Errorf("%.20q: Renew is called %d times, want %d", tc.token, n, tc.calls)
			}
			if roles := routertest.ExpectReply[string](c.Request("roles", nil)); roles != "reader" {
				t.Errorf("%.20q: the roles are %q", tc.token, roles)
			}
		}
		calls.Store(0)
		c.Send("$ws:renew", tokenOf{"acme/ann/admin/1h"}) // no request
		c.ExpectError(errors.InvalidArgument)
		c.Request("$ws:renew", nil).ExpectError(errors.InvalidArgument)
		c.Request("$ws:renew", map[string]int{"token": 5}).ExpectError(errors.InvalidArgument)
		if n := calls.Load(); n != 0 {
			t.Errorf("Renew is called %d times without a token", n)
		}
		if got := faults.String(); !strings.Contains(got, "answers 500") || !strings.Contains(got, "in Renew") {
			t.Errorf("the faults are %s", got)
		}
	})
}

func TestRenewalIsUnimplementedWithoutTheHook(t *testing.T) {
	t.Parallel()
	inMemory(t, router.Options{}, func(*router.Router) {}, func(t *testing.T, _ *router.Router, c *routertest.Client) {
		renew(c, "token").ExpectError(errors.Unimplemented)
	})
}

// A renewal passes middleware before decoding like any message, and none after it; it is not
// repeated for an idempotency key, and is no activity of the client.
func TestRenewalsAsMessages(t *testing.T) {
	t.Parallel()
	var charged []string
	opts := router.Options{
		Backend:  adapters.Backend{Idempotency: memory.NewIdempotency()},
		Liveness: router.Liveness{IdleTimeout: time.Minute},
	}
	synctest.Test(t, func(t *testing.T) {
		opts := authenticated(opts)
		r := router.New(opts)
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				charged = append(charged, c.Type)
				if len(charged) > 2 {
					return errors.ResourceExhausted.New("too many renewals")
				}
				return next(c)
			}
		})
		r.UseHandler(func(router.Handler) router.Handler {
			return func(*router.Context) error { return errors.Internal.New("middleware of the application") }
		})
		c := routertest.New(t, r).Dial(bearer("acme/ann/reader/10m"))
		start := time.Now()
		for i, token := range []string{"acme/ann/admin/1h", "acme/ann/reader/1h"} {
			time.Sleep(10 * time.Second)
			c.SendRaw(fmt.Sprintf(`{"type":"$ws:renew","meta":{"correlationId":"r%d","idempotencyKey":"k"},"payload":{"token":%q}}`, i, token))
			if f := c.ExpectAny("$ws:renewed"); f.Meta.CorrelationID != "r"+strconv.Itoa(i) {
				t.Errorf("the answer is %s", f.Raw)
			}
		}
		if len(charged) > 0 {
			t.Errorf("charged are %s", charged)
		}
		time.Sleep(time.Minute - time.Since(start) - time.Millisecond)
		c.ExpectClose(errors.CloseNormal)
		mustBeWithin(t, "the connection was idle", time.Since(start), time.Minute)
	})
}

// slowly has Renew wait for release.
func slowly(t *testing.T, stubborn bool, token string, test func(t *testing.T, c *routertest.Client, release func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		opts := router.Options{Liveness: router.Liveness{ExpiryNotice: -1}, Renew: func(ctx context.Context, _ *router.Conn, token string) (ingress.Identity, error) {
			done := ctx.Done()
			if stubborn {
				done = nil
			}
			select {
			case <-released:
				return identityOf(token)
			case <-done:
				return ingress.Identity{}, ctx.Err()
			}
		}}
		r := router.New(authenticated(opts))
		router.RPC(r, "roles", func(c *router.Context, _ struct{}) (string, error) {
			return strings.Join(c.Identity.Roles, "+"), nil
		})
		c := routertest.New(t, r).Dial(bearer(token))
		test(t, c, func() { released <- struct{}{} })
	})
}

func TestOneRenewalAtATime(t *testing.T) {
	t.Parallel()
	slowly(t, false, "acme/ann/reader/1h", func(t *testing.T, c *routertest.Client, release func()) {
		first := renew(c, "acme/ann/admin/1h")
		time.Sleep(time.Second)
		// Other messages are handled meanwhile, with the old identity.
		if roles := routertest.ExpectReply[string](c.Request("roles", nil)); roles != "reader" {
			t.Errorf("the roles are %q", roles)
		}
		for range 3 {
			if f := renew(c, "acme/ann/owner/1h").ExpectError(errors.ResourceExhausted); !f.Retryable || !strings.Contains(string(f.Details), `"in_flight"`) {
				t.Errorf("a second renewal is answered %+v", f)
			}
		}
		release()
		routertest.ExpectReply[renewed](first)
		second := renew(c, "acme/ann/owner/1h")
		release()
		routertest.ExpectReply[renewed](second)
		if roles := routertest.ExpectReply[string](c.Request("roles", nil)); roles != "owner" {
			t.Errorf("the roles are %q", roles)
		}
	})
}

func TestRenewalsThatAreGivenUp(t *testing.T) {
	t.Parallel()
	for _, stubborn := range []bool{false, true} {
		t.Run(fmt.Sprint("stubborn ", stubborn), func(t *testing.T) {
			slowly(t, stubborn, "acme/ann/reader/1h", func(t *testing.T, c *routertest.Client, release func()) {
				aborted := renew(c, "acme/ann/admin/1h")
				synctest.Wait()
				aborted.Abort()
				aborted.ExpectError(errors.Cancelled)
				if stubborn {
					release() // too late: the client has the answer that nothing has changed
				}
				synctest.Wait()
				start := time.Now()
				late := renew(c, "acme/ann/admin/1h")
				time.Sleep(5 * time.Second)
				late.ExpectError(errors.DeadlineExceeded)
				mustBeWithin(t, "the renewal was given up", time.Since(start), 10*time.Second-wheelTick)
				if stubborn {
					renew(c, "acme/ann/owner/1h").ExpectError(errors.ResourceExhausted)
					release()
				}
				synctest.Wait()
				if roles := routertest.ExpectReply[string](c.Request("roles", nil)); roles != "reader" {
					t.Errorf("the roles are %q", roles)
				}
			})
		})
	}
}

// renewLate begins a renewal a second before the identity expires, and lets it expire.
func renewLate(t *testing.T, c *routertest.Client, life time.Duration, token string) *routertest.Request {
	t.Helper()
	time.Sleep(life - time.Second)
	q := renew(c, token)
	time.Sleep(4 * time.Second)
	c.Request("roles", nil).ExpectError(errors.Unauthenticated)
	return q
}

// A renewal that began in time may end after the identity has expired. Meanwhile no message is
// handled.
func TestRenewalUnderWayAtTheExpiry(t *testing.T) {
	t.Parallel()
	const life = 10 * time.Second
	t.Run("succeeds", func(t *testing.T) {
		slowly(t, false, "acme/ann/reader/10s", func(t *testing.T, c *routertest.Client, release func()) {
			q := renewLate(t, c, life, "acme/ann/admin/1h")
			release()
			routertest.ExpectReply[renewed](q)
			time.Sleep(time.Minute)
			if roles := routertest.ExpectReply[string](c.Request("roles", nil)); roles != "admin" {
				t.Errorf("the roles are %q", roles)
			}
		})
	})
	t.Run("fails", func(t *testing.T) {
		slowly(t, false, "acme/ann/reader/10s", func(t *testing.T, c *routertest.Client, release func()) {
			q := renewLate(t, c, life, "acme/bob/admin/1h")
			start := time.Now()
			release()
			q.ExpectError(errors.PermissionDenied)
			c.ExpectClose(errors.CloseUnauthenticated)
			mustBeWithin(t, "the connection ended", time.Since(start), 0)
		})
	})
	for _, stubborn := range []bool{false, true} {
		t.Run(fmt.Sprint("hangs, stubborn ", stubborn), func(t *testing.T) {
			slowly(t, stubborn, "acme/ann/reader/10s", func(t *testing.T, c *routertest.Client, release func()) {
				lateClose := time.Duration(0)
				if stubborn { // the answer is sent before
					lateClose = time.Second
				}
				start := time.Now()
				q := renewLate(t, c, life, "acme/ann/admin/1h")
				time.Sleep(5 * time.Second)
				q.ExpectError(errors.DeadlineExceeded)
				c.ExpectClose(errors.CloseUnauthenticated)
				mustBeWithin(t, "the connection ended", time.Since(start), life+9*time.Second+lateClose)
				if stubborn {
					release()
				}
			})
		})
	}
	t.Run("comes too late", func(t *testing.T) {
		slowly(t, false, "acme/ann/reader/10s", func(t *testing.T, c *routertest.Client, _ func()) {
			time.Sleep(life)
			renew(c, "acme/ann/admin/1h").ExpectError(errors.Unauthenticated)
			c.ExpectClose(errors.CloseUnauthenticated)
		})
	})
}

// A handler goes on with the identity that it began with, and its values are those of the next
// one, too.
func TestHandlersKeepTheirIdentity(t *testing.T) {
	t.Parallel()
	seat, theme := ingress.NewKey[int](), ingress.NewKey[string]()
	synctest.Test(t, func(t *testing.T) {
		began, proceed := make(chan struct{}), make(chan struct{})
		r := router.New(authenticated(router.Options{
			OnOpen: func(c *router.Conn) error {
				theme.Set(c.Identity(), "light")
				return nil
			},
			Renew: func(_ context.Context, _ *router.Conn, token string) (ingress.Identity, error) {
				id, err := identityOf(token)
				theme.Set(&id, "dark")
				return id, err
			},
		}))
		router.RPC(r, "hold", func(c *router.Context, _ struct{}) (string, error) {
			close(began)
			<-proceed
			seat.Set(c.Identity, 7)
			return c.Identity.Tier + ", then " + c.Conn().Identity().Tier, nil
		})
		router.RPC(r, "values", func(c *router.Context, _ struct{}) (string, error) {
			n, _ := seat.Get(c.Identity)
			s, _ := theme.Get(c.Identity)
			return fmt.Sprint(n, " ", s), nil
		})
		c := routertest.New(t, r).Dial(bearer("acme/ann/reader/1h"))
		hold := c.Request("hold", nil)
		<-began
		routertest.ExpectReply[renewed](renew(c, "acme/ann/admin/1h"))
		close(proceed)
		if got := routertest.ExpectReply[string](hold); got != "reader, then admin" {
			t.Errorf("the handler sees %q", got)
		}
		if got := routertest.ExpectReply[string](c.Request("values", nil)); got != "7 dark" {
			t.Errorf("the values are %q", got)
		}
	})
}

// A renewal that ends between the middleware and the handler of a message changes nothing for this
// message, and the next one has the new identity, also if it came in the same write.
func TestRenewalWhileAFrameWaits(t *testing.T) {
	t.Parallel()
	var conn atomic.Pointer[router.Conn]
	waits := make(chan struct{})
	s := serveSocket(t, authenticated(router.Options{Renew: func(_ context.Context, c *router.Conn, token string) (ingress.Identity, error) {
		conn.Store(c)
		<-waits
		return identityOf(token)
	}}), func(r *router.Router) {
		tier := func(c *router.Context, _ struct{}) (said, error) { return said{c.Identity.Tier}, nil }
		router.RPC(r, "tier", tier)
		router.RPC(r.With(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if c.Identity.Tier != "reader" {
					t.Errorf("the message came with the tier %s", c.Identity.Tier)
				}
				close(waits)
				poll.Until(t, "the renewal", func() bool {
					c := conn.Load()
					return c != nil && c.Identity().Tier == "admin"
				})
				return next(c)
			}
		}), "wait", tier)
	})
	p := s.dial("Authorization: Bearer acme/ann/reader/1h")
	p.write(join(
		textFrame(`{"type":"$ws:renew","meta":{"correlationId":"r"},"payload":{"token":"acme/ann/admin/"}}`),
		textFrame(`{"type":"wait","meta":{"correlationId":"w"}}`),
		textFrame(`{"type":"tier","meta":{"correlationId":"t"}}`),
	))
	p.expectInAnyOrder(`$ws:renewed {"expiresAt":null}`, "reply w reader", "reply t admin")
	p.bye()
	s.settled()
}

// The wheel does not know of a clock that is set. Messages are refused at once, the connection
// ends later.
func TestExpiryWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan *router.Conn, 1)
		r := router.New(authenticated(router.Options{
			Liveness: router.Liveness{PingInterval: -1, MessageTimeout: -1},
			OnOpen:   func(c *router.Conn) error { conns <- c; return nil },
		}))
		router.RPC(r, "roles", func(c *router.Context, _ struct{}) (string, error) { return c.Identity.Tier, nil })
		s := routertest.New(t, r)

		c := s.Dial(bearer("acme/ann/reader/10h"))
		time.Sleep(time.Minute)
		router.StepClock(<-conns, 10*time.Hour)
		start := time.Now()
		c.Request("roles", nil).ExpectError(errors.Unauthenticated)
		time.Sleep(25 * time.Second)
		c.ExpectClose(errors.CloseUnauthenticated)
		if d := time.Since(start); d > 30*time.Second+wheelTick {
			t.Errorf("the connection ended after %v", d)
		}

		c = s.Dial(bearer("acme/ann/reader/2m"))
		time.Sleep(time.Second)
		router.StepClock(<-conns, -time.Hour)
		start = time.Now()
		time.Sleep(time.Hour)
		if frames := c.Frames(); len(frames) != 0 {
			t.Errorf("there is a notice: %v", frames)
		}
		routertest.ExpectReply[string](c.Request("roles", nil))
		time.Sleep(time.Hour + 119*time.Second - time.Since(start) - time.Millisecond)
		routertest.ExpectEvent[expiring](c, "$ws:expiring")
		c.ExpectClose(errors.CloseUnauthenticated)
		mustBeWithin(t, "the connection ended", time.Since(start), time.Hour+119*time.Second)
	})
}

func TestExpiredHandshakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := routertest.New(t, router.New(authenticated(router.Options{})))
		for _, life := range []string{"-1h", "0s"} {
			_, res, err := s.TryDial(bearer("acme/ann/reader/" + life))
			if err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
				t.Errorf("a handshake %s after the expiry: %v %v", life, err, res)
			}
		}
		s.Dial(bearer("acme/ann/reader/1ms"))
	})
}

// Messages that were accepted before a drain are answered, whatever expires meanwhile.
func TestExpiryDuringADrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		r := router.New(authenticated(router.Options{}))
		router.RPC(r, "hold", func(*router.Context, struct{}) (string, error) {
			<-proceed
			return "held", nil
		})
		s := routertest.New(t, r)
		c := s.Dial(bearer("acme/ann/reader/10s"))
		routertest.ExpectEvent[expiring](c, "$ws:expiring")
		hold := c.Request("hold", nil)
		synctest.Wait()
		down := make(chan error)
		go func() { down <- r.Shutdown(context.Background()) }()
		time.Sleep(20 * time.Second)
		renew(c, "acme/ann/reader/1h").ExpectError(errors.Unavailable)
		close(proceed)
		if got := routertest.ExpectReply[string](hold); got != "held" {
			t.Errorf("the answer is %q", got)
		}
		c.ExpectClose(errors.CloseGoingAway)
		if err := <-down; err != nil {
			t.Error(err)
		}
	})
}

// A handler that runs at the expiry is cancelled, as at any end of its connection.
func TestExpiryDuringAHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cause := make(chan error, 2)
		r := router.New(authenticated(router.Options{Liveness: router.Liveness{ExpiryNotice: -1}, OnError: func(router.Fault) {}}))
		router.RPC(r, "hold", func(c *router.Context, _ struct{}) (string, error) {
			<-c.Done()
			cause <- c.Err()
			cause <- c.Send("late", nil)
			return "late", nil
		})
		c := routertest.New(t, r).Dial(bearer("acme/ann/reader/3s"))
		start := time.Now()
		c.Request("hold", nil)
		c.ExpectClose(errors.CloseUnauthenticated)
		mustBeWithin(t, "the connection ended", time.Since(start), 3*time.Second)
		if err := <-cause; !errors.Is(err, context.Canceled) {
			t.Errorf("the handler's context ends with %v", err)
		}
		if err := <-cause; !errors.Is(err, router.ErrClosed) {
			t.Errorf("sending after the end: %v", err)
		}
	})
}

// Over sockets and a real clock: many connections expire, renew late, or never expire.
func TestExpiryOverSockets(t *testing.T) {
	t.Parallel()
	takesTime(t)
	const life = 4 * time.Second // of which a client has seven eighths to renew its identity
	s := serveSocket(t, authenticated(router.Options{Liveness: router.Liveness{ExpiryNotice: life - life/8}}), func(r *router.Router) {
		router.RPC(r, "tier", func(c *router.Context, _ struct{}) (said, error) { return said{c.Identity.Tier}, nil })
	})
	tier := textFrame(`{"type":"tier","meta":{"correlationId":"t"}}`)
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			start := time.Now()
			token := "acme/user" + strconv.Itoa(i) + "/reader/"
			switch i % 3 {
			case 0: // expires
				p := s.dial("Authorization: Bearer " + token + life.String())
				if got := p.next(); !strings.HasPrefix(got, `$ws:expiring {"inMs":`) {
					t.Errorf("got %q, want the notice", got)
				}
				if got := p.next(); got != "close 4401" || time.Since(start) < life {
					t.Errorf("got %q after %v", got, time.Since(start))
				}
				p.hangUp()
			case 1: // renews when it gets the notice
				p := s.dial("Authorization: Bearer " + token + life.String())
				if got := p.next(); !strings.HasPrefix(got, `$ws:expiring {"inMs":`) {
					t.Errorf("got %q, want the notice", got)
				}
				p.write(textFrame(`{"type":"$ws:renew","meta":{"correlationId":"r"},"payload":{"token":"acme/user` + strconv.Itoa(i) + `/author/1h"}}`))
				if got := p.next(); !strings.HasPrefix(got, `$ws:renewed {"expiresAt":1`) {
					t.Errorf("got %q, want the answer", got)
				}
				time.Sleep(life + time.Second - time.Since(start))
				p.write(tier)
				p.expect("reply t author")
				p.bye()
			case 2: // never expires
				p := s.dial("Authorization: Bearer " + token)
				time.Sleep(life + time.Second)
				p.write(tier)
				p.expect("reply t reader")
				p.bye()
			}
		})
	}
	all.Wait()
	s.settled()
}

// Run with -race. All that read an identity see one that was issued, whole.
func TestRenewalRaces(t *testing.T) {
	t.Parallel()
	whole := func(id *ingress.Identity) bool {
		return len(id.Roles) == 2 && id.Roles[0] == id.Roles[1] && id.Tier == id.Roles[0]+"+"+id.Roles[1] && id.User == "ann"
	}
	var conns sync.Map
	var torn, renewals atomic.Int64
	count := ingress.NewKey[int]()
	s := serveSocket(t, authenticated(router.Options{OnOpen: func(c *router.Conn) error {
		conns.Store(c, true)
		return nil
	}}), func(r *router.Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if !whole(&c.Identity) {
					torn.Add(1)
				}
				return next(c)
			}
		})
		router.On(r, "look", func(c *router.Context, _ struct{}) error {
			n, _ := count.Get(c.Identity)
			count.Set(c.Identity, n+1)
			if !whole(c.Identity) || !whole(c.Conn().Identity()) {
				torn.Add(1)
			}
			return nil
		})
		router.RPC(r, "count", func(c *router.Context, _ struct{}) (said, error) {
			n, _ := count.Get(c.Identity)
			return said{strconv.Itoa(n)}, nil
		})
	})
	const clients, rounds = 4, 200
	stop := make(chan struct{})
	var readers, all sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			conns.Range(func(c, _ any) bool {
				if !whole(c.(*router.Conn).Identity()) {
					torn.Add(1)
				}
				return true
			})
		}
	})
	for range clients {
		all.Go(func() {
			p := s.dial("Authorization: Bearer acme/ann/0+0/1h")
			for i := range rounds {
				token := fmt.Sprintf("acme/ann/%d+%d/1h", i, i)
				p.write(join(
					textFrame(`{"type":"$ws:renew","meta":{"correlationId":"r"},"payload":{"token":"`+token+`"}}`),
					textFrame(`{"type":"look"}`), textFrame(`{"type":"look"}`),
				))
				if got := p.next(); strings.HasPrefix(got, "$ws:renewed ") {
					renewals.Add(1)
				} else {
					t.Errorf("a renewal is answered %q", got)
				}
			}
			p.write(textFrame(`{"type":"count","meta":{"correlationId":"c"}}`))
			p.expect("reply c " + strconv.Itoa(2*rounds)) // no value is lost
			p.bye()
		})
	}
	all.Wait()
	close(stop)
	readers.Wait()
	if torn.Load() > 0 || renewals.Load() != clients*rounds {
		t.Errorf("%d identities are torn; %d renewals", torn.Load(), renewals.Load())
	}
	poll.Until(t, "all connections to end", func() bool { return s.r.Stats().Connections == 0 })
}
