package limit_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
)

// A limiter under another policy is the same limiter: its keys, what was used of
// them, its figures.
func TestWithSharesEverythingButThePolicy(t *testing.T) {
	l := newLimiter(t) // of 2
	more, err := l.With(limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if more.Name() != l.Name() || more.Key(nil).String() != l.Key(nil).String() {
		t.Errorf("named %s with keys %s, not %s with %s", more.Name(), more.Key(nil), l.Name(), l.Key(nil))
	}
	for i, step := range []struct {
		l         *limit.Limiter
		cost      int64
		allowed   bool
		remaining int64
	}{{l, 2, true, 0}, {l, 1, false, 0}, {more, 1, true, 2}, {more, 2, true, 0}, {more, 1, false, 0}} {
		// What flows back in while the test runs is far less than one.
		d, err := step.l.Take(ctx, limit.KeyOf("ann"), step.cost)
		if err != nil || d.Allowed != step.allowed || d.Remaining != step.remaining {
			t.Errorf("call %d: %+v, %v", i, d, err)
		}
	}
	if got, want := l.Stats(), (limit.Stats{Allowed: 3, Denied: 2}); got != want || more.Stats() != want {
		t.Errorf("stats %+v and %+v, want %+v", got, more.Stats(), want)
	}
	if plan := l.Plan(); plan.Compiled().Ceiling != 2 || more.Plan().Compiled().Ceiling != 5 {
		t.Errorf("ceilings %d and %d", plan.Compiled().Ceiling, more.Plan().Compiled().Ceiling)
	}
	if !strings.HasPrefix(more.Plan().Compiled().Scope, l.Name()+":") {
		t.Errorf("scope %s", more.Plan().Compiled().Scope)
	}
}

// A key contains the policy that it was made for, so no other limiter takes it.
func TestWithRefusesKeysOfTheOther(t *testing.T) {
	l := newLimiter(t)
	other, err := l.With(three)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Take(ctx, l.Key(nil).Part("ann"), 1); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("error %v", err)
	}
	asks := []limit.Ask{l.Ask(l.Key(nil).Part("ann"), 1), other.Ask(other.Key(nil).Part("bob"), 1)}
	if err := limit.TakeMany(ctx, asks); err != nil || asks[0].Decision.Limit == asks[1].Decision.Limit {
		t.Errorf("each by its own policy: %+v, %v", asks, err)
	}
}

func TestWithRefusesInvalidPolicies(t *testing.T) {
	l := newLimiter(t)
	for _, policy := range []limit.Policy{nil, limit.TokenBucket{}} {
		if other, err := l.With(policy); err == nil || other != nil {
			t.Errorf("%v: %v, %v", policy, other, err)
		}
	}
}

// The store's health is shared, and so is the state of the failure policy.
func TestWithSharesTheFailurePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a store that fails is tried again after a second
		store := &flaky{}
		store.down.Store(true)
		l := limit.New(store, three, limit.Options{Name: "n", Logger: slog.New(slog.DiscardHandler)})
		five, err := l.With(limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		allowed := 0
		for _, l := range []*limit.Limiter{l, five} {
			for range 10 {
				if d, err := l.Take(ctx, limit.KeyOf("ann"), 1); err != nil {
					t.Fatal(err)
				} else if d.Allowed {
					allowed++
				}
			}
		}
		if allowed != 5 {
			t.Errorf("%d allowed, want what the larger policy allows: 5", allowed)
		}
		if n := store.calls.Load(); n != 5 || !five.Stats().Degraded {
			t.Errorf("the store was asked %d times, %+v", n, five.Stats())
		}
	})
}

func ExampleLimiter_With() {
	store := memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }})
	free := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Second}, limit.Options{Name: "messages"})
	paid, err := free.With(limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	before, _ := free.Take(ctx, limit.KeyOf("ann"), 2)
	after, _ := paid.Take(ctx, limit.KeyOf("ann"), 1) // she pays; what she has used still counts
	fmt.Println(before.Remaining, after.Remaining)
	// Output: 0 2
}
