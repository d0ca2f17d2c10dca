package memory_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
)

// outside are clocks that show no instant of which limits know.
var outside = []int64{math.MinInt64, -1 << 52, -1, 1 << 52, 1<<53 - 1, 1 << 53, 1<<53 + 1e6, 1 << 62, math.MaxInt64}

// A clock outside the range stands still at its end: it admits what the policy says, once,
// however it goes on there.
func TestClockOutsideItsRange(t *testing.T) {
	for _, at := range outside {
		s := memory.NewStore(memory.Options{Now: func() time.Time { return time.UnixMicro(at) }})
		for name, p := range policies {
			plan := compile(t, p)
			exhaust(t, fmt.Sprintf("%s at %d", name, at), plan, func(cost int64) limit.Decision {
				d, _ := s.Take(ctx, []byte(name), plan, cost)
				return d
			})
		}
		if d, err := s.Acquire(ctx, limit.Lease{Key: "k", ID: "a"}, 1, time.Minute); err != nil || !d.Allowed {
			t.Errorf("at %d: %+v, %v", at, d, err)
		}
		if d, err := s.Acquire(ctx, limit.Lease{Key: "k", ID: "b"}, 1, time.Minute); err != nil || d.Allowed {
			t.Errorf("at %d: two hold one lease: %+v, %v", at, d, err)
		}
	}
}

// exhaust takes what a policy admits at one instant, in a few steps, and more.
func exhaust(t *testing.T, what string, plan *limit.Plan, take func(cost int64) limit.Decision) {
	t.Helper()
	admitted := int64(0)
	for range 10 {
		if d := take(plan.Compiled().Ceiling / 4); d.Allowed {
			admitted += plan.Compiled().Ceiling / 4
		}
	}
	if admitted != plan.Compiled().Ceiling/4*4 {
		t.Errorf("%s: %d admitted of %d", what, admitted, plan.Compiled().Ceiling)
	}
}

// failingStore is a store that does not answer.
type failingStore struct{}

func (failingStore) Take(context.Context, []byte, limit.Policy, int64) (limit.Decision, error) {
	return limit.Decision{}, errors.New("down")
}

// The same of a limiter's own clock, by which it decides while its store fails.
func TestClockOfFailLocalOutsideItsRange(t *testing.T) {
	for _, at := range outside {
		plan, err := limit.Compile(limit.TokenBucket{Capacity: 100, Refill: 1, Per: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		l := limit.New(failingStore{}, plan, limit.Options{
			Name: "l", Now: func() time.Time { return time.UnixMicro(at) }, Logger: slog.New(slog.DiscardHandler),
		})
		exhaust(t, fmt.Sprint("at ", at), plan, func(cost int64) limit.Decision {
			d, _ := l.Take(ctx, limit.KeyOf("k"), cost)
			return d
		})
	}
}
