package ratelimit_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Every connection has a limit of its own, also of one user, and a new one with each
// connection.
func TestPerConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := limit.Named("smooth", limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Second})
		r := newRouter(ratelimit.NewPerConnection(policy))
		s := routertest.New(t, r.Router)
		for range 3 {
			c := dial(s, "ann")
			said(t, c)
			said(t, c)
			f := c.Request("ask", nil).ExpectError(errors.ResourceExhausted)
			if f.RetryAfterMs == nil || *f.RetryAfterMs != 1000 {
				t.Errorf("answered %+v", f)
			}
			time.Sleep(time.Second)
			said(t, c)
			c.Close()
		}
		synctest.Wait()
		reported := r.reported()
		if len(reported) != 3 || reported[0].Limiter != "connection" || reported[0].Policy != "smooth" || reported[0].Limit != 2 {
			t.Errorf("OnLimitExceeded got %+v", reported)
		}
	})
}

// All policies can keep their state in a connection.
func TestPerConnectionPolicies(t *testing.T) {
	for _, p := range []limit.Policy{
		limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Hour},
		limit.FixedWindow{Limit: 3, Window: 24 * time.Hour},
		limit.SlidingWindow{Limit: 3, Window: time.Hour, Buckets: 5},
		limit.SlidingLog{Limit: 3, Window: time.Hour},
		limit.All(limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Hour}, limit.SlidingLog{Limit: 3, Window: time.Hour}),
	} {
		synctest.Test(t, func(t *testing.T) {
			h := ratelimit.NewPerConnection(p)(ingress.Pass)
			c := ann("x")
			for i := range 6 {
				if got := h(c) == nil; got != (i < 3) {
					t.Errorf("%v: frame %d passes: %v", p, i+1, got)
				}
			}
		})
	}
}

func TestPerConnectionOptions(t *testing.T) {
	cost, invalid, reported := 1, 0, 0
	o := ratelimit.Options{
		Cost:          func(*ingress.Context) int { return cost },
		OnInvalidCost: func(*ingress.Context, int) { invalid++ },
		OnLimited:     func(_ *ingress.Context, l ratelimit.Limited) { reported++ },
	}
	h := ratelimit.NewPerConnection(hourly(2), o)(ingress.Pass)
	c := ann("x")
	for _, cost = range []int{0, -1} {
		if err := h(c); errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("cost %d: %v", cost, err)
		}
	}
	if cost = 3; errors.CodeOf(h(c)) != errors.FailedPrecondition {
		t.Error("a cost above the capacity is not refused for ever")
	}
	if cost = 2; h(c) != nil || h(c) == nil {
		t.Error("the costs do not count")
	}
	o.Shadow = true
	h = ratelimit.NewPerConnection(hourly(2), o)(ingress.Pass)
	for range 2 {
		if h(c) != nil {
			t.Error("a shadow turns away")
		}
	}
	if invalid != 2 || reported != 3 {
		t.Errorf("reported %d invalid costs and %d frames, want 2 and 3", invalid, reported)
	}
}

// A pacer in the connection delays its frames only.
func TestPerConnectionPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := routertest.New(t, newRouter(ratelimit.NewPerConnection(
			limit.Pacer{Burst: 1, Refill: 1, Per: time.Second, MaxWait: 2 * time.Second})).Router)
		c, other := dial(s, "ann"), dial(s, "ann")
		start := time.Now()
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			for range 5 { // more than could wait, if they were not read one by one
				c.Send("say", nil) // waits, too: the connection is not read
			}
		})
		said(t, other)
		if took := time.Since(start); took != 0 {
			t.Errorf("another connection waits for %v", took)
		}
		for n := range 5 {
			routertest.ExpectEvent[struct{}](c, "said")
			if took, want := time.Since(start).Round(time.Millisecond), time.Duration(n)*time.Second; took != want {
				t.Errorf("frame %d is handled after %v, want %v", n, took, want)
			}
		}
	})
}

// Two of them do not share state, nor do connections that were given one identity,
// with a value in it.
func TestPerConnectionSharesNothing(t *testing.T) {
	c := ann("x")
	a, b := ratelimit.NewPerConnection(hourly(1))(ingress.Pass), ratelimit.NewPerConnection(hourly(1))(ingress.Pass)
	if a(c) != nil || b(c) != nil || a(c) == nil || b(c) == nil {
		t.Error("two limits of one connection are not two")
	}

	var guest ingress.Identity
	ingress.NewKey[string]().Set(&guest, "en")
	r := router.New(router.Options{Authenticate: func(*http.Request) (ingress.Identity, error) { return guest, nil }})
	r.Use(ratelimit.NewPerConnection(hourly(2)))
	router.On(r, "say", func(c *router.Context, _ struct{}) error { return c.Send("said", nil) })
	s := routertest.New(t, r)
	for range 2 {
		c := s.Dial()
		said(t, c)
		said(t, c)
		c.Send("say", nil)
		c.ExpectError(errors.ResourceExhausted)
	}
}
