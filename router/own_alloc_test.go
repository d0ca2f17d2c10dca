package router

import (
	"testing"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/race"
)

// Middleware, sizes and exemption of a route or a group allocate nothing, nor do they, or
// declared events, in the way of other types.
func TestOwnMiddlewareAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools forget, so it allocates")
	}
	seen := 0
	count := func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			seen++
			return next(c)
		}
	}
	r := New(Options{})
	Declare[numbers](r, "reported")
	g := r.Group("g.", RouteOptions{MaxPayload: 1 << 20})
	g.Use(count)
	own := RouteOptions{Exempt: true, Strict: true}
	On(g.With(count), "event", func(*Context, numbers) error { return nil }, own)
	RPC(g.With(count), "request", func(_ *Context, n numbers) (numbers, error) { return n, nil }, own)
	On(g.With(refuseAll), "refused", func(*Context, numbers) error { return nil })
	On(r, "event", func(*Context, numbers) error { return nil })
	for name, frame := range map[string]string{
		"event":       `{"type":"g.event","payload":{"A":1,"B":2}}`,
		"request":     `{"type":"g.request","meta":{"correlationId":"02b7"},"payload":{"A":1,"B":2}}`,
		"refused":     `{"type":"g.refused","meta":{"correlationId":"02b7"},"payload":{"A":1,"B":2}}`,
		"other event": eventFrame,
	} {
		before := seen
		if n := testing.AllocsPerRun(2000, dispatching(t, r, frame)); n != 0 {
			t.Errorf("%s: %v allocations per frame, want none", name, n)
		}
		if (seen == before) != (name == "other event") {
			t.Errorf("%s: the middleware was called %d times", name, seen-before)
		}
	}
}
