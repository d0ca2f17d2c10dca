package limit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/limit"
)

// stacked are two limiters over one store, and an ask to each.
func stacked(store limit.Store, o ...limit.Options) (user, tenant *limit.Limiter) {
	one, two := limit.Options{Name: "user"}, limit.Options{Name: "tenant"}
	if len(o) > 0 {
		one.OnFailure, two.OnFailure = o[0].OnFailure, o[0].OnFailure
		two.Shadow = o[0].Shadow
	}
	user = limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Hour}, one)
	tenant = limit.New(store, limit.SlidingLog{Limit: 3, Window: time.Hour}, two)
	return user, tenant
}

func asksOf(user, tenant *limit.Limiter, name string) []limit.Ask {
	return []limit.Ask{user.Ask(user.Key(nil).Part(name), 1), tenant.Ask(tenant.Key(nil).Part("acme"), 1)}
}

// A message that one limit denies uses up none of the others.
func TestTakeAll(t *testing.T) {
	user, tenant := stacked(memory.NewStore())
	for i, want := range []struct {
		name    string
		allowed bool
		bound   int
	}{{"ann", true, 0}, {"ann", true, 0}, {"ann", false, 0}, {"ann", false, 0}, {"bob", true, 1}, {"cid", false, 1}} {
		asks := asksOf(user, tenant, want.name)
		bound, err := limit.TakeAll(ctx, asks)
		if err != nil || bound != want.bound || asks[bound].Decision.Allowed != want.allowed {
			t.Errorf("call %d: bound %d, %+v, %v", i, bound, asks, err)
		}
		if !want.allowed && (asks[0].Decision.Charged != 0 || asks[1].Decision.Charged != 0) {
			t.Errorf("call %d is denied and charged %+v", i, asks)
		}
	}
	if d, _ := user.Take(ctx, limit.KeyOf("cid"), 2); !d.Allowed {
		t.Error("cid was charged for what the tenant's limit denied")
	}
	if u, a := user.Stats(), tenant.Stats(); u.Allowed != 4 || u.Denied != 2 || a.Allowed != 3 || a.Denied != 1 {
		t.Errorf("figures %+v, %+v", u, a)
	}
}

// A limiter in shadow mode denies nothing, and is charged only for what passes.
func TestTakeAllInShadow(t *testing.T) {
	user, tenant := stacked(memory.NewStore(), limit.Options{Shadow: true})
	var asks []limit.Ask
	for _, name := range []string{"ann", "ann", "ann", "bob", "bob"} {
		asks = asksOf(user, tenant, name)
		limit.TakeAll(ctx, asks)
	}
	if !asks[0].Decision.Allowed || !asks[1].Decision.Shadowed || !asks[1].Decision.Allowed {
		t.Errorf("%+v", asks)
	}
	if s := tenant.Stats(); s.Allowed != 3 || s.Shadowed != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTakeMany(t *testing.T) {
	user, tenant := stacked(memory.NewStore())
	asks := append(asksOf(user, tenant, "ann"), user.Ask(user.Key(nil).Part("ann"), 2), user.Ask(user.Key(nil).Part("ann"), 1))
	if err := limit.TakeMany(ctx, asks); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(asks[0].Decision.Allowed, asks[1].Decision.Allowed, asks[2].Decision.Allowed, asks[3].Decision.Allowed); got != "true true false true" {
		t.Error(got)
	}
	if asks[0].Decision.At != asks[3].Decision.At {
		t.Error("not at one instant")
	}
}

func TestAsksAreChecked(t *testing.T) {
	user, tenant := stacked(memory.NewStore())
	other, _ := stacked(memory.NewStore())
	for name, asks := range map[string][]limit.Ask{
		"cost 0":       {user.Ask(user.Key(nil).Part("ann"), 1), tenant.Ask(tenant.Key(nil).Part("acme"), 0)},
		"zero key":     {user.Ask(user.Key(nil).Part("ann"), 1), user.Ask(limit.Key{}, 1)},
		"another's":    {user.Ask(user.Key(nil).Part("ann"), 1), user.Ask(tenant.Key(nil).Part("acme"), 1)},
		"no limiter":   {user.Ask(user.Key(nil).Part("ann"), 1), {Key: []byte("k"), Policy: three, Cost: 1}},
		"two stores":   {user.Ask(user.Key(nil).Part("ann"), 1), other.Ask(other.Key(nil).Part("ann"), 1)},
		"far too many": make([]limit.Ask, 65),
	} {
		if _, err := limit.TakeAll(ctx, asks); errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("%s: TakeAll: %v", name, err)
		}
		if err := limit.TakeMany(ctx, asks); errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("%s: TakeMany: %v", name, err)
		}
	}
	if d, _ := user.Peek(ctx, limit.KeyOf("ann"), 2); !d.Allowed {
		t.Error("a refused call charged something")
	}
	if _, err := limit.TakeAll(ctx, nil); err != nil {
		t.Error(err)
	}
}

// While the store fails, the failure policies decide together.
func TestTakeAllFailsOver(t *testing.T) {
	for failure, want := range map[limit.Failure]string{
		limit.FailLocal: "true true false", limit.FailOpen: "true true true",
	} {
		user, tenant := stacked(&downMany{}, limit.Options{OnFailure: failure})
		got := ""
		for range 3 {
			asks := asksOf(user, tenant, "ann")
			bound, err := limit.TakeAll(ctx, asks)
			if err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprint(" ", asks[bound].Decision.Allowed)
			if asks[0].Decision.Charged != 0 {
				t.Error("a charge that the store does not know can be refunded to it")
			}
		}
		if got != " "+want {
			t.Errorf("%v:%s", failure, got)
		}
		asks := asksOf(user, tenant, "bob")
		if err := limit.TakeMany(ctx, asks); err != nil || !asks[0].Decision.Allowed {
			t.Errorf("%v: TakeMany %+v, %v", failure, asks, err)
		}
	}
	user, tenant := stacked(&downMany{}, limit.Options{OnFailure: limit.FailClosed})
	if _, err := limit.TakeAll(ctx, asksOf(user, tenant, "ann")); errors.CodeOf(err) != errors.Unavailable {
		t.Error(err)
	}
}

// downMany has every operation, and none works.
type downMany struct{}

func (*downMany) Take(context.Context, []byte, limit.Policy, int64) (limit.Decision, error) {
	return limit.Decision{}, errDown
}
func (*downMany) TakeMany(context.Context, []limit.Ask) error { return errDown }
func (*downMany) TakeAll(context.Context, []limit.Ask) (int, error) {
	return 0, errDown
}
func (*downMany) Peek(context.Context, []byte, limit.Policy, int64) (limit.Decision, error) {
	return limit.Decision{}, errDown
}
func (*downMany) Refund(context.Context, []byte, limit.Policy, limit.Decision) error { return errDown }
func (*downMany) Reset(context.Context, []byte, limit.Policy) error                  { return errDown }

func TestOperations(t *testing.T) {
	l := newLimiter(t)
	d, _ := l.Take(ctx, limit.KeyOf("ann"), 2)
	now, err := l.Peek(ctx, limit.KeyOf("ann"), 1)
	if f := now.Forecast(1); err != nil || f.Fits != 0 || f.NextAfter <= 0 || f.FullAfter <= f.NextAfter {
		t.Errorf("%+v, %v", f, err)
	}
	if err := l.Refund(ctx, limit.KeyOf("ann"), d); err != nil {
		t.Error(err)
	}
	now, _ = l.Peek(ctx, limit.KeyOf("ann"), 1)
	if f := now.Forecast(1); f.Fits != 2 {
		t.Errorf("after the refund: %+v", f)
	}
	l.Take(ctx, limit.KeyOf("ann"), 2)
	denied, _ := l.Take(ctx, limit.KeyOf("ann"), 1)
	l.Refund(ctx, limit.KeyOf("ann"), denied)
	if d, _ := l.Peek(ctx, limit.KeyOf("ann"), 1); d.Allowed {
		t.Error("the refund of a denial gave something back")
	}
	if err := l.Reset(ctx, limit.KeyOf("ann")); err != nil {
		t.Error(err)
	}
	if d, _ := l.Take(ctx, limit.KeyOf("ann"), 2); !d.Allowed {
		t.Errorf("after the reset: %+v", d)
	}
}

// What the store cannot do is said, and takes nothing.
func TestUnsupportedOperations(t *testing.T) {
	l := limit.New(&flaky{}, three, limit.Options{Name: "n"})
	asks := []limit.Ask{l.Ask(limit.KeyOf("ann"), 1)}
	_, peek := l.Peek(ctx, limit.KeyOf("ann"), 1)
	_, all := limit.TakeAll(ctx, asks)
	for name, err := range map[string]error{
		"Peek": peek, "TakeAll": all, "TakeMany": limit.TakeMany(ctx, asks),
		"Refund": l.Refund(ctx, limit.KeyOf("ann"), limit.Decision{Charged: 1}), "Reset": l.Reset(ctx, limit.KeyOf("ann")),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	down := limit.New(&downMany{}, three, limit.Options{Name: "n"})
	if err := down.Reset(ctx, limit.KeyOf("ann")); errors.CodeOf(err) != errors.Unavailable {
		t.Errorf("Reset of a store that is down: %v", err)
	}
	if d, err := down.Peek(ctx, limit.KeyOf("ann"), 1); err != nil || !d.Allowed {
		t.Errorf("Peek of a store that is down: %+v, %v", d, err)
	}
}

func TestTogetherAllocatesNothing(t *testing.T) {
	store := memory.NewStore()
	policy := limit.All(
		limit.TokenBucket{Capacity: 1e6, Refill: 1, Per: time.Second},
		limit.SlidingWindow{Limit: 1e6, Window: time.Minute, Buckets: 6},
		limit.FixedWindow{Limit: 1e6, Window: time.Hour},
	)
	user, tenant := limit.New(store, policy), limit.New(store, limit.FixedWindow{Limit: 100, Window: time.Hour})
	key := user.Key(nil).Part("ann")
	asks := []limit.Ask{user.Ask(key, 1), tenant.Ask(tenant.Key(nil).Part("acme"), 1)}
	for range 10 {
		limit.TakeAll(ctx, asks)
	}
	for name, f := range map[string]func(){
		"composite": func() { user.Take(ctx, key, 1) },
		"TakeAll":   func() { limit.TakeAll(ctx, asks) }, // allowed, then denied
		"TakeMany":  func() { limit.TakeMany(ctx, asks) },
	} {
		if n := testing.AllocsPerRun(1000, f); n > 0.1 && !race.Enabled {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// Nothing can be charged less than 1, so the forecast of less is that of 1.
func TestForecastOfLessThanOne(t *testing.T) {
	l := limit.New(memory.NewStore(), limit.FixedWindow{Limit: 7, Window: time.Hour})
	d, err := l.Peek(t.Context(), limit.KeyOf("ann"), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, cost := range []int64{0, -3} {
		if f := d.Forecast(cost); f != d.Forecast(1) || f.Fits != 7 {
			t.Errorf("the forecast of %d is %+v", cost, f)
		}
	}
}
