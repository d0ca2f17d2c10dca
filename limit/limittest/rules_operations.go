package limittest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
)

// has skips a part if the store does not have the operation.
func has[O any](t *testing.T, s Subject) O {
	t.Helper()
	o, ok := s.Store.(O)
	if !ok {
		t.Skipf("the store is no %T", (*O)(nil))
	}
	return o
}

// peekChangesNothing: a peek charges nothing, and predicts the answer of a take.
func peekChangesNothing(t *testing.T, s Subject, p limit.Policy) {
	has[limit.ExtendedStore](t, s)
	l := newTimeline(s)
	for range 30 {
		before := l.peek(t, p, 2)
		for range 3 {
			if again := l.peek(t, p, 2); again != before {
				l.broken(t, "a peek changes nothing", "first %s\nthen %s", describe(before), describe(again))
			}
		}
		if before.Charged != 0 {
			l.broken(t, "a peek charges nothing", "Charged is %d", before.Charged)
		}
		f := before.Forecast(2)
		got := l.take(t, p, 2)
		if got.Allowed != before.Allowed || got.RetryAfter != before.RetryAfter {
			l.broken(t, "a peek predicts the take", "peek %s\ntake %s", describe(before), describe(got))
		}
		if f.Fits > 0 != got.Allowed || f.NextAfter != got.RetryAfter {
			l.broken(t, "a forecast is exact", "forecast %+v\ntake %s", f, describe(got))
		}
		s.Clock.Advance(41 * time.Millisecond)
	}
}

// forecastIsExact: exactly as many fit as were forecast.
func forecastIsExact(t *testing.T, s Subject, p limit.Policy) {
	has[limit.ExtendedStore](t, s)
	for _, cost := range []int64{1, 2, 3, 11_000} {
		l := newTimeline(s)
		l.take(t, p, 2)
		d := l.peek(t, p, cost)
		f := d.Forecast(cost)
		for i := range f.Fits {
			if got := l.take(t, p, cost); !got.Allowed {
				l.broken(t, "a forecast is exact", "%d of %d were to fit, number %d did not", f.Fits, cost, i+1)
			}
		}
		if got := l.take(t, p, cost); got.Allowed {
			l.broken(t, "a forecast is exact", "only %d of %d were to fit, and another one does", f.Fits, cost)
		}
		if f.Impossible != (cost > d.Limit) {
			l.broken(t, "a forecast reports an impossible cost", "cost %d of at most %d: %+v", cost, d.Limit, f)
		}
	}
}

// refundIsExact: after a refund at once (in a window or a log at any time) the key is in the
// same state as a key that was never charged. (A bucket gives back less as time passes: see
// refundsAdmitNoMore.)
func refundIsExact(t *testing.T, s Subject, p limit.Policy) {
	has[limit.ExtendedStore](t, s)
	laters := []time.Duration{0, time.Microsecond, 500 * time.Millisecond, 2999999 * time.Microsecond, 3 * time.Second, 10 * time.Second}
	for _, part := range partsOf(p) {
		switch part.(type) {
		case limit.TokenBucket, limit.Pacer:
			laters = laters[:1]
		}
	}
	for _, later := range laters {
		with, without := newTimeline(s), newTimeline(s)
		with.take(t, p, 4)
		without.take(t, p, 4)
		s.Clock.Advance(100 * time.Millisecond)
		taken := with.take(t, p, 3)
		s.Clock.Advance(later)
		with.refund(t, p, taken)
		for range 20 {
			got, want := with.take(t, p, 1), without.take(t, p, 1)
			if got != want {
				with.broken(t, "a refund gives back exactly what was taken", "given back after %v:\ngot  %s\nwithout the charge\nwant %s", later, describe(got), describe(want))
			}
			s.Clock.Advance(50 * time.Millisecond)
		}
	}
}

// refundAdmitsNoMore: a refund does not give back what has flowed back in since, nor what was
// never taken.
func refundAdmitsNoMore(t *testing.T, s Subject, p limit.Policy) {
	has[limit.ExtendedStore](t, s)
	l := newTimeline(s)
	taken := l.take(t, p, 5)
	s.Clock.Advance(taken.ResetAfter)
	l.take(t, p, 10)
	l.refund(t, p, taken)
	if d := l.take(t, p, 2); d.Allowed {
		l.broken(t, "a refund gives back nothing that has flowed back in", "2 more than the limit are admitted: %s", describe(d))
	}
	denied := l.take(t, p, 2)
	l.refund(t, p, denied)
	if d := l.take(t, p, 2); d.Allowed {
		l.broken(t, "a refund of a denial gives nothing back", "%s", describe(d))
	}
	l = newTimeline(s)
	l.refund(t, p, taken)
	full := l.take(t, p, 1)
	if want := newModel(p).Take(s.Clock.instant(), 1); full != want {
		l.broken(t, "a refund never makes more than full", "got  %s\nwant %s", describe(full), describe(want))
	}
}

// resetForgets: after a reset a key is like a new one.
func resetForgets(t *testing.T, s Subject, p limit.Policy) {
	has[limit.ExtendedStore](t, s)
	l := newTimeline(s)
	l.take(t, p, 10)
	l.reset(t, p)
	got := l.take(t, p, 1)
	if want := newModel(p).Take(s.Clock.instant(), 1); got.Remaining != want.Remaining || got.ResetAfter != want.ResetAfter {
		l.broken(t, "a reset deletes everything", "got  %s\nwant %s", describe(got), describe(want))
	}
	l.reset(t, p)
	l.reset(t, p)
}

func asksOf(p limit.Policy, base string, costs ...int64) (asks []limit.Ask) {
	for i, c := range costs {
		asks = append(asks, limit.Ask{Key: fmt.Appendf(nil, "%s:%d", base, i%3), Policy: p, Cost: c})
	}
	return asks
}

// manyInOrder: several asks are answered as one after the other would be,
// all at one instant.
func manyInOrder(t *testing.T, s Subject, p limit.Policy) {
	store := has[limit.ManyTaker](t, s)
	s.Clock.set(epoch)
	base := fmt.Sprintf("many:%d", keys.Add(1))
	models := map[string]*model{}
	for round := range 5 {
		asks := asksOf(p, base, 1, 3, 2, 4, 11_000, 5, 1)
		if err := store.TakeMany(context.Background(), asks); err != nil {
			t.Fatalf("rule broken: a valid call gets its decisions\nTakeMany returned the error %v", err)
		}
		for i, q := range asks {
			m := models[string(q.Key)]
			if m == nil {
				m = newModel(p)
				models[string(q.Key)] = m
			}
			if want := m.Take(s.Clock.instant(), q.Cost); q.Decision != want {
				t.Fatalf("rule broken: several asks are answered in order, each by itself\nround %d, ask %d (key %s, cost %d):\ngot  %s\nwant %s",
					round, i, q.Key, q.Cost, describe(q.Decision), describe(want))
			}
		}
		s.Clock.Advance(700 * time.Millisecond)
	}
	if err := store.TakeMany(context.Background(), asksOf(p, base, 1, 0)); errors.CodeOf(err) != errors.InvalidArgument {
		t.Fatalf("rule broken: a cost below 1 is an INVALID_ARGUMENT\nTakeMany returned the error %v", err)
	}
}

// takesAll skips a part for a store that does not charge several keys in one step.
func takesAll(t *testing.T, s Subject) limit.ManyTaker {
	t.Helper()
	store := has[limit.ManyTaker](t, s)
	if s.NoTakeAll {
		t.Skip("the store does not charge any keys together: Subject.NoTakeAll")
	}
	return store
}

// allOrNone: across keys, either all are charged or none.
func allOrNone(t *testing.T, s Subject, p limit.Policy) {
	store := takesAll(t, s)
	l := newTimeline(s)
	free := &timeline{s: s, key: l.key + ":free", start: l.start}
	take := func(costs ...int64) (int, []limit.Ask) {
		t.Helper()
		asks := []limit.Ask{{Key: []byte(free.key), Policy: p, Cost: costs[0]}, {Key: []byte(l.key), Policy: p, Cost: costs[1]}}
		for _, c := range costs[2:] { // the first key again
			asks = append(asks, limit.Ask{Key: []byte(free.key), Policy: p, Cost: c})
		}
		bound, err := store.TakeAll(context.Background(), asks)
		if err != nil {
			t.Fatalf("rule broken: a valid call gets its decisions\nTakeAll returned the error %v", err)
		}
		for i, a := range asks {
			l.log = append(l.log, step{fmt.Sprintf("together, number %d of %d, ", i+1, len(asks)), s.Clock.instant(), a.Cost, p, a.Decision})
		}
		return bound, asks
	}
	l.take(t, p, 8)
	want := newModel(p).Peek(s.Clock.instant(), 2)
	for range 3 {
		bound, answers := take(2, 3)
		if bound != 1 || answers[1].Decision.Allowed || answers[1].Decision.RetryAfter <= 0 || answers[0].Decision.Allowed || answers[0].Decision.RetryAfter != 0 || answers[0].Decision.Charged != 0 {
			l.broken(t, "several costs are charged all or none", "the second key has room for 2 and was asked for 3")
		}
		if got := answers[0].Decision; got.Remaining != want.Remaining || got.ResetAfter != want.ResetAfter {
			l.broken(t, "an ask that is denied charges none of the others", "the first key was never charged and is answered %s", describe(got))
		}
	}
	if bound, answers := take(11_000, 3); bound != 0 || !answers[0].Decision.Impossible {
		l.broken(t, "several costs are impossible when one is", "answered as number %d", bound+1)
	}
	if bound, answers := take(6, 1, 6); bound != 2 || answers[2].Decision.Allowed || answers[0].Decision.Charged != 0 {
		l.broken(t, "several costs of one key are charged all or none", "6 and 6 of 10 are answered as number %d", bound+1)
	}
	if bound, answers := take(10, 2); !answers[0].Decision.Allowed || !answers[1].Decision.Allowed || answers[1].Decision.Charged != 2 {
		l.broken(t, "what fits together is charged", "answered as number %d", bound+1)
	}
	if free.take(t, p, 1).Allowed || l.take(t, p, 1).Allowed {
		l.broken(t, "what is charged together is charged", "there is more after all was taken")
	}
}

// allOrNoneAtOnce: callers that take two keys each, in either order, are
// admitted exactly what fits, and no call waits for ever.
func allOrNoneAtOnce(t *testing.T, s Subject) {
	store := takesAll(t, s)
	s.Clock.set(epoch)
	const callers, capacity = 16, 100
	p := limit.All(limit.TokenBucket{Capacity: capacity, Refill: 1, Per: time.Hour}, limit.FixedWindow{Limit: 1000, Window: 24 * time.Hour})
	base := fmt.Sprintf("at-once:%d", keys.Add(1))
	var admitted [3]atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range 20 {
				a, b := (i+j)%3, (i+j+1+i%2)%3
				asks := []limit.Ask{
					{Key: fmt.Appendf(nil, "%s:%d", base, a), Policy: p, Cost: 1},
					{Key: fmt.Appendf(nil, "%s:%d", base, b), Policy: p, Cost: 1},
				}
				bound, err := store.TakeAll(context.Background(), asks)
				if err != nil {
					t.Errorf("rule broken: a valid call gets its decisions\nTakeAll returned the error %v", err)
					return
				}
				if asks[bound].Decision.Allowed {
					admitted[a].Add(1)
					admitted[b].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for k := range admitted {
		d, err := s.Store.Take(context.Background(), fmt.Appendf(nil, "%s:%d", base, k), p, 1)
		if err != nil {
			t.Fatal(err)
		}
		used := admitted[k].Load()
		if used > capacity || d.Allowed != (used < capacity) || d.Allowed && d.Remaining != capacity-used-1 {
			t.Errorf("rule broken: N callers that charge all or none are admitted what one would be\nkey %d: %d admitted of %d, then %s", k, used, capacity, describe(d))
		}
	}
}
