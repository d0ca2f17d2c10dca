package ratelimit_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The tokens of a model: at most 4,000 for each question, and 10,000 a day for each user.
func ExampleReserve() {
	perDay := limit.New(memory.NewStore(), limit.FixedWindow{Limit: 10_000, Window: 24 * time.Hour}, limit.Options{Name: "tokens"})
	ask := func(ctx context.Context, user string, costs int) error { // the handler
		tokens, err := ratelimit.Reserve(ctx, perDay, limit.KeyOf(user), 4000)
		if err != nil {
			return err
		}
		defer tokens.Settle()

		tokens.Use(costs) // what the model says that it has used
		return nil
	}
	for range 12 {
		_ = ask(context.Background(), "ann", 500)
	}
	d, _ := perDay.Peek(context.Background(), limit.KeyOf("ann"), 1)
	fmt.Println(d.Remaining, "are left")

	_ = ask(context.Background(), "ann", 100)
	fmt.Println(errors.From(ask(context.Background(), "ann", 100)).Code)
	// Output:
	// 4000 are left
	// RESOURCE_EXHAUSTED
}

// A handler's reservation is settled when its client has the answer: with less, with more, as
// reserved where nothing is known, and so after a panic.
func TestReserveInAHandler(t *testing.T) {
	store := memory.NewStore(memory.Options{Now: limittest.NewClock().Now})
	quota := limit.New(store, limit.FixedWindow{Limit: 100, Window: 24 * time.Hour}, limit.Options{Name: "quota"})
	r := router.New(router.Options{OnError: func(router.Fault) {}})
	router.RPC(r, "work", func(c *router.Context, costs []int) (int64, error) {
		reserved, err := ratelimit.Reserve(c, quota, limit.KeyOf("ann"), 30)
		if err != nil {
			return 0, err
		}
		defer reserved.Settle()
		for _, cost := range costs {
			reserved.Use(cost) // a negative one panics
		}
		return 0, nil
	})
	ann := routertest.New(t, r).Dial()
	left := int64(100)
	for _, c := range []struct {
		costs []int
		used  int64
		code  errors.Code
	}{
		{[]int{5, 0, 3}, 8, ""}, {nil, 30, ""}, {[]int{0}, 0, ""}, {[]int{-1}, 30, errors.Internal},
		{[]int{2, -1}, 2, errors.Internal}, {[]int{10, 25}, 30, ""}, // of the last, 30 of 35 fit
		{[]int{1}, 0, errors.ResourceExhausted},
	} {
		reply := ann.Request("work", c.costs)
		if c.code != "" {
			reply.ExpectError(c.code)
		} else {
			routertest.ExpectReply[int64](reply)
		}
		left -= c.used
		if d, err := quota.Peek(t.Context(), limit.KeyOf("ann"), 1); err != nil || d.Remaining != left {
			t.Errorf("%v: %d are left, want %d; %v", c.costs, d.Remaining, left, err)
		}
	}
}

func TestReserveNothing(t *testing.T) {
	l := limit.New(memory.NewStore(), limit.FixedWindow{Limit: 1, Window: time.Hour})
	if _, err := ratelimit.Reserve(t.Context(), l, limit.KeyOf("ann"), 0); err == nil {
		t.Error("a reservation of nothing")
	}
}

// A cost that is as large as can be stays that, whatever is added.
func TestUsedDoesNotOverflow(t *testing.T) {
	t.Parallel()
	l := limit.New(memory.NewStore(), limit.FixedWindow{Limit: 10, Window: time.Hour})
	r, err := ratelimit.Reserve(t.Context(), l, limit.KeyOf("ann"), 4)
	if err != nil {
		t.Fatal(err)
	}
	r.Use(math.MaxInt)
	r.Use(1)
	if over := r.Settle(); over < math.MaxInt-10 {
		t.Errorf("%d did not fit", over)
	}
	if d, err := l.Peek(t.Context(), limit.KeyOf("ann"), 1); err != nil || d.Allowed {
		t.Errorf("afterwards %+v, %v", d, err)
	}
}
