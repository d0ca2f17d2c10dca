package ratelimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

var (
	nowhere netip.Addr
	annID   = ingress.Identity{Tenant: "acme", User: "ann"}
	bobID   = ingress.Identity{Tenant: "acme", User: "bob"}
)

// A client that is rejected three times within a minute is banned for a minute, on every
// connection; others are not, and afterwards all is well.
func TestBansBeginAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		bans := ratelimit.NewBans(store, ratelimit.BanOptions{After: 3, Ban: time.Minute})
		slow := limit.TokenBucket{Capacity: 2, Refill: 2, Per: 10 * time.Second}
		r := newRouter(bans.Middleware, ratelimit.New(limit.New(store, slow), ratelimit.PerUserOrIPPerType))
		s := routertest.New(t, r.Router)
		ann, other, bob := dial(s, "ann"), dial(s, "ann"), dial(s, "bob")
		said(t, other)
		said(t, bob)
		said(t, ann)
		for range 2 { // answered
			ann.Send("say", nil)
			ann.ExpectError(errors.ResourceExhausted)
		}
		ann.Request("say", nil) // not even a request is
		if reason := ann.ExpectClose(errors.CloseTooManyRequests); reason != `{"retryAfterMs":60000}` {
			t.Errorf("closed for %s", reason)
		}
		synctest.Wait()
		reported := r.reported()
		if len(reported) != 3 || reported[1].Close != 0 || reported[2].Close != 4429 || reported[2].Kind != errors.LimitRate || reported[2].RetryAfter != time.Minute {
			t.Errorf("OnLimitExceeded got %+v", reported)
		}

		time.Sleep(20 * time.Second)
		for name, c := range map[string]*routertest.Client{"open": other, "new": dial(s, "ann"), "and again": dial(s, "ann")} {
			c.Send("say", nil)
			if reason := c.ExpectClose(errors.CloseTooManyRequests); reason != `{"retryAfterMs":40000}` {
				t.Errorf("the %s connection is closed for %s", name, reason)
			}
			if f := c.Frames(); name != "open" && len(f) > 0 {
				t.Errorf("the %s connection was sent %v", name, f)
			}
		}
		synctest.Wait()
		if reported := r.reported(); len(reported) != 6 || reported[5].Kind != errors.LimitBanned || reported[5].RetryAfter != 40*time.Second {
			t.Errorf("OnLimitExceeded got %+v", reported)
		}
		for _, client := range []struct {
			ip   netip.Addr
			id   ingress.Identity
			want time.Duration
		}{{nowhere, annID, 40 * time.Second}, {netip.MustParseAddr("192.0.2.1"), annID, 40 * time.Second}, {nowhere, bobID, 0}, {nowhere, ingress.Identity{}, 0}} {
			if d, err := bans.Banned(t.Context(), client.ip, client.id); d != client.want || err != nil {
				t.Errorf("%s is banned for %v, want %v; %v", client.id.User, d, client.want, err)
			}
		}
		said(t, bob)

		time.Sleep(40 * time.Second)
		if d, err := bans.Banned(t.Context(), nowhere, annID); d != 0 || err != nil {
			t.Errorf("banned for %v after the ban, %v", d, err)
		}
		said(t, dial(s, "ann"))
	})
}

// A ban holds in every process that shares the store: for new connections at once, for
// open ones within Recheck.
func TestBansAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		process := func() *routertest.Server {
			bans := ratelimit.NewBans(store, ratelimit.BanOptions{
				After: 2, Recheck: 3 * time.Second, Limiter: limit.Options{Name: "chat"},
			})
			limited := limit.New(store, hourly(1), limit.Options{Name: "messages"})
			return routertest.New(t, newRouter(bans.Middleware, ratelimit.New(limited, func(k limit.Key, c *ingress.Context) limit.Key { return k.Part(c.ConnID) })).Router)
		}
		a, b := process(), process()
		open, idle := dial(b, "ann"), dial(b, "ann")
		said(t, open)

		c := dial(a, "ann")
		said(t, c)
		c.Send("say", nil)
		c.ExpectError(errors.ResourceExhausted)
		c.Send("say", nil)
		c.ExpectClose(errors.CloseTooManyRequests)

		open.Send("say", nil) // believed to be fine, and its only frame is used
		open.ExpectClose(errors.CloseTooManyRequests)
		idle.Send("say", nil)
		idle.ExpectClose(errors.CloseTooManyRequests)
		fresh := dial(b, "ann")
		fresh.Send("say", nil)
		if reason := fresh.ExpectClose(errors.CloseTooManyRequests); reason != `{"retryAfterMs":300000}` {
			t.Errorf("closed for %s", reason)
		}
	})
}

// An open connection of another process is closed when it is next looked up, even if
// it runs into nothing there.
func TestABanReachesOpenConnectionsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		o := ratelimit.BanOptions{After: 1, Recheck: 3 * time.Second, Limiter: limit.Options{Name: "chat"}}
		here, there := ratelimit.NewBans(store, o), ratelimit.NewBans(store, o)
		open := ann("x")
		h := there.Middleware(ingress.Pass)
		if !passes(h, open) {
			t.Fatal("banned without a rejection")
		}
		if err := here.Count(t.Context(), nowhere, annID, &errors.LimitExceeded{Kind: errors.LimitRate}); !closes(err) {
			t.Fatalf("no ban: %v", err)
		}
		time.Sleep(3*time.Second - time.Microsecond)
		if !passes(h, open) {
			t.Error("looked up before its time")
		}
		time.Sleep(time.Microsecond)
		if err := h(open); !closes(err) {
			t.Errorf("a banned client goes on elsewhere: %v", err)
		}
		// Taken back there, it holds here for no longer than is believed.
		if err := there.Unban(t.Context(), nowhere, annID); err != nil {
			t.Fatal(err)
		}
		if !passes(h, ann("x")) {
			t.Error("still banned where the ban was taken back")
		}
		time.Sleep(3 * time.Second)
		if !passes(here.Middleware(ingress.Pass), ann("x")) {
			t.Error("still banned elsewhere after the ban was taken back")
		}
		// Its rejections are forgotten, too; this one is the first again.
		if d, err := here.Banned(t.Context(), nowhere, annID); d != 0 || err != nil {
			t.Errorf("banned for %v, %v", d, err)
		}
	})
}

func closes(err error) bool {
	e, ok := errors.AsType[*errors.LimitExceeded](err)
	return ok && e.Close == errors.CloseTooManyRequests
}

// Rejections are counted by client and not by connection.
func TestRejectionsStayCountedAfterReconnecting(t *testing.T) {
	for name, identity := range map[string]ingress.Identity{"user": annID, "address": {}} {
		bans := ratelimit.NewBans(memory.NewStore(), ratelimit.BanOptions{After: 5})
		h := bans.Middleware(ratelimit.New(newLimiter(1), ratelimit.PerUserOrIPPerType)(ingress.Pass))
		for i := range 7 {
			c := ann("x")
			c.Identity, c.ConnID = identity, fmt.Sprint("conn", i)
			if got, want := closes(h(c)), i >= 5; got != want {
				t.Errorf("%s: connection %d is closed: %v", name, i, got)
			}
		}
	}
}

// Rejections that are far apart lead to no ban.
func TestRejectionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bans := ratelimit.NewBans(memory.NewStore(), ratelimit.BanOptions{After: 3, Within: time.Minute})
		h := bans.Middleware(ratelimit.New(newLimiter(1), ratelimit.PerUserOrIPPerType)(ingress.Pass))
		h(ann("x"))
		for range 10 {
			for range 2 {
				if err := h(ann("x")); closes(err) || errors.CodeOf(err) != errors.ResourceExhausted {
					t.Fatalf("%v, want a rejection that does not close", err)
				}
			}
			time.Sleep(2 * time.Minute)
		}
	})
}

// Only what a limit has rejected is counted.
func TestWhatIsNotCounted(t *testing.T) {
	var none *errors.LimitExceeded
	for name, err := range map[string]error{
		"nothing":               nil,
		"a store that is down":  errors.Unavailable.New("down"),
		"a bad frame":           errors.InvalidArgument.New("bad"),
		"a fault":               errors.New("fault"),
		"a nil pointer's error": none,
	} {
		bans := ratelimit.NewBans(memory.NewStore(), ratelimit.BanOptions{After: 1})
		h := bans.Middleware(func(c *ingress.Context) error { return err })
		for range 3 {
			if got := h(ann("x")); got != err {
				t.Errorf("%s: became %v", name, got)
			}
			if got := bans.Count(t.Context(), nowhere, annID, err); got != err {
				t.Errorf("%s: counted, it became %v", name, got)
			}
		}
	}
	shadow := ratelimit.New(newLimiter(1), ratelimit.PerUserOrIPPerType, ratelimit.Options{Shadow: true})
	bans := ratelimit.NewBans(memory.NewStore(), ratelimit.BanOptions{After: 1})
	h := bans.Middleware(shadow(ingress.Pass))
	for range 3 {
		if !passes(h, ann("x")) {
			t.Error("what a shadow would have rejected is counted")
		}
	}
}

// A rejection that is wrapped in another error, or is for ever, bans like any other.
func TestBansWithOtherOptions(t *testing.T) {
	never := &errors.LimitExceeded{Kind: errors.LimitRate, Observed: 9, Limit: 3, Never: true}
	bans := ratelimit.NewBans(memory.NewStore(), ratelimit.BanOptions{After: 1, CloseCode: 4000})
	h := bans.Middleware(func(*ingress.Context) error { return fmt.Errorf("outer: %w", never) })
	e, ok := errors.AsType[*errors.LimitExceeded](h(ann("x")))
	if !ok || e.Close != 4000 || e.Never || e.RetryAfter != 5*time.Minute || e.Observed != 9 {
		t.Errorf("%+v", e)
	}
	if never.Close != 0 || !never.Never {
		t.Error("the middleware's own error was changed")
	}
}

// counting counts what a store is asked for, by limiter.
type counting struct {
	memory.Store
	rejections, bans, peeks atomic.Int64
}

func (s *counting) Take(ctx context.Context, key []byte, p limit.Policy, cost int64) (limit.Decision, error) {
	if strings.Contains(string(key), "/rejections:") {
		s.rejections.Add(1)
	} else if strings.Contains(string(key), "/bans:") {
		s.bans.Add(1)
	}
	return s.Store.Take(ctx, key, p, cost)
}

func (s *counting) Peek(ctx context.Context, key []byte, p limit.Policy, cost int64) (limit.Decision, error) {
	s.peeks.Add(1)
	return s.Store.Peek(ctx, []byte(key), p, cost)
}

// A flood of rejections costs the store no more than the counted rejections and the ban, on
// however many connections it comes.
func TestAFloodOfRejectionsIsBoundedAtTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memory.NewStore()}
		bans := ratelimit.NewBans(store, ratelimit.BanOptions{
			After: 10, Recheck: 5 * time.Second, Limiter: limit.Options{Name: "s"},
		})
		h := bans.Middleware(ratelimit.New(newLimiter(1), ratelimit.PerUserOrIPPerType)(ingress.Pass))
		const conns = 100
		flood := make([]*ingress.Context, conns)
		for i := range flood {
			flood[i] = ann("x")
		}
		for range 100 {
			for _, c := range flood {
				h(c)
			}
		}
		if n := store.rejections.Load(); n != 10 {
			t.Errorf("%d rejections were counted for 9,999 rejections, want 10", n)
		}
		if n := store.bans.Load(); n != 1 {
			t.Errorf("%d bans were taken, want 1", n)
		}
		// The first frame of each connection that came before the ban, and the ban.
		if n := store.peeks.Load(); n != 12 {
			t.Errorf("asked %d times, want 12", n)
		}
		store.peeks.Store(0)
		for range 3 {
			time.Sleep(5 * time.Second)
			for range 1000 { // connections that come for one frame
				if !closes(h(ann("x"))) {
					t.Fatal("a banned client is let in")
				}
			}
		}
		if n := store.peeks.Load(); n != 3 {
			t.Errorf("asked %d times in three Rechecks, want 3", n)
		}
	})
}

// A client that behaves costs one question in Recheck.
func TestGoodClientsAreSeldomLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memory.NewStore()}
		bans := ratelimit.NewBans(store, ratelimit.BanOptions{Recheck: 5 * time.Second})
		h := bans.Middleware(ingress.Pass)
		c := ann("x")
		for range 100 {
			if !passes(h, c) {
				t.Fatal("banned without a rejection")
			}
			time.Sleep(time.Second / 10)
		}
		if n := store.peeks.Load(); n != 2 {
			t.Errorf("asked %d times in 10 s, want 2", n)
		}
	})
}

// What happens while the store is down is the failure policy's to say.
func TestBansWhileTheStoreFails(t *testing.T) {
	rejected := &errors.LimitExceeded{Kind: errors.LimitRate, RetryAfter: time.Second}
	for _, tc := range []struct {
		policy limit.Failure
		code   errors.Code // of a frame that would pass
		bans   bool
	}{
		{limit.FailLocal, "", true},
		{limit.FailOpen, "", false},
		{limit.FailClosed, errors.Unavailable, false},
	} {
		t.Run(fmt.Sprintf("policy %d", tc.policy), func(t *testing.T) {
			bans := ratelimit.NewBans(failing{}, ratelimit.BanOptions{
				After: 3, Limiter: limit.Options{Name: "s", OnFailure: tc.policy, Logger: slog.New(slog.DiscardHandler)},
			})
			if err := bans.Middleware(ingress.Pass)(ann("x")); errors.CodeOf(err) != tc.code || closes(err) {
				t.Errorf("a frame: %v, want %q", err, tc.code)
			}
			if _, err := bans.Banned(t.Context(), nowhere, annID); errors.CodeOf(err) != tc.code {
				t.Errorf("Banned: %v, want %q", err, tc.code)
			}
			for i := range 5 {
				err := bans.Count(t.Context(), nowhere, annID, rejected)
				if errors.CodeOf(err) != errors.ResourceExhausted {
					t.Errorf("the rejection became %v", err)
				}
				if got, want := closes(err), tc.bans && i >= 2; got != want {
					t.Errorf("rejection %d closes: %v", i+1, got)
				}
			}
			if err := bans.Unban(t.Context(), nowhere, annID); errors.CodeOf(err) != errors.Unavailable {
				t.Errorf("Unban: %v", err)
			}
		})
	}
}

// Handlers' rejections count where Bans.Count is called, and answered and reported once
// each, even when the client has taken its request back.
func TestRejectionsByHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		bans := ratelimit.NewBans(store, ratelimit.BanOptions{After: 4, Ban: time.Minute})
		rooms := limit.New(store, hourly(1), limit.Options{Name: "rooms"})
		r := newRouter(bans.Middleware)
		r.UseHandler(func(next router.Handler) router.Handler {
			return func(c *router.Context) error { return bans.Count(c, c.IP(), *c.Identity, next(c)) }
		})
		router.On(r.Router, "room.say", func(c *router.Context, room string) error { return ratelimit.Take(c, rooms, limit.KeyOf(room), 1) })
		router.RPC(r.Router, "room.join", func(c *router.Context, room string) (string, error) {
			if room == "aborted" {
				<-c.Done()
				room = "lobby"
			}
			return room, ratelimit.Take(context.WithoutCancel(c), rooms, limit.KeyOf(room), 1)
		})
		c := dial(routertest.New(t, r.Router), "ann")
		routertest.ExpectReply[string](c.Request("room.join", "lobby"))
		c.Send("room.say", "lobby")
		c.ExpectError(errors.ResourceExhausted)
		c.Request("room.join", "lobby").ExpectError(errors.ResourceExhausted)
		routertest.ExpectReply[string](c.Request("room.join", "other"))
		q := c.Request("room.join", "aborted")
		q.Abort()
		q.ExpectError(errors.Cancelled)
		c.Send("room.say", "lobby")
		if reason := c.ExpectClose(errors.CloseTooManyRequests); reason != `{"retryAfterMs":60000}` {
			t.Errorf("closed for %s", reason)
		}
		synctest.Wait()
		reported := r.reported()
		if len(reported) != 4 || reported[3].Close != errors.CloseTooManyRequests {
			t.Fatalf("OnLimitExceeded got %+v", reported)
		}
		for _, i := range reported {
			if i.Limiter != "rooms" || i.Kind != errors.LimitRate || !strings.HasPrefix(i.Type, "room.") {
				t.Errorf("OnLimitExceeded got %+v", i)
			}
		}
	})
}

// obeying is a shared store that does nothing for a context that is done.
type obeying struct {
	limit.ExtendedStore
	store memory.Store
}

func (s obeying) Take(ctx context.Context, key []byte, p limit.Policy, cost int64) (limit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return limit.Decision{}, err
	}
	return s.store.Take(ctx, []byte(key), p, cost)
}

// Taking a request back does not undo the count.
func TestRejectionsOfCancelledRequests(t *testing.T) {
	store := memory.NewStore()
	bans := ratelimit.NewBans(obeying{store, store}, ratelimit.BanOptions{
		After: 1, Limiter: limit.Options{Name: "s"},
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := bans.Count(ctx, nowhere, annID, &errors.LimitExceeded{Kind: errors.LimitRate}); !closes(err) {
		t.Errorf("%v, want a ban", err)
	}
}

// Many connections of one client at once: exactly as many rejections as there may be
// do not close.
func TestRejectionsAtOnce(t *testing.T) {
	const after, conns, frames = 100, 8, 100
	store := memory.NewStore()
	bans := ratelimit.NewBans(store, ratelimit.BanOptions{After: after, Within: time.Hour})
	h := bans.Middleware(ratelimit.New(newLimiter(1), ratelimit.PerUserOrIPPerType)(ingress.Pass))
	h(ann("x"))
	var rejected atomic.Int64
	var wg sync.WaitGroup
	for range conns {
		wg.Go(func() {
			c := ann("x")
			for range frames {
				if err := h(c); errors.CodeOf(err) == errors.ResourceExhausted && !closes(err) {
					rejected.Add(1)
				}
			}
			if !closes(h(c)) {
				t.Error("a banned client goes on")
			}
		})
	}
	wg.Wait()
	if n := rejected.Load(); n != after-1 {
		t.Errorf("%d rejections were answered, want %d", n, after-1)
	}
}

// stalling is a store that, when asked to, waits after it has answered a Peek, and
// before it takes a ban.
type stalling struct {
	memory.Store
	stall    atomic.Bool
	stalled  chan struct{}
	released chan struct{}
}

func (s *stalling) wait() {
	if s.stall.CompareAndSwap(true, false) {
		s.stalled <- struct{}{}
		<-s.released
	}
}

func (s *stalling) Peek(ctx context.Context, key []byte, p limit.Policy, cost int64) (limit.Decision, error) {
	d, err := s.Store.Peek(ctx, []byte(key), p, cost)
	s.wait()
	return d, err
}

func (s *stalling) Take(ctx context.Context, key []byte, p limit.Policy, cost int64) (limit.Decision, error) {
	if strings.Contains(string(key), "/bans:") {
		s.wait()
	}
	return s.Store.Take(ctx, key, p, cost)
}

// Unban holds at once, also against what was asked before it and is
// answered after it.
func TestUnbanHoldsAgainstAnswersFromBefore(t *testing.T) {
	rejected := &errors.LimitExceeded{Kind: errors.LimitRate}
	for name, meanwhile := range map[string]func(*testing.T, *ratelimit.Bans){
		"a look": func(t *testing.T, b *ratelimit.Bans) {
			if d, err := b.Banned(t.Context(), nowhere, annID); d == 0 || err != nil {
				t.Errorf("the look before the Unban found %v, %v", d, err)
			}
		},
		"a rejection": func(t *testing.T, b *ratelimit.Bans) {
			_ = b.Count(t.Context(), nowhere, annID, rejected)
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &stalling{Store: memory.NewStore(), stalled: make(chan struct{}), released: make(chan struct{})}
			o := ratelimit.BanOptions{After: 2, Limiter: limit.Options{Name: "s"}}
			elsewhere, bans := ratelimit.NewBans(store, o), ratelimit.NewBans(store, o)
			_ = elsewhere.Count(t.Context(), nowhere, annID, rejected)
			if name == "a look" {
				_ = elsewhere.Count(t.Context(), nowhere, annID, rejected)
			}
			store.stall.Store(true)
			var asked sync.WaitGroup
			asked.Go(func() { meanwhile(t, bans) })
			<-store.stalled
			if err := bans.Unban(t.Context(), nowhere, annID); err != nil {
				t.Error(err)
			}
			store.released <- struct{}{}
			asked.Wait()
			if d, err := bans.Banned(t.Context(), nowhere, annID); d != 0 || err != nil {
				t.Errorf("banned for %v after the Unban, %v", d, err)
			}
			if err := bans.Count(t.Context(), nowhere, annID, rejected); closes(err) {
				t.Error("the first rejection after the Unban bans")
			}
		})
	}
}

// A ban by hand lasts as long as was said, in all processes that share the store. The longer of two counts, in whatever order
// they come, and a ban for rejections does not end it early.
func TestBansByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		options := ratelimit.BanOptions{After: 1, Ban: time.Minute, Limiter: limit.Options{Name: "m"}}
		bans, elsewhere := ratelimit.NewBans(store, options), ratelimit.NewBans(store, options)
		s := routertest.New(t, newRouter(bans.Middleware).Router)
		ann, bob := dial(s, "ann"), dial(s, "bob")
		said(t, ann)
		ban := func(lasts time.Duration) {
			t.Helper()
			if err := bans.Ban(t.Context(), nowhere, annID, lasts); err != nil {
				t.Fatal(err)
			}
		}
		banned := func(of *ratelimit.Bans, want time.Duration) {
			t.Helper()
			if d, err := of.Banned(t.Context(), nowhere, annID); d != want || err != nil {
				t.Errorf("banned for %v, want %v; %v", d, want, err)
			}
		}
		ban(10 * time.Minute)
		banned(bans, 10*time.Minute)
		banned(elsewhere, 10*time.Minute)
		ann.Send("say", nil)
		if reason := ann.ExpectClose(errors.CloseTooManyRequests); reason != `{"retryAfterMs":600000}` {
			t.Errorf("closed for %s", reason)
		}
		said(t, bob)

		time.Sleep(4 * time.Minute)
		ban(time.Minute) // ends before the other
		banned(bans, 6*time.Minute)
		_ = elsewhere.Count(t.Context(), nowhere, annID, &errors.LimitExceeded{}) // a ban for a minute
		banned(elsewhere, 6*time.Minute)
		ban(24 * time.Hour)
		banned(bans, 24*time.Hour)
		time.Sleep(time.Minute) // Recheck
		banned(elsewhere, 24*time.Hour-time.Minute)
		if err := bans.Unban(t.Context(), nowhere, annID); err != nil {
			t.Fatal(err)
		}
		banned(bans, 0)
		said(t, dial(s, "ann"))

		ban(2 * time.Second)
		time.Sleep(2 * time.Second)
		banned(bans, 0)
		for _, lasts := range []time.Duration{0, -time.Hour, 11 * 365 * 24 * time.Hour} {
			if err := bans.Ban(t.Context(), nowhere, annID, lasts); errors.CodeOf(err) != errors.InvalidArgument {
				t.Errorf("a ban for %v: %v", lasts, err)
			}
		}
		banned(bans, 0)
	})
}

// Bans at once, by hand and for rejections in several processes, last as long as the longest of them at least, and no longer than
// one of each process together. In one process those for rejections are one.
func TestBansAtOnce(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore()
			options := ratelimit.BanOptions{After: 1, Ban: time.Hour, Limiter: limit.Options{Name: "m"}}
			one, other := ratelimit.NewBans(store, options), ratelimit.NewBans(store, options)
			var wait sync.WaitGroup
			for range 4 {
				wait.Go(func() { _ = one.Count(t.Context(), nowhere, annID, &errors.LimitExceeded{}) })
			}
			wait.Go(func() {
				if err := other.Ban(t.Context(), nowhere, annID, 2*time.Hour); err != nil {
					t.Error(err)
				}
			})
			wait.Wait()
			left, err := ratelimit.NewBans(store, options).Banned(t.Context(), nowhere, annID)
			if err != nil || left < 2*time.Hour || left > 3*time.Hour {
				t.Fatalf("banned for %v; %v", left, err)
			}
		})
	}
}
