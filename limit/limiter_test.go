package limit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
)

var ctx = context.Background()

func TestTakeCountsDown(t *testing.T) {
	l := newLimiter(t)
	for i, want := range []limit.Decision{{Allowed: true, Remaining: 1}, {Allowed: true}, {RetryAfter: time.Hour}} {
		d, err := l.Take(ctx, limit.KeyOf("ann"), 1)
		if err != nil || d.Allowed != want.Allowed || d.Remaining != want.Remaining || d.RetryAfter > want.RetryAfter {
			t.Errorf("call %d: %+v, %v", i, d, err)
		}
	}
	if d, _ := l.Take(ctx, limit.KeyOf("bob"), 1); !d.Allowed {
		t.Error("bob is limited by what ann did")
	}
	if d, _ := l.Take(ctx, limit.KeyOf("ann"), 3); !d.Impossible || d.RetryAfter != 0 {
		t.Errorf("cost above the ceiling: %+v", d)
	}
	want := limit.Stats{Allowed: 3, Denied: 2, Impossible: 1}
	if got := l.Stats(); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

// A key of several texts is that of the limiter with these parts, under every limiter.
func TestKeyOfSeveralTexts(t *testing.T) {
	l := limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 10, Refill: 1, Per: time.Hour})
	for _, parts := range [][]string{{"acme", "ann"}, {"", "ann"}, {"a:b", ""}, {"a", "b:", "c"}} {
		key := l.Key(nil)
		for _, part := range parts {
			key = key.Part(part)
		}
		l.Take(ctx, limit.KeyOf(parts...), 2)
		d, err := l.Take(ctx, key, 1)
		if err != nil || d.Remaining != 7 {
			t.Errorf("%q: %+v, %v", parts, d, err)
		}
		if d, err := l.Peek(ctx, limit.KeyOf(parts...), 1); err != nil || d.Remaining != 7 {
			t.Errorf("Peek %q: %+v, %v", parts, d, err)
		}
	}
	for _, key := range []limit.Key{limit.KeyOf(), limit.KeyOf("a", "b").Part("c")} {
		if _, err := l.Take(ctx, key, 1); errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("%q is accepted: %v", key, err)
		}
	}
}

func TestKeyOfIsAKeyOfOnePart(t *testing.T) {
	l := newLimiter(t)
	l.Take(ctx, limit.KeyOf("a:b"), 2)
	if d, _ := l.Take(ctx, l.Key(nil).Part("a:b"), 1); d.Allowed {
		t.Error("the key of one part is another one")
	}
	if d, _ := l.Take(ctx, l.Key(nil).Part("a").Part("b"), 1); !d.Allowed {
		t.Error("the key of two parts is the same")
	}
}

// Limiters without a name share nothing over one store; limiters
// of one name share.
func TestUnnamedLimitersShareNothing(t *testing.T) {
	store := memory.NewStore()
	policy := limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}
	a, b := limit.New(store, policy), limit.New(store, policy)
	named, same := limit.New(store, policy, limit.Options{Name: "x"}), limit.New(store, policy, limit.Options{Name: "x"})
	for i, c := range []struct {
		l       *limit.Limiter
		allowed bool
	}{{a, true}, {a, false}, {b, true}, {named, true}, {same, false}} {
		if d, _ := c.l.Take(ctx, limit.KeyOf("ann"), 1); d.Allowed != c.allowed {
			t.Errorf("call %d, limiter %s: %+v", i, c.l.Name(), d)
		}
	}
}

// A cost of 0 must not bypass, a negative one must not mint.
func TestCostBelowOneIsRefused(t *testing.T) {
	l := newLimiter(t)
	l.Take(ctx, limit.KeyOf("ann"), 2)
	for _, cost := range []int64{0, -1, -1 << 63} {
		if d, err := l.Take(ctx, limit.KeyOf("ann"), cost); errors.CodeOf(err) != errors.InvalidArgument || d.Allowed {
			t.Errorf("cost %d: %+v, %v", cost, d, err)
		}
	}
	if d, _ := l.Take(ctx, limit.KeyOf("ann"), 1); d.Allowed {
		t.Error("tokens were minted")
	}
	if s := l.Stats(); s.Invalid != 3 {
		t.Errorf("%+v", s)
	}
}

func TestKeyOfAnotherLimiterIsRefused(t *testing.T) {
	a, b := newLimiter(t), newLimiter(t)
	for _, k := range []limit.Key{b.Key(nil).Part("ann"), {}} {
		if _, err := a.Take(ctx, k, 1); errors.CodeOf(err) != errors.InvalidArgument {
			t.Errorf("key %s: error %v", k, err)
		}
	}
}

func TestShadowNeverRefuses(t *testing.T) {
	l := newLimiter(t, limit.Options{Shadow: true})
	l.Take(ctx, limit.KeyOf("ann"), 2)
	d, err := l.Take(ctx, limit.KeyOf("ann"), 1)
	if err != nil || !d.Allowed || !d.Shadowed || d.RetryAfter <= 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if s := l.Stats(); s.Denied != 1 || s.Shadowed != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	l := newLimiter(t)
	for range 3 {
		l.Take(ctx, limit.KeyOf("ann"), 1)
	}
	if n := testing.AllocsPerRun(1000, func() { l.Take(ctx, limit.KeyOf("ann"), 1) }); n != 0 {
		t.Errorf("denied: %v allocations", n)
	}
	m := limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 1e6, Refill: 1, Per: time.Second})
	m.Take(ctx, limit.KeyOf("ann"), 1)
	if n := testing.AllocsPerRun(1000, func() { m.Take(ctx, limit.KeyOf("ann"), 1) }); n != 0 {
		t.Errorf("allowed: %v allocations", n)
	}
}

// A mistake in the wiring stops the program at its start, with the remedy.
func TestWiringMistakesPanic(t *testing.T) {
	local, policy := memory.NewStore(), limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second}
	shared := storeFunc(nil)
	for _, c := range []struct {
		says string
		make func()
	}{
		{"memory.NewStore", func() { limit.New(nil, policy) }},
		{"Capacity must be at least 1", func() { limit.New(local, limit.TokenBucket{}) }},
		{"the policy is nil", func() { limit.New(local, nil) }},
		{`limit.Options{Name: "messages"}`, func() { limit.New(shared, policy) }},
		{"letters, digits", func() { limit.New(local, policy, limit.Options{Name: "a:b"}) }},
		{"letters, digits", func() { limit.New(local, policy, limit.Options{Name: "#1"}) }},
		{"at most 64", func() { limit.New(local, policy, limit.Options{Name: strings.Repeat("x", 65)}) }},
		{"Options.Prefix", func() { limit.New(local, policy, limit.Options{Prefix: "a b"}) }},
		{"FailLocal, FailOpen or FailClosed", func() { limit.New(local, policy, limit.Options{OnFailure: 3}) }},
		{"FallbackKeys", func() { limit.New(local, policy, limit.Options{FallbackKeys: -1}) }},
		{"merge them into one", func() { limit.New(local, policy, limit.Options{}, limit.Options{}) }},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "limit: ") || !strings.Contains(text, c.says) {
					t.Errorf("panic %q, want one that says %q", text, c.says)
				}
			}()
			c.make()
		}()
	}
}
