package ratelimit_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
)

func newLimiter(capacity int64, o ...limit.Options) *limit.Limiter {
	return limit.New(memory.NewStore(),
		limit.Named("test", limit.TokenBucket{Capacity: capacity, Refill: 1, Per: time.Hour}), o...)
}

func ann(typ string) *ingress.Context {
	return &ingress.Context{Type: typ, ConnID: "c1", IP: netip.MustParseAddr("192.0.2.1"), Identity: ingress.Identity{Tenant: "acme", User: "ann"}}
}

// passes runs a frame through the middleware.
func passes(h ingress.Handler, c *ingress.Context) bool {
	return h(c) == nil && c.State.Passed
}

func TestRejection(t *testing.T) {
	var reported []ratelimit.Limited
	h := ratelimit.New(newLimiter(2, limit.Options{Name: "chat"}), ratelimit.PerUserOrIPPerType, ratelimit.Options{
		OnLimited: func(_ *ingress.Context, l ratelimit.Limited) { reported = append(reported, l) },
	})(ingress.Pass)
	for range 2 {
		if !passes(h, ann("chat.send")) {
			t.Fatal("refused below the capacity")
		}
	}
	c := ann("chat.send")
	err := h(c)
	e, ok := errors.AsType[*errors.LimitExceeded](err)
	if !ok || c.State.Passed {
		t.Fatalf("error %v, passed %v", err, c.State.Passed)
	}
	if e.RetryAfter <= 0 || e.RetryAfter > time.Hour {
		t.Errorf("retry after %v", e.RetryAfter)
	}
	if want := (errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 2, RetryAfter: e.RetryAfter, Limiter: "chat", Policy: "test"}); *e != want {
		t.Errorf("got %+v, want %+v", *e, want)
	}
	if len(reported) != 1 || reported[0].Limiter != "chat" || reported[0].Cost != 1 || reported[0].Shadow || reported[0].Decision.RetryAfter != e.RetryAfter {
		t.Errorf("OnLimited got %+v", reported)
	}
}

// A cost above the capacity can never fit, and the error says so.
func TestImpossibleCost(t *testing.T) {
	h := ratelimit.New(newLimiter(2), ratelimit.PerUserOrIPPerType, ratelimit.Options{Cost: func(c *ingress.Context) int { return c.Size }})(ingress.Pass)
	c := ann("upload")
	c.Size = 3
	e, ok := errors.AsType[*errors.LimitExceeded](h(c))
	if !ok || !e.Never || e.RetryAfter != 0 || e.Code() != errors.FailedPrecondition || e.Observed != 3 {
		t.Errorf("%+v", e)
	}
	if c.Size = 2; !passes(h, c) {
		t.Error("the impossible cost was charged")
	}
}

// A cost below 1 is refused, charges nothing and is reported.
func TestInvalidCost(t *testing.T) {
	cost, reported := 2, []int{}
	h := ratelimit.New(newLimiter(2), ratelimit.PerUserOrIPPerType, ratelimit.Options{
		Cost:          func(*ingress.Context) int { return cost },
		OnInvalidCost: func(_ *ingress.Context, cost int) { reported = append(reported, cost) },
	})(ingress.Pass)
	for _, cost = range []int{0, -1, -2} {
		c := ann("chat.send")
		if err := h(c); errors.CodeOf(err) != errors.InvalidArgument || c.State.Passed {
			t.Errorf("cost %d: error %v, passed %v", cost, err, c.State.Passed)
		}
	}
	if fmt.Sprint(reported) != "[0 -1 -2]" {
		t.Errorf("reported %v", reported)
	}
	if cost = 2; !passes(h, ann("chat.send")) {
		t.Error("an invalid cost was charged")
	}
	if cost = 1; passes(h, ann("chat.send")) {
		t.Error("an invalid cost minted tokens")
	}
}

func TestShadow(t *testing.T) {
	for name, h := range map[string]func(ratelimit.Options) ingress.Handler{
		"middleware": func(o ratelimit.Options) ingress.Handler {
			o.Shadow = true
			return ratelimit.New(newLimiter(1), ratelimit.PerUser, o)(ingress.Pass)
		},
		"limiter": func(o ratelimit.Options) ingress.Handler {
			return ratelimit.New(newLimiter(1, limit.Options{Shadow: true}), ratelimit.PerUser, o)(ingress.Pass)
		},
	} {
		reported := 0
		h := h(ratelimit.Options{OnLimited: func(_ *ingress.Context, l ratelimit.Limited) {
			if l.Shadow && l.Decision.RetryAfter > 0 {
				reported++
			}
		}})
		for range 3 {
			if !passes(h, ann("chat.send")) {
				t.Errorf("%s: shadow mode refuses", name)
			}
		}
		if reported != 2 {
			t.Errorf("%s: reported %d, want 2", name, reported)
		}
	}
}

func TestStoreFailureTurnsAway(t *testing.T) {
	l := limit.New(brokenStore{}, limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second}, limit.Options{Name: "n", OnFailure: limit.FailClosed})
	c := ann("chat.send")
	if err := ratelimit.New(l, ratelimit.PerUserOrIPPerType)(ingress.Pass)(c); errors.CodeOf(err) != errors.Unavailable || c.State.Passed {
		t.Errorf("error %v, passed %v", err, c.State.Passed)
	}
}

type brokenStore struct{}

func (brokenStore) Take(context.Context, []byte, limit.Policy, int64) (limit.Decision, error) {
	return limit.Decision{}, errors.New("down")
}
