package ratelimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

type message struct {
	Room string `json:"room"`
}

// withRooms is a router whose events and requests are limited by room.
func withRooms(rooms *limit.Limiter) *watched {
	r := newRouter()
	take := func(c *router.Context, m message) error {
		return ratelimit.Take(c, rooms, limit.KeyOf(c.Identity.Tenant, m.Room), 1)
	}
	router.On(r.Router, "chat.send", take)
	router.RPC(r.Router, "chat.ask", func(c *router.Context, m message) (struct{}, error) { return struct{}{}, take(c, m) })
	return r
}

// A handler's rejection is answered as one, as the answer to a request and
// as an error otherwise, and reported once.
func TestTakeInHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rooms := limit.New(memory.NewStore(), limit.Named("per-room", limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Second}), limit.Options{Name: "rooms"})
		r := withRooms(rooms)
		s := routertest.New(t, r.Router)
		ann, bob := dial(s, "ann"), dial(s, "bob")
		routertest.ExpectReply[struct{}](ann.Request("chat.ask", message{"lobby"}))
		routertest.ExpectReply[struct{}](bob.Request("chat.ask", message{"lobby"}))

		bob.Send("chat.send", message{"lobby"})
		event := bob.ExpectError(errors.ResourceExhausted)
		request := ann.Request("chat.ask", message{"lobby"}).ExpectError(errors.ResourceExhausted)
		for _, f := range []routertest.Failure{event, request} {
			if !f.Retryable || f.RetryAfterMs == nil || *f.RetryAfterMs != 1000 || f.Message != "rate limit exceeded" {
				t.Errorf("answered %+v", f)
			}
		}
		routertest.ExpectReply[struct{}](ann.Request("chat.ask", message{"kitchen"}))
		synctest.Wait()
		for name, c := range map[string]*routertest.Client{"ann": ann, "bob": bob} {
			if f := c.Frames(); len(f) > 0 {
				t.Errorf("%s was answered twice: %v", name, f)
			}
		}
		reported := r.reported()
		if len(reported) != 2 || reported[0].Type != "chat.send" || reported[1].Type != "chat.ask" {
			t.Fatalf("OnLimitExceeded got %+v", reported)
		}
		for _, i := range reported {
			if i.Kind != errors.LimitRate || i.Limiter != "rooms" || i.Policy != "per-room" || i.Limit != 2 || i.Observed != 1 {
				t.Errorf("OnLimitExceeded got %+v", i)
			}
		}
		if st := r.Stats(); st.Faults != 0 || st.Rejected != 2 {
			t.Errorf("Stats are %+v", st)
		}
	})
}

// Rooms of different tenants are different rooms, whatever their names.
func TestTakeKeepsPartsApart(t *testing.T) {
	l := newLimiter(1)
	for _, parts := range [][]string{{"a", "b:c"}, {"a:b", "c"}, {"a", "b", "c"}, {"a:b:c"}, {""}, {"%none"}} {
		if err := ratelimit.Take(t.Context(), l, limit.KeyOf(parts...), 1); err != nil {
			t.Errorf("%q shares a limit with another: %v", parts, err)
		}
		if err := ratelimit.Take(t.Context(), l, limit.KeyOf(parts...), 1); errors.CodeOf(err) != errors.ResourceExhausted {
			t.Errorf("%q has no limit: %v", parts, err)
		}
	}
}

// A pacer makes the handler wait; a client that goes away ends that.
func TestTakeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paced := limit.New(memory.NewStore(), limit.Pacer{Burst: 1, Refill: 1, Per: time.Second, MaxWait: time.Minute})
		r := withRooms(paced)
		c := dial(routertest.New(t, r.Router), "ann")
		start := time.Now()
		for n := range 3 {
			routertest.ExpectReply[struct{}](c.Request("chat.ask", message{"lobby"}))
			if took := time.Since(start).Round(time.Millisecond); took != time.Duration(n)*time.Second {
				t.Errorf("request %d is answered after %v", n, took)
			}
		}
		q := c.Request("chat.ask", message{"lobby"})
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		q.Abort()
		q.ExpectError(errors.Cancelled)
		routertest.ExpectReply[struct{}](c.Request("ask", nil)) // which waits for the handler
		if took := time.Since(start); took > 2500*time.Millisecond {
			t.Errorf("it took %v to take a request back", took)
		}
	})
}

// What a handler gets wrong is not the client's to know.
func TestTakeWithAnInvalidCost(t *testing.T) {
	l := newLimiter(1)
	for _, cost := range []int{0, -1} {
		if err := ratelimit.Take(t.Context(), l, limit.KeyOf("room"), cost); errors.CodeOf(err) != errors.Internal {
			t.Errorf("cost %d: %v", cost, err)
		}
	}
	if e, ok := errors.AsType[*errors.LimitExceeded](ratelimit.Take(t.Context(), l, limit.KeyOf("room"), 2)); !ok || !e.Never {
		t.Errorf("a cost above the capacity: %v", e)
	}
	if err := ratelimit.Take(t.Context(), l, limit.KeyOf("room"), 1); err != nil {
		t.Errorf("an invalid cost was charged: %v", err)
	}
}

// What a limiter in shadow mode would reject passes.
func TestTakeInShadow(t *testing.T) {
	for _, p := range []limit.Policy{hourly(1), limit.Pacer{Burst: 1, Refill: 1, Per: time.Hour, MaxWait: time.Second}} {
		l := limit.New(memory.NewStore(), p, limit.Options{Shadow: true})
		for range 3 {
			if err := ratelimit.Take(t.Context(), l, l.Key(nil), 1); err != nil {
				t.Errorf("%v: %v", p, err)
			}
		}
	}
}

func TestTakeOverAStoreThatFails(t *testing.T) {
	l := limit.New(failing{}, hourly(1), limit.Options{Name: "n", OnFailure: limit.FailClosed})
	if err := ratelimit.Take(context.Background(), l, limit.KeyOf("room"), 1); errors.CodeOf(err) != errors.Unavailable {
		t.Error(err)
	}
}
