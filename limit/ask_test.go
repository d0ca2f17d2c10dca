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
	return []limit.Ask{{Key: user.Key(nil).Part(name), Cost: 1}, {Key: tenant.Key(nil).Part("acme"), Cost: 1}}
}

// A message that one limit denies uses up none of the others.
func TestTakeAll(t *testing.T) {
	user, tenant := stacked(memory.NewStore(memory.Options{}))
	answers := make([]limit.Decision, 2)
	for i, want := range []struct {
		name    string
		allowed bool
		bound   int
	}{{"ann", true, 0}, {"ann", true, 0}, {"ann", false, 0}, {"ann", false, 0}, {"bob", true, 1}, {"cid", false, 1}} {
		bound, err := limit.TakeAll(ctx, asksOf(user, tenant, want.name), answers)
		if err != nil || bound != want.bound || answers[bound].Allowed != want.allowed {
			t.Errorf("call %d: bound %d, %+v, %v", i, bound, answers, err)
		}
		if !want.allowed && (answers[0].Charged != 0 || answers[1].Charged != 0) {
			t.Errorf("call %d is denied and charged %+v", i, answers)
		}
	}
	if d, _ := user.Take(ctx, "cid", 2); !d.Allowed {
		t.Error("cid was charged for what the tenant's limit denied")
	}
	if u, a := user.Stats(), tenant.Stats(); u.Allowed != 4 || u.Denied != 2 || a.Allowed != 3 || a.Denied != 1 {
		t.Errorf("figures %+v, %+v", u, a)
	}
}

// A limiter in shadow mode denies nothing, and is charged only for what passes.
func TestTakeAllInShadow(t *testing.T) {
	user, tenant := stacked(memory.NewStore(memory.Options{}), limit.Options{Shadow: true})
	answers := make([]limit.Decision, 2)
	for _, name := range []string{"ann", "ann", "ann", "bob", "bob"} {
		limit.TakeAll(ctx, asksOf(user, tenant, name), answers)
	}
	if !answers[0].Allowed || !answers[1].Shadowed || !answers[1].Allowed {
		t.Errorf("%+v", answers)
	}
	if s := tenant.Stats(); s.Allowed != 3 || s.Shadowed != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTakeMany(t *testing.T) {
	user, tenant := stacked(memory.NewStore(memory.Options{}))
	asks := append(asksOf(user, tenant, "ann"), limit.Ask{Key: user.Key(nil).Part("ann"), Cost: 2}, limit.Ask{Key: user.Key(nil).Part("ann"), Cost: 1})
	answers := make([]limit.Decision, 4)
	if err := limit.TakeMany(ctx, asks, answers); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(answers[0].Allowed, answers[1].Allowed, answers[2].Allowed, answers[3].Allowed); got != "true true false true" {
		t.Error(got)
	}
	if answers[0].At != answers[3].At {
		t.Error("not at one instant")
	}
}

func TestAsksAreChecked(t *testing.T) {
	user, tenant := stacked(memory.NewStore(memory.Options{}))
	other, _ := stacked(memory.NewStore(memory.Options{}))
	two := make([]limit.Decision, 2)
	for name, asks := range map[string][]limit.Ask{
		"cost 0":       {{Key: user.Key(nil).Part("ann"), Cost: 1}, {Key: tenant.Key(nil).Part("acme")}},
		"zero key":     {{Key: user.Key(nil).Part("ann"), Cost: 1}, {Cost: 1}},
		"two stores":   {{Key: user.Key(nil).Part("ann"), Cost: 1}, {Key: other.Key(nil).Part("ann"), Cost: 1}},
		"one answer":   asksOf(user, tenant, "ann")[:1],
		"far too many": make([]limit.Ask, 65),
	} {
		if _, err := limit.TakeAll(ctx, asks, two); errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("%s: TakeAll: %v", name, err)
		}
		if err := limit.TakeMany(ctx, asks, two); errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("%s: TakeMany: %v", name, err)
		}
	}
	if d, _ := user.Peek(ctx, "ann", 2); !d.Allowed {
		t.Error("a refused call charged something")
	}
	if _, err := limit.TakeAll(ctx, nil, nil); err != nil {
		t.Error(err)
	}
}

// While the store fails, the failure policies decide together.
func TestTakeAllFailsOver(t *testing.T) {
	for failure, want := range map[limit.Failure]string{
		limit.FailLocal: "true true false", limit.FailOpen: "true true true",
	} {
		user, tenant := stacked(&downMany{}, limit.Options{OnFailure: failure})
		answers := make([]limit.Decision, 2)
		got := ""
		for range 3 {
			bound, err := limit.TakeAll(ctx, asksOf(user, tenant, "ann"), answers)
			if err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprint(" ", answers[bound].Allowed)
			if answers[0].Charged != 0 {
				t.Error("a charge that the store does not know can be refunded to it")
			}
		}
		if got != " "+want {
			t.Errorf("%v:%s", failure, got)
		}
		if err := limit.TakeMany(ctx, asksOf(user, tenant, "bob"), answers); err != nil || !answers[0].Allowed {
			t.Errorf("%v: TakeMany %+v, %v", failure, answers, err)
		}
	}
	user, tenant := stacked(&downMany{}, limit.Options{OnFailure: limit.FailClosed})
	if _, err := limit.TakeAll(ctx, asksOf(user, tenant, "ann"), make([]limit.Decision, 2)); errors.CodeOf(err) != errors.Unavailable {
		t.Error(err)
	}
}

// downMany has every operation, and none works.
type downMany struct{}

func (*downMany) Take(context.Context, string, limit.Policy, int64) (limit.Decision, error) {
	return limit.Decision{}, errDown
}
func (*downMany) TakeMany(context.Context, []limit.Request, []limit.Decision) error { return errDown }
func (*downMany) TakeAll(context.Context, []limit.Request, []limit.Decision) (int, error) {
	return 0, errDown
}
func (*downMany) Peek(context.Context, string, limit.Policy, int64) (limit.Decision, error) {
	return limit.Decision{}, errDown
}
func (*downMany) Refund(context.Context, string, limit.Policy, limit.Decision) error { return errDown }
func (*downMany) Reset(context.Context, string, limit.Policy) error                  { return errDown }

func TestOperations(t *testing.T) {
	l := newLimiter(t)
	d, _ := l.Take(ctx, "ann", 2)
	if f, err := l.Forecast(ctx, "ann", 1); err != nil || f.Fits != 0 || f.NextAfter <= 0 || f.FullAfter <= f.NextAfter {
		t.Errorf("%+v, %v", f, err)
	}
	if err := l.Refund(ctx, "ann", d); err != nil {
		t.Error(err)
	}
	if f, _ := l.Forecast(ctx, "ann", 1); f.Fits != 2 {
		t.Errorf("after the refund: %+v", f)
	}
	l.Take(ctx, "ann", 2)
	denied, _ := l.Take(ctx, "ann", 1)
	l.Refund(ctx, "ann", denied)
	if d, _ := l.Peek(ctx, "ann", 1); d.Allowed {
		t.Error("the refund of a denial gave something back")
	}
	if err := l.Reset(ctx, "ann"); err != nil {
		t.Error(err)
	}
	if d, _ := l.Take(ctx, "ann", 2); !d.Allowed {
		t.Errorf("after the reset: %+v", d)
	}
}

// What the store cannot do is said, and takes nothing.
func TestUnsupportedOperations(t *testing.T) {
	l := limit.New(&flaky{}, three, limit.Options{Name: "n"})
	asks, answers := []limit.Ask{{Key: l.Key(nil).Part("ann"), Cost: 1}}, make([]limit.Decision, 1)
	_, peek := l.Peek(ctx, "ann", 1)
	_, forecast := l.Forecast(ctx, "ann", 1)
	_, all := limit.TakeAll(ctx, asks, answers)
	for name, err := range map[string]error{
		"Peek": peek, "Forecast": forecast, "TakeAll": all, "TakeMany": limit.TakeMany(ctx, asks, answers),
		"Refund": l.Refund(ctx, "ann", limit.Decision{Charged: 1}), "Reset": l.Reset(ctx, "ann"),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	down := limit.New(&downMany{}, three, limit.Options{Name: "n"})
	if err := down.Reset(ctx, "ann"); errors.CodeOf(err) != errors.Unavailable {
		t.Errorf("Reset of a store that is down: %v", err)
	}
	if d, err := down.Peek(ctx, "ann", 1); err != nil || !d.Allowed {
		t.Errorf("Peek of a store that is down: %+v, %v", d, err)
	}
}

func TestTogetherAllocatesNothing(t *testing.T) {
	store := memory.NewStore(memory.Options{})
	policy := limit.All(
		limit.TokenBucket{Capacity: 1e6, Refill: 1, Per: time.Second},
		limit.SlidingWindow{Limit: 1e6, Window: time.Minute, Buckets: 6},
		limit.FixedWindow{Limit: 1e6, Window: time.Hour},
	)
	user, tenant := limit.New(store, policy), limit.New(store, limit.FixedWindow{Limit: 100, Window: time.Hour})
	asks := []limit.Ask{{Key: user.Key(nil).Part("ann"), Cost: 1}, {Key: tenant.Key(nil).Part("acme"), Cost: 1}}
	answers := make([]limit.Decision, 2)
	for range 10 {
		limit.TakeAll(ctx, asks, answers)
	}
	for name, f := range map[string]func(){
		"composite": func() { user.TakeKey(ctx, asks[0].Key, 1) },
		"TakeAll":   func() { limit.TakeAll(ctx, asks, answers) }, // allowed, then denied
		"TakeMany":  func() { limit.TakeMany(ctx, asks, answers) },
	} {
		if n := testing.AllocsPerRun(1000, f); n > 0.1 && !race.Enabled {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
