package ratelimit_test

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
)

// A pacer spaces frames out, and rejects one that would have to wait too long.
func TestPacerHoldsFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		limiter := limit.New(store, limit.Pacer{Burst: 1, Refill: 1, Per: time.Second, MaxWait: 2 * time.Second})
		handle := ratelimit.New(limiter, ratelimit.PerUserOrIPPerType)(ingress.Pass)
		c := &ingress.Context{Type: "x", IP: netip.MustParseAddr("192.0.2.1")}
		start := time.Now()
		for n := range 4 {
			if err := handle(c); err != nil {
				t.Fatalf("frame %d: %v", n, err)
			}
			if took, want := time.Since(start), time.Duration(n)*time.Second; took.Round(time.Millisecond) != want {
				t.Errorf("frame %d passed after %v, want %v", n, took, want)
			}
		}
		// Three at once: the third would have to wait for three seconds.
		results := make(chan error, 3)
		for range 3 {
			go func() { results <- handle(&ingress.Context{Type: "x", IP: c.IP}) }()
		}
		refused := 0
		for range 3 {
			if err := <-results; errors.CodeOf(err) == errors.ResourceExhausted {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d of three frames were rejected, want 1", refused)
		}
	})
}

// A connection that ends does not keep its frame waiting.
func TestPacerLetsGoOfAConnectionThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		limiter := limit.New(store, limit.Pacer{Burst: 1, Refill: 1, Per: time.Hour, MaxWait: 2 * time.Hour})
		handle := ratelimit.New(limiter, ratelimit.PerUserOrIPPerType)(ingress.Pass)
		ctx, cancel := context.WithCancel(context.Background())
		var c ingress.Context
		c.State.Ctx = ctx
		if err := handle(&c); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		if err := handle(&c); err != context.Canceled || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want context.Canceled after 1s", err, time.Since(start))
		}
	})
}

// A pacer in shadow mode holds nothing back, wherever it stands.
func TestPacersInShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		pacer := limit.Pacer{Burst: 1, Refill: 1, Per: time.Second, MaxWait: time.Second}
		shadow := func() *limit.Limiter { return limit.New(store, pacer, limit.Options{Shadow: true}) }
		taken := shadow()
		handle := ingress.Handler(ingress.Pass)
		for _, middleware := range []ingress.Middleware{
			ratelimit.New(shadow(), ratelimit.PerUserOrIPPerType),
			ratelimit.NewAll([]ratelimit.Layer{{Limiter: shadow(), Key: ratelimit.PerUserOrIPPerType}, {Limiter: limit.New(store, hourly(9)), Key: ratelimit.PerUserOrIPPerType}}),
			ratelimit.NewAll([]ratelimit.Layer{{Limiter: shadow(), Key: ratelimit.PerUserOrIPPerType}, {Limiter: shadow(), Key: ratelimit.PerUserOrIPPerType}}),
			ratelimit.New(limit.New(store, pacer), ratelimit.PerUserOrIPPerType, ratelimit.Options{Shadow: true}),
			ratelimit.NewPerConnection(pacer, ratelimit.Options{Shadow: true}),
		} {
			handle = middleware(handle)
		}
		c, start := ann("x"), time.Now()
		for range 3 { // one at once, one that would wait, and one that would not be let in
			if err := errors.Join(handle(c), ratelimit.Take(t.Context(), taken, taken.Key(nil), 1)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("held for %v", took)
		}
	})
}

// Of several pacers the longest wait counts, and a frame that one of them rejects has
// no place in the line of another.
func TestPacersInAStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		pacer := func(per, most time.Duration) *limit.Limiter {
			return limit.New(store, limit.Pacer{Burst: 1, Refill: 1, Per: per, MaxWait: most})
		}
		handle := ratelimit.NewAll([]ratelimit.Layer{
			{Limiter: pacer(time.Second, time.Hour), Key: ratelimit.PerUserOrIPPerType},
			{Limiter: pacer(3*time.Second, 3*time.Second), Key: ratelimit.Global},
			{Limiter: pacer(4*time.Second, time.Hour), Key: ratelimit.PerUserOrIPPerType},
		})(ingress.Pass)
		start := time.Now()
		for n := range 3 {
			if err := handle(ann("x")); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start).Round(time.Millisecond); took != time.Duration(n)*4*time.Second {
				t.Errorf("frame %d passed after %v", n, took)
			}
		}
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- handle(ann("x")) }()
		}
		if err := <-results; errors.CodeOf(err) != errors.ResourceExhausted || time.Since(start).Round(time.Millisecond) != 8*time.Second {
			t.Errorf("%v after %v, want a rejection at once", err, time.Since(start))
		}
		if err := <-results; err != nil || time.Since(start).Round(time.Millisecond) != 12*time.Second {
			t.Errorf("%v after %v, want no error after 12s", err, time.Since(start))
		}
	})
}
