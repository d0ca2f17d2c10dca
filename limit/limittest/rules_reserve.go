package limittest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wskit/wskit/limit"
)

const (
	ruleSettled   = "a reservation that is settled counts as its actual cost"
	ruleAtOnce    = "reservations that are settled at the same time all count"
	reserveLimit  = 1_000_000
	reserveCaller = 8
)

// reserveAndSettle checks reservations: over timelines of reservations, settlements and takes against
// the model, and settled by many callers at once.
func reserveAndSettle(t *testing.T, s Subject) {
	has[limit.ExtendedStore](t, s)
	has[limit.ManyTaker](t, s)
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			needs(t, s, kind.example)
			rapid.Check(t, func(t *rapid.T) { settleAtRandom(t, s, kind.name) })
		})
	}
	t.Run("at once", func(t *testing.T) {
		for _, p := range []limit.Policy{
			limit.FixedWindow{Limit: reserveLimit, Window: 24 * time.Hour},
			limit.TokenBucket{Capacity: reserveLimit, Refill: 1, Per: time.Minute},
		} {
			needs(t, s, p)
			settleAtOnce(t, s, p)
		}
	})
}

// limited makes a limiter over the store of the timeline, with a key for it.
func (l *timeline) limited(p limit.Policy) (*limit.Limiter, limit.Key) {
	return limit.New(l.s.Store, p, limit.Options{Name: "reserve", Timeout: -1, OnFailure: limit.FailClosed}), limit.KeyOf(l.key)
}

// reserved is a reservation that has to be settled.
type reserved struct {
	limit.Reservation
	limit.Decision
}

func settleAtRandom(t *rapid.T, s Subject, kind string) {
	p := small(t, kind)
	if !compiles(p) {
		t.Skip("no valid policy")
	}
	ctx := context.Background()
	l, m := newTimeline(s), newModel(p)
	limiter, key := l.limited(p)
	plan, _ := limit.Compile(p)
	ceiling := plan.Compiled().Ceiling
	one, all := typical(p)
	advance := rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Just(time.Microsecond), drawMicros(0, 2*one.Microseconds()), drawMicros(0, all.Microseconds()))
	var open []reserved
	for range rapid.IntRange(1, max(1, s.Steps/4)).Draw(t, "steps") { // the model is slow
		s.Clock.Advance(advance.Draw(t, "advance"))
		now := s.Clock.instant()
		cost := rapid.Int64Range(1, ceiling).Draw(t, "cost")
		if rapid.Bool().Draw(t, "settle") && len(open) > 0 {
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			r := &open[i]
			actual := rapid.Int64Range(0, 2*r.Charged).Draw(t, "actual")
			over, err := r.Settle(ctx, actual)
			l.note("settle the reservation at "+since(l.start, r.At)+" ", actual, p, limit.Decision{})
			if want := m.settle(now, r.Decision, actual); err != nil || over != want {
				l.broken(t, ruleSettled, "%d of %d is over, and the error %v; it should be %d", over, actual, err, want)
			}
			open = append(open[:i], open[i+1:]...)
		} else {
			r, d, err := limiter.Reserve(ctx, key, cost)
			l.note("reserve ", cost, p, d)
			if want := m.Take(now, cost); err != nil || d != want {
				l.broken(t, ruleSettled, "got  %s and the error %v\nwant %s", describe(d), err, describe(want))
			}
			if d.Allowed {
				open = append(open, reserved{r, d})
			}
		}
		got, err := limiter.Peek(ctx, key, cost)
		l.note("peek ", cost, p, got)
		if want := m.Peek(now, cost); err != nil || got != want {
			l.broken(t, ruleSettled, "afterwards\ngot  %s and the error %v\nwant %s", describe(got), err, describe(want))
		}
	}
}

// settle settles a reservation in the model: one unit after the other, until one does not fit.
func (m *model) settle(now int64, taken limit.Decision, actual int64) (over int64) {
	if actual < taken.Charged {
		taken.Charged -= actual
		m.Refund(now, taken)
		return 0
	}
	over = actual - taken.Charged
	for over > 0 && m.Take(now, 1).Allowed {
		over--
	}
	return over
}

// settleAtOnce reserves and settles from several goroutines under a clock that stands still. What is
// then used is the sum of the actual costs.
func settleAtOnce(t *testing.T, s Subject, p limit.Policy) {
	l := newTimeline(s)
	limiter, key := l.limited(p)
	var used atomic.Int64
	var callers sync.WaitGroup
	for caller := range int64(reserveCaller) {
		callers.Go(func() {
			for i := range int64(s.Steps) {
				r, d, err := limiter.Reserve(t.Context(), key, 10)
				if err != nil || !d.Allowed {
					t.Errorf("%s, %v", describe(d), err)
					return
				}
				actual := (caller*7 + i) % 21
				if over, err := r.Settle(t.Context(), actual); err != nil || over != 0 {
					t.Errorf("%d is over, %v", over, err)
				}
				used.Add(actual)
			}
		})
	}
	callers.Wait()
	if got, err := limiter.Peek(t.Context(), key, 1); err != nil || got.Remaining != reserveLimit-used.Load() {
		l.broken(t, ruleAtOnce, "%d remain, want %d less %d; %v", got.Remaining, reserveLimit, used.Load(), err)
	}
}
