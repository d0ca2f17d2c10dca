package ingress_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

func TestChainOrder(t *testing.T) {
	var order []string
	note := func(name string) ingress.Middleware {
		return func(next ingress.Handler) ingress.Handler {
			order = append(order, "wrap "+name)
			return func(c *ingress.Context) error {
				order = append(order, "enter "+name)
				err := next(c)
				order = append(order, "leave "+name)
				return err
			}
		}
	}
	h := ingress.Chain(ingress.Pass, note("first"), note("second"))
	if want := []string{"wrap second", "wrap first"}; !slices.Equal(order, want) {
		t.Errorf("wrapping: %v, want %v", order, want)
	}
	order = nil
	if err := h(new(ingress.Context)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"enter first", "enter second", "leave second", "leave first"}; !slices.Equal(order, want) {
		t.Errorf("a frame's way: %v, want %v", order, want)
	}
}

func TestChainOfNothing(t *testing.T) {
	var c ingress.Context
	if err := ingress.Chain(ingress.Pass)(&c); err != nil || !c.Passed() {
		t.Errorf("error %v, passed %v", err, c.Passed())
	}
}

func TestPassed(t *testing.T) {
	var c ingress.Context
	c.Bind(t.Context(), "conn", netip.Addr{}, ingress.Identity{})
	swallow := func(ingress.Handler) ingress.Handler { return func(*ingress.Context) error { return nil } }

	c.Next("a", []byte("a"), time.Now(), 1)
	if c.Passed() {
		t.Error("passed before any handler ran")
	}
	if err := ingress.Chain(ingress.Pass, swallow)(&c); err != nil || c.Passed() {
		t.Errorf("swallowed: error %v, passed %v", err, c.Passed())
	}
	if err := ingress.Pass(&c); err != nil || !c.Passed() {
		t.Errorf("error %v, passed %v", err, c.Passed())
	}
	c.Next("a", []byte("a"), time.Now(), 1)
	if c.Passed() {
		t.Error("the next frame counts as passed because the one before did")
	}
}

func TestBindAndNext(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "v")
	ip := netip.MustParseAddr("192.0.2.1")
	id := ingress.Identity{Tenant: "acme", User: "ann", Tier: "pro"}
	at := time.Now()

	var c ingress.Context
	if c.Context() == nil || c.Context().Err() != nil {
		t.Error("a Context made with a literal has no context")
	}
	c.Bind(ctx, "conn", ip, id)
	c.Next("a", []byte("a"), at, 7)
	if c.ConnID != "conn" || c.IP != ip || c.Identity != id || c.Context().Value(key{}) != "v" {
		t.Errorf("after Bind: %+v", c)
	}
	if c.Type != "a" || c.ReceivedAt != at || c.Size != 7 || c.SentType() != "a" {
		t.Errorf("after Next: %+v", c)
	}
	c.Next("", []byte("unheard.of"), at, 8)
	if c.Type != "" || c.SentType() != "unheard.of" || c.Size != 8 {
		t.Errorf("an unregistered type: %+v", c)
	}

	// The Context goes to another connection.
	c.Bind(t.Context(), "other", netip.Addr{}, ingress.Identity{})
	if c.Type != "" || c.SentType() != "" || c.Size != 0 || c.Identity.User != "" || c.Passed() || c.Context().Value(key{}) != nil {
		t.Errorf("Bind leaves something of the connection before: %+v", c)
	}
}

func TestSentTypeIsCut(t *testing.T) {
	var c ingress.Context
	if c.SentType() != "" {
		t.Errorf("nothing was sent: %q", c.SentType())
	}
	for _, n := range []int{0, 1, 127, 128, 129, 1 << 20} {
		c.Next("", []byte(strings.Repeat("x", n)), time.Now(), n)
		if got := len(c.SentType()); got != min(n, 128) {
			t.Errorf("%d bytes sent, SentType has %d", n, got)
		}
	}
}

func TestRejectAllocatesNothing(t *testing.T) {
	c := new(ingress.Context)
	var sink error
	if n := testing.AllocsPerRun(100, func() {
		sink = c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 10, RetryAfter: time.Second})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if e, ok := errors.AsType[*errors.LimitExceeded](sink); !ok || e.Limit != 10 {
		t.Errorf("Reject returned %v", sink)
	}
}

func TestRejectIsOverwrittenByTheNext(t *testing.T) {
	var c, other ingress.Context
	first := c.Reject(errors.LimitExceeded{Limit: 1})
	elsewhere := other.Reject(errors.LimitExceeded{Limit: 7})
	second := c.Reject(errors.LimitExceeded{Limit: 2})
	if first != second {
		t.Error("Reject made a new error")
	}
	for err, want := range map[error]int64{second: 2, elsewhere: 7} {
		if got := err.(*errors.LimitExceeded).Limit; got != want {
			t.Errorf("Limit = %d, want %d", got, want)
		}
	}
}
