package ratelimit_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
)

// hourly is a bucket that practically does not refill.
func hourly(capacity int64) limit.Policy {
	return limit.TokenBucket{Capacity: capacity, Refill: 1, Per: time.Hour}
}

// What one of several limits denies is charged to none of them, and the
// rejection names the one that bound.
func TestStackChargesAllOrNone(t *testing.T) {
	store := memory.NewStore()
	user := limit.New(store, hourly(3), limit.Options{Name: "user"})
	tenant := limit.New(store, hourly(5), limit.Options{Name: "tenant"})
	global := limit.New(store, hourly(100), limit.Options{Name: "global"})
	var reported []string
	layers := []ratelimit.Layer{
		{Limiter: global, Key: ratelimit.Global},
		{Limiter: tenant, Key: ratelimit.PerTenant},
		{Limiter: user, Key: ratelimit.PerUser},
	}
	h := ratelimit.NewAll(layers, ratelimit.Options{
		OnLimited: func(_ *ingress.Context, l ratelimit.Limited) {
			reported = append(reported, l.Limiter)
		},
	})(ingress.Pass)
	clear(layers) // they were copied

	left := func(l *limit.Limiter, key ratelimit.KeyFunc) int64 {
		d, err := l.Peek(t.Context(), key(l.Key(nil), ann("")), 1)
		if err != nil {
			t.Fatal(err)
		}
		return d.Remaining
	}
	lefts := func() []int64 {
		return []int64{left(global, ratelimit.Global), left(tenant, ratelimit.PerTenant), left(user, ratelimit.PerUser)}
	}
	refused := func(c *ingress.Context, by string) {
		t.Helper()
		before := lefts()
		e, ok := errors.AsType[*errors.LimitExceeded](h(c))
		if !ok || e.Limiter != by || e.Kind != errors.LimitRate || e.RetryAfter <= 0 || c.State.Passed {
			t.Errorf("rejected with %+v, want by %s", e, by)
		}
		if after := lefts(); !slices.Equal(before, after) {
			t.Errorf("a rejected frame was charged: %v left, %v before", after, before)
		}
	}

	for range 3 {
		if !passes(h, ann("x")) {
			t.Fatal("refused below all limits")
		}
	}
	if got := lefts(); !slices.Equal(got, []int64{97, 2, 0}) {
		t.Fatalf("%v left after three frames, want 97, 2 and 0", got)
	}
	refused(ann("x"), "user")
	bob := func() *ingress.Context {
		c := ann("x")
		c.Identity.User = "bob"
		return c
	}
	for range 2 {
		if !passes(h, bob()) {
			t.Fatal("the tenant's limit was used up by rejected frames")
		}
	}
	refused(bob(), "tenant")
	if want := []string{"user", "tenant"}; !slices.Equal(reported, want) {
		t.Errorf("OnLimited got %v, want %v", reported, want)
	}
}

// Layers have costs of their own, and one that is not valid charges none of them.
func TestStackCosts(t *testing.T) {
	store := memory.NewStore()
	bytes := limit.New(store, hourly(100), limit.Options{Name: "bytes"})
	frames := limit.New(store, hourly(2), limit.Options{Name: "frames"})
	cost := 1
	h := ratelimit.NewAll([]ratelimit.Layer{
		{Limiter: frames, Key: ratelimit.Global},
		{Limiter: bytes, Key: ratelimit.Global, Cost: ratelimit.Bytes},
	}, ratelimit.Options{
		Cost:          func(*ingress.Context) int { return cost },
		OnInvalidCost: func(*ingress.Context, int) {},
	})(ingress.Pass)
	frame := func(size int) error {
		c := ann("x")
		c.Size = size
		return h(c)
	}
	cost = 0
	if err := frame(50); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("cost 0: %v", err)
	}
	cost = 1
	if e, ok := errors.AsType[*errors.LimitExceeded](frame(101)); !ok || !e.Never || e.Limiter != "bytes" || e.Observed != 101 || e.Limit != 100 {
		t.Errorf("more bytes than can ever pass: %+v", e)
	}
	if err := frame(60); err != nil {
		t.Error(err)
	}
	if e, ok := errors.AsType[*errors.LimitExceeded](frame(60)); !ok || e.Limiter != "bytes" {
		t.Errorf("more bytes than are left: %+v", e)
	}
	if err := frame(40); err != nil {
		t.Errorf("what was refused has been charged: %v", err)
	}
	d, err := bytes.Peek(t.Context(), bytes.Key(nil), 1)
	if err != nil || d.Remaining != 0 {
		t.Errorf("%d bytes left, %v", d.Remaining, err)
	}
}

// A layer in shadow mode is reported and rejects nothing.
func TestStackWithShadows(t *testing.T) {
	for name, shadowed := range map[string][]bool{"one of two": {true, false}, "both": {true, true}} {
		store := memory.NewStore()
		var reported []string
		h := ratelimit.NewAll([]ratelimit.Layer{
			{Limiter: limit.New(store, hourly(1), limit.Options{Name: "strict", Shadow: shadowed[0]}), Key: ratelimit.PerUserOrIPPerType},
			{Limiter: limit.New(store, hourly(9), limit.Options{Name: "lenient", Shadow: shadowed[1]}), Key: ratelimit.PerUserOrIPPerType},
		}, ratelimit.Options{OnLimited: func(_ *ingress.Context, l ratelimit.Limited) {
			if l.Shadow {
				reported = append(reported, l.Limiter)
			}
		}})(ingress.Pass)
		for range 3 {
			if !passes(h, ann("x")) {
				t.Errorf("%s: a limit in shadow mode turns away", name)
			}
		}
		if want := []string{"strict", "strict"}; !slices.Equal(reported, want) {
			t.Errorf("%s: reported %v, want %v", name, reported, want)
		}
	}
}

// While the store fails, the limiters' failure policy decides about all layers.
func TestStackOverAStoreThatFails(t *testing.T) {
	layer := func(name string) ratelimit.Layer {
		return ratelimit.Layer{Limiter: limit.New(failing{}, hourly(2), limit.Options{Name: name, OnFailure: limit.FailClosed}), Key: ratelimit.PerUser}
	}
	h := ratelimit.NewAll([]ratelimit.Layer{layer("a"), layer("b")})(ingress.Pass)
	c := ann("x")
	if err := h(c); errors.CodeOf(err) != errors.Unavailable || c.State.Passed {
		t.Errorf("error %v, passed %v", err, c.State.Passed)
	}
}

// failing is a shared store that is down.
type failing struct{ brokenStore }

func (failing) TakeMany(context.Context, []limit.Ask) error { return errors.New("down") }

func (failing) TakeAll(context.Context, []limit.Ask) (int, error) {
	return 0, errors.New("down")
}

func (failing) Peek(context.Context, []byte, limit.Policy, int64) (limit.Decision, error) {
	return limit.Decision{}, errors.New("down")
}

func (failing) Refund(context.Context, []byte, limit.Policy, limit.Decision) error {
	return errors.New("down")
}

func (failing) Reset(context.Context, []byte, limit.Policy) error { return errors.New("down") }

// What is exempt is not charged by a stack of limits.
func TestAStackDoesNotChargeWhatIsExempt(t *testing.T) {
	t.Parallel()
	l := limit.New(memory.NewStore(), limit.FixedWindow{Limit: 1, Window: 1e12})
	h := ratelimit.NewAll([]ratelimit.Layer{{Limiter: l, Key: ratelimit.PerUser}})(ingress.Pass)
	for range 3 {
		if err := h(&ingress.Context{Type: "a", Exempt: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h(&ingress.Context{Type: "a"}); err != nil {
		t.Errorf("what is exempt was charged: %v", err)
	}
}
