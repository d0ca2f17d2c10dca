package enforce_test

import (
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit/internal/enforce"
)

// A refusal has the decision of the limit, and is reported once. In shadow mode it is reported only.
func TestRefusals(t *testing.T) {
	t.Parallel()
	denied := limit.Decision{Limit: 5, Remaining: 2, RetryAfter: time.Second, Policy: "bucket"}
	for _, shadow := range []bool{false, true} {
		var reported []enforce.Limited
		e := &enforce.Enforcer{Options: enforce.Options{
			Shadow:    shadow,
			OnLimited: func(_ *ingress.Context, l enforce.Limited) { reported = append(reported, l) },
		}}
		err := e.Refuse(&ingress.Context{Type: "chat.send"}, &denied, enforce.Limited{Limiter: "chat", Rule: "default", Cost: 3}, true)
		if want := (enforce.Limited{Limiter: "chat", Rule: "default", Cost: 3, Decision: denied, Shadow: shadow}); len(reported) != 1 || reported[0] != want {
			t.Errorf("reported %+v, want %+v once", reported, want)
		}
		l, refused := errors.AsType[*errors.LimitExceeded](err)
		if refused == shadow {
			t.Fatalf("shadow %v: %v", shadow, err)
		}
		if refused && (l.Observed != 3 || l.Limit != 5 || l.Remaining != 2 || l.RetryAfter != time.Second || l.Limiter != "chat" || !l.Silent) {
			t.Errorf("refused with %+v", l)
		}
	}
}

// A cost below 1 would bypass the limit: it is refused, and reported to the hook.
func TestCosts(t *testing.T) {
	t.Parallel()
	var invalid []int
	e := &enforce.Enforcer{Options: enforce.Options{OnInvalidCost: func(_ *ingress.Context, cost int) { invalid = append(invalid, cost) }}}
	for given, want := range map[int]int64{7: 7, 0: 0, -1: 0} {
		got, err := e.CostOf(&ingress.Context{}, func(*ingress.Context) int { return given }, "chat")
		if got != want || (err != nil) != (want == 0) || err != nil && errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("a cost of %d: %d, %v", given, got, err)
		}
	}
	if len(invalid) != 2 {
		t.Errorf("reported %v", invalid)
	}
	if cost, err := e.CostOf(&ingress.Context{}, nil, "chat"); cost != 1 || err != nil {
		t.Errorf("without a function %d, %v", cost, err)
	}
}

// A place is taken until its message has ended.
func TestPlaces(t *testing.T) {
	t.Parallel()
	l := limit.NewConcurrencyLimit(memory.NewStore(), limit.ConcurrencyOptions{Max: 1})
	e := new(enforce.Enforcer)
	begin := func() (*enforce.Place, error) {
		p := enforce.NewPlace(e, l, &ingress.Context{})
		p.Key = limit.KeyOf("ann")
		return p, p.Begin(t.Context())
	}
	first, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	_, err = begin()
	if refused, ok := errors.AsType[*errors.LimitExceeded](err); !ok || refused.Kind != errors.LimitInFlight || refused.Limit != 1 {
		t.Errorf("the second place of one: %v", err)
	}
	first.End()
	if again, err := begin(); err != nil {
		t.Errorf("the place is still taken: %v", err)
	} else {
		again.End()
	}
}
