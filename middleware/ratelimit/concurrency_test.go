package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// A user has at most two reports in the making. Work that goes on after its handler takes a place
// with Acquire, and so does a subject that is known only after decoding.
func ExampleNewConcurrency() {
	store := memory.NewStore() // over Redis, the limit is that of all processes
	reports := limit.NewConcurrencyLimit(store, limit.ConcurrencyOptions{Max: 2, Limiter: limit.Options{Name: "reports"}})

	r := router.New()
	twoEach := r.With(ratelimit.NewConcurrency(reports, ratelimit.PerUser))
	router.RPC(twoEach, "report.make", func(c *router.Context, name string) (string, error) {
		return "the report " + name, nil // at most two of a user at a time
	}, router.RouteOptions{Concurrent: true})

	// Before the process ends: r.Shutdown(ctx), and then
	fmt.Println(reports.Flush(context.Background()))
	// Output: <nil>
}

// A webhook to a slow backend: at most two calls at a time for each host.
func ExampleAcquire() {
	hosts := limit.NewConcurrencyLimit(memory.NewStore(), limit.ConcurrencyOptions{Max: 2, Limiter: limit.Options{Name: "hosts"}})
	ctx := context.Background() // in a handler its Context

	var releases []func()
	for range 3 {
		release, err := ratelimit.Acquire(ctx, hosts, limit.KeyOf("hooks.example.com"))
		if err != nil {
			fmt.Println(err)
			continue
		}
		releases = append(releases, release) // mostly: defer release()
	}
	releases[0]()
	_, err := ratelimit.Acquire(ctx, hosts, limit.KeyOf("hooks.example.com"))
	fmt.Println(err)
	// Output:
	// RESOURCE_EXHAUSTED: too many requests in flight (observed 3, limit 2, limiter hosts)
	// <nil>
}

// works is a router whose handlers wait until they are let go, under a limit for each user.
type works struct {
	*router.Router
	*limit.ConcurrencyLimit
	t       *testing.T
	running atomic.Int64
	begun   chan *router.Context
	letGo   chan string // what becomes of a handler
	limited chan ratelimit.Limited
}

func newWorks(t *testing.T, most int64, o ratelimit.Options) *works {
	w := &works{
		t: t, begun: make(chan *router.Context, 100), letGo: make(chan string, 100), limited: make(chan ratelimit.Limited, 100),
		ConcurrencyLimit: limit.NewConcurrencyLimit(memory.NewStore(), limit.ConcurrencyOptions{Max: most, Limiter: limit.Options{Name: "work"}}),
	}
	w.Router = router.New(router.Options{
		Authenticate: func(r *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: r.URL.Query().Get("user"), Tenant: r.URL.Query().Get("tenant")}, nil
		},
		OnError: func(router.Fault) {},
	})
	o.OnLimited = func(c *ingress.Context, l ratelimit.Limited) {
		if c.Identity.User != "ann" || !strings.HasPrefix(c.Type, "work") || c.ConnID == "" || c.Context().Err() != nil {
			t.Errorf("OnLimited is called with %+v", c)
		}
		w.limited <- l
	}
	w.Use(ratelimit.NewConcurrency(w.ConcurrencyLimit, ratelimit.PerUser, o))
	work := func(c *router.Context, _ struct{}) (string, error) {
		w.running.Add(1)
		defer w.running.Add(-1)
		w.begun <- c
		switch <-w.letGo {
		case "error":
			return "", errors.NotFound.New("no such work")
		case "panic":
			panic("the handler panics")
		case "goexit":
			runtime.Goexit()
		}
		return "done", nil
	}
	router.RPC(w.Router, "work", work, router.RouteOptions{Concurrent: true})
	router.RPC(w.Router, "work.inTurn", work)
	router.RPC(w.Router, "work.short", work, router.RouteOptions{Concurrent: true, Timeout: 500 * time.Millisecond})
	router.RPC(w.Router, "free", work, router.RouteOptions{Concurrent: true, Exempt: true})
	return w
}

// expect waits until so many places of ann are held.
func (w *works) expect(held int64) {
	w.t.Helper()
	key := ratelimit.PerUser(w.Key(nil), &ingress.Context{Identity: ingress.Identity{User: "ann", Tenant: "acme"}})
	var n int64
	poll.Until(w.t, fmt.Sprintf("%d places are held", held), func() bool {
		var err error
		if n, err = w.Held(w.t.Context(), key); err != nil {
			w.t.Fatal(err)
		}
		return n == held
	})
}

// At most the limit's number of handlers run for a user. The refusal says the kind, and no wait,
// because none is known.
func TestConcurrencyLimitsHandlers(t *testing.T) {
	w := newWorks(t, 2, ratelimit.Options{})
	s := routertest.New(t, w.Router)
	ann, again, bob := dial(s, "ann"), dial(s, "ann"), dial(s, "bob")

	first := ann.Request("work", nil)
	second := again.Request("work", nil)
	<-w.begun
	<-w.begun
	f := again.Request("work", nil).ExpectError(errors.ResourceExhausted)
	if !f.Retryable || f.RetryAfterMs != nil || string(f.Details) != `{"kind":"in_flight","observed":3,"limit":2,"remaining":0}` {
		t.Errorf("the refusal is %+v %s", f, f.Details)
	}
	if l := <-w.limited; l.Limiter != "work" || l.Decision.Allowed || l.Decision.Limit != 2 || l.Shadow {
		t.Errorf("OnLimited gets %+v", l)
	}
	others := bob.Request("work", nil)
	exempt := ann.Request("free", nil)
	<-w.begun
	<-w.begun
	w.expect(2)
	for range 4 {
		w.letGo <- "return"
	}
	for _, q := range []*routertest.Request{first, second, others, exempt} {
		routertest.ExpectReply[string](q)
	}
	w.expect(0)
	last := ann.Request("work", nil)
	<-w.begun
	w.letGo <- "return"
	routertest.ExpectReply[string](last)
	if s := w.ConcurrencyLimit.Stats(); s.Allowed != 4 || s.Denied != 1 {
		t.Errorf("the figures are %+v", s)
	}
	for _, l := range w.Router.Stats().Rejections {
		if l.Limiter != "work" || l.Kind != errors.LimitInFlight || l.Count != 1 {
			t.Errorf("the router counts %+v", l)
		}
	}
}

// Whatever the end of a handler is, its place is free when the client has the answer.
func TestPlacesComeBack(t *testing.T) {
	w := newWorks(t, 1, ratelimit.Options{})
	s := routertest.New(t, w.Router)
	ann := dial(s, "ann")
	for _, end := range []struct {
		letGo string
		code  errors.Code
	}{{"return", ""}, {"error", errors.NotFound}, {"panic", errors.Internal}, {"return", ""}} {
		q := ann.Request("work", nil)
		<-w.begun
		w.letGo <- end.letGo
		if end.code != "" {
			q.ExpectError(end.code)
		} else {
			routertest.ExpectReply[string](q)
		}
	}
	q := ann.Request("work", nil)
	<-w.begun
	w.letGo <- "goexit"
	q.ExpectError(errors.Internal)
	w.expect(0)
}

// A request whose client no longer waits is still handled, and keeps its place until the handler
// has returned.
func TestPlacesAreKeptUntilTheHandlerReturns(t *testing.T) {
	for name, leave := range map[string]func(*routertest.Client) (typ string, gone func(*routertest.Request)){
		"aborted": func(*routertest.Client) (string, func(*routertest.Request)) {
			return "work", func(q *routertest.Request) { q.Abort(); q.ExpectError(errors.Cancelled) }
		},
		"too slow": func(*routertest.Client) (string, func(*routertest.Request)) {
			return "work.short", func(q *routertest.Request) { q.ExpectError(errors.DeadlineExceeded) }
		},
		"connection lost": func(c *routertest.Client) (string, func(*routertest.Request)) {
			return "work", func(*routertest.Request) { c.Vanish() }
		},
		"connection closed": func(c *routertest.Client) (string, func(*routertest.Request)) {
			return "work.inTurn", func(*routertest.Request) { c.Close() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorks(t, 1, ratelimit.Options{})
			s := routertest.New(t, w.Router)
			ann, again := dial(s, "ann"), dial(s, "ann")
			typ, gone := leave(ann)
			q := ann.Request(typ, nil)
			c := <-w.begun
			gone(q)
			<-c.Done()
			w.expect(1)
			again.Request("work", nil).ExpectError(errors.ResourceExhausted)
			w.letGo <- "return"
			w.expect(0)
			last := again.Request("work", nil)
			<-w.begun
			w.letGo <- "return"
			routertest.ExpectReply[string](last)
		})
	}
}

// Messages that wait behind another one of their connection need no place: a client that sends
// several in a row is not refused.
func TestWaitingNeedsNoPlace(t *testing.T) {
	w := newWorks(t, 1, ratelimit.Options{})
	s := routertest.New(t, w.Router)
	ann := dial(s, "ann")
	var all []*routertest.Request
	for range 5 {
		all = append(all, ann.Request("work.inTurn", nil))
	}
	for _, q := range all {
		<-w.begun
		w.expect(1)
		w.letGo <- "return"
		routertest.ExpectReply[string](q)
	}
	w.expect(0)
}

// A message that does not reach its handler takes no place.
func TestRefusedMessagesTakeNoPlace(t *testing.T) {
	w := newWorks(t, 1, ratelimit.Options{})
	bob := limit.NewConcurrencyLimit(memory.NewStore(), limit.ConcurrencyOptions{Max: 1})
	tenant := func(k limit.Key, c *ingress.Context) limit.Key { return k.Part(c.Identity.Tenant) }
	w.Use(ratelimit.NewConcurrency(bob, tenant))
	s := routertest.New(t, w.Router)
	ann := dial(s, "ann")
	ann.SendRaw(`{"type":"work","meta":{"correlationId":"a"},"payload":[1]}`)
	routertest.ExpectFailure(ann, "a")
	ann.SendRaw(`{"type":"no such type","meta":{"correlationId":"b"}}`)
	routertest.ExpectFailure(ann, "b")

	// Of two limits the second one refuses: what the first one gave is given back.
	q := dial(s, "bob").Request("work", nil)
	<-w.begun
	ann.Request("work", nil).ExpectError(errors.ResourceExhausted)
	w.expect(0)
	w.letGo <- "return"
	routertest.ExpectReply[string](q)
	if w.ConcurrencyLimit.Stats().Allowed != 2 {
		t.Errorf("places were taken for messages that were refused: %+v", w.ConcurrencyLimit.Stats())
	}
}

// In shadow mode a message over the limit is reported and handled, and holds no place.
func TestConcurrencyInShadowMode(t *testing.T) {
	w := newWorks(t, 1, ratelimit.Options{Shadow: true})
	s := routertest.New(t, w.Router)
	ann := dial(s, "ann")
	first, second := ann.Request("work", nil), ann.Request("work", nil)
	<-w.begun
	<-w.begun
	if l := <-w.limited; !l.Shadow {
		t.Errorf("OnLimited gets %+v", l)
	}
	w.expect(1)
	w.letGo <- "return"
	w.letGo <- "return"
	routertest.ExpectReply[string](first)
	routertest.ExpectReply[string](second)
	w.expect(0)
}

// Shutdown waits for handlers, and so their places are free after it.
func TestPlacesAfterShutdown(t *testing.T) {
	w := newWorks(t, 2, ratelimit.Options{})
	s := routertest.New(t, w.Router)
	ann := dial(s, "ann")
	q := ann.Request("work", nil)
	<-w.begun
	done := make(chan error)
	go func() { done <- w.Shutdown(context.Background()) }()
	poll.Until(t, "the router drains", func() bool {
		_, res, err := s.TryDial(routertest.DialOptions{Query: url.Values{"user": {"bob"}}.Encode()})
		return err != nil && res != nil && res.StatusCode == http.StatusServiceUnavailable
	})
	w.expect(1)
	w.letGo <- "return"
	routertest.ExpectReply[string](q)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	w.expect(0)
}

// Many clients, whose requests end in all ways: never more handlers than the limit run at once, and
// in the end no place is held.
func TestConcurrencyUnderLoad(t *testing.T) {
	const most, clients, requests = 3, 12, 40
	l := limit.NewConcurrencyLimit(memory.NewStore(), limit.ConcurrencyOptions{Max: most})
	r := router.New(router.Options{OnError: func(router.Fault) {}})
	r.Use(ratelimit.NewConcurrency(l, ratelimit.Global))
	var running, peak, handled atomic.Int64
	router.RPC(r, "work", func(c *router.Context, n int) (int, error) {
		now := running.Add(1)
		defer running.Add(-1)
		handled.Add(1)
		for p := peak.Load(); now > p && !peak.CompareAndSwap(p, now); p = peak.Load() {
		}
		for range n % 50 {
			runtime.Gosched()
		}
		switch n % 5 {
		case 0:
			panic("now and then")
		case 1:
			return 0, errors.Aborted.New("now and then")
		}
		return n, nil
	}, router.RouteOptions{Concurrent: true})
	s := routertest.New(t, r)
	var wait sync.WaitGroup
	for seed := range clients {
		c := s.Dial()
		wait.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(seed)))
			for range requests {
				q := c.Request("work", random.IntN(1000))
				if random.IntN(3) == 0 {
					q.Abort()
				}
				c.Request("work", random.IntN(1000))
			}
			if random.IntN(2) == 0 {
				c.Vanish()
			}
		})
	}
	wait.Wait()
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, err := l.Held(t.Context(), l.Key(nil))
	if err != nil || held != 0 || running.Load() != 0 {
		t.Errorf("%d places are held, and %d handlers run, after all of them ended; %v", held, running.Load(), err)
	}
	if p := peak.Load(); p > most || handled.Load() == 0 {
		t.Errorf("%d handlers ran at once, at most %d may; %d ran", p, most, handled.Load())
	}
}

func TestConcurrencyThatMakesNoSense(t *testing.T) {
	l := limit.NewConcurrencyLimit(memory.NewStore(), limit.ConcurrencyOptions{Max: 1})
	for name, make := range map[string]func(){
		"a nil limit": func() { ratelimit.NewConcurrency(nil, ratelimit.PerUserOrIPPerType) },
		"a cost": func() {
			ratelimit.NewConcurrency(l, ratelimit.PerUserOrIPPerType, ratelimit.Options{Cost: ratelimit.Bytes})
		},
		"no maximum": func() { l.With(0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", name)
				}
			}()
			make()
		}()
	}
}
