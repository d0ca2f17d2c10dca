package limittest

import (
	"context"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
)

func perSecond(capacity, refill int64) limit.TokenBucket {
	return limit.TokenBucket{Capacity: capacity, Refill: refill, Per: time.Second}
}

// everyRateIsExact: polled every microsecond or more slowly, a rate admits the ideal count
// over any horizon, for any rational rate.
func everyRateIsExact(t *testing.T, s Subject) {
	for _, c := range []struct {
		b     limit.TokenBucket
		every time.Duration
	}{
		{limit.TokenBucket{Capacity: 2, Refill: 7, Per: 3 * time.Second}, 1003 * time.Microsecond},
		{limit.TokenBucket{Capacity: 2, Refill: 3, Per: time.Second}, 999 * time.Microsecond},
		{limit.TokenBucket{Capacity: 2, Refill: 1000, Per: 7 * time.Second}, 37 * time.Microsecond},
		{limit.TokenBucket{Capacity: 5, Refill: 100_000, Per: time.Second}, 3 * time.Microsecond},
		{limit.TokenBucket{Capacity: 3, Refill: 999_983, Per: time.Second}, time.Microsecond},
	} {
		polls(t, s, c.b, c.every, 40*s.Steps)
	}
}

// pollingNeverLosesTime: asking more often than a token takes to flow in must not discard
// fractions of tokens (1/s polled every 900 ms must still refill).
func pollingNeverLosesTime(t *testing.T, s Subject) {
	for _, every := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 900 * time.Millisecond, 999_999 * time.Microsecond} {
		polls(t, s, perSecond(2, 1), every, 5*s.Steps)
	}
}

// polls asks for 1 at a fixed interval and counts what is admitted.
func polls(t *testing.T, s Subject, b limit.TokenBucket, every time.Duration, n int) {
	t.Helper()
	l := newTimeline(s)
	admitted := int64(0)
	for range n {
		if l.take(t, b, 1).Allowed {
			admitted++
		}
		s.Clock.Advance(every)
	}
	// A bucket of two never overflows if less than one token flows in between two polls. So
	// all whole tokens are admitted: the ones at the start and those that flowed in.
	span := rat((time.Duration(n-1) * every).Microseconds())
	ideal := floor(add(rat(b.Capacity), mul(span, big.NewRat(b.Refill, b.Per.Microseconds())))).Int64()
	if admitted != min(ideal, int64(n)) {
		l.broken(t, "a rate admits the ideal count over any horizon, however often it is polled",
			"%v polled %d times, every %v: admitted %d; the exact rate gives %d", b, n, every, admitted, min(ideal, int64(n)))
	}
}

// retryAfterIsExact: waiting RetryAfter succeeds, a microsecond less does not, and asking
// early does not delay it.
func retryAfterIsExact(t *testing.T, s Subject) {
	for _, b := range []limit.TokenBucket{
		perSecond(10, 1), perSecond(10, 3), perSecond(200, 100_000), perSecond(5, 999_983),
		{Capacity: 3, Refill: 7, Per: 3 * time.Second}, {Capacity: 100, Refill: 1, Per: 24 * time.Hour},
	} {
		for _, cost := range []int64{1, 2, b.Capacity} {
			l := newTimeline(s)
			l.take(t, b, b.Capacity)
			s.Clock.Advance(1234567 * time.Nanosecond) // part of a token flows in
			_, d := l.exhaust(t, b, cost)
			if d.RetryAfter <= 0 {
				l.broken(t, "a denial says how long to wait", "RetryAfter is %v", d.RetryAfter)
			}
			denied := s.Clock.instant()
			s.Clock.Advance(d.RetryAfter - time.Microsecond)
			if early := l.take(t, b, cost); early.Allowed {
				l.broken(t, "RetryAfter is the shortest wait", "admitted 1 µs before RetryAfter (%v) was over", d.RetryAfter)
			}
			s.Clock.set(denied + d.RetryAfter.Microseconds())
			if after := l.take(t, b, cost); !after.Allowed {
				l.broken(t, "waiting RetryAfter with no other traffic succeeds", "denied again after waiting %v", d.RetryAfter)
			}
		}
	}
}

// impossibleIsNotRetryable: a cost above the ceiling is marked as impossible; otherwise
// clients would retry for ever.
func impossibleIsNotRetryable(t *testing.T, s Subject) {
	b := perSecond(10, 1)
	for _, cost := range []int64{11, 1000, math.MaxInt64} {
		l := newTimeline(s)
		d := l.take(t, b, cost)
		if d.Allowed || !d.Impossible || d.RetryAfter != 0 {
			l.broken(t, "a cost above the ceiling is impossible", "cost %d of at most 10: %s", cost, describe(d))
		}
		if d := l.take(t, b, 10); !d.Allowed || d.Impossible {
			l.broken(t, "an impossible cost charges nothing", "the full capacity does not fit afterwards: %s", describe(d))
		}
	}
}

// clockSwings: a clock that swings back and forth by up to the tolerance never admits more
// than a clock that does not.
func clockSwings(t *testing.T, s Subject) {
	tolerance := limit.ClockTolerance
	for _, swing := range []time.Duration{time.Microsecond, time.Second, tolerance / 2, tolerance} {
		for _, b := range []limit.TokenBucket{perSecond(10, 1), perSecond(3, 7), {Capacity: 5, Refill: 1, Per: time.Minute}} {
			l := newTimeline(s)
			admitted := int64(0)
			high := s.Clock.instant()
			for i := range s.Steps {
				if i%2 == 1 {
					s.Clock.Advance(-swing)
				} else if i > 0 {
					s.Clock.Advance(swing)
				}
				high = max(high, s.Clock.instant())
				for admitted < 1<<20 && l.take(t, b, 1).Allowed {
					admitted++
				}
			}
			most := add(rat(b.Capacity), mul(rat(high-l.start+swing.Microseconds()), big.NewRat(b.Refill, b.Per.Microseconds())))
			if swing < b.Per/time.Duration(b.Refill) {
				most = rat(b.Capacity)
			}
			if less(most, rat(admitted)) {
				l.broken(t, "a clock that swings never credits the same time twice",
					"swinging by %v admitted %d; time gave %s", swing, admitted, most.FloatString(3))
			}
		}
	}
}

// clockSetBack: a clock that is set back further costs at most one capacity, once, and
// denies a key for no longer than the tolerance and one refill.
func clockSetBack(t *testing.T, s Subject) {
	for _, step := range []time.Duration{limit.ClockTolerance + time.Second, time.Hour, 365 * 24 * time.Hour} {
		for _, b := range []limit.TokenBucket{perSecond(10, 1), perSecond(3, 7)} {
			l := newTimeline(s)
			l.exhaust(t, b, 1)
			s.Clock.Advance(-step)
			l.take(t, b, 1)
			refill := time.Duration(b.Capacity) * b.Per / time.Duration(b.Refill)
			s.Clock.Advance(limit.ClockTolerance + refill + time.Microsecond)
			if d := l.take(t, b, b.Capacity); !d.Allowed {
				l.broken(t, "a clock set back denies a key for no longer than the tolerance and one refill",
					"set back by %v; after another %v the capacity is still not there", step, limit.ClockTolerance+refill)
			}
		}
	}
}

// invalidIsRefused: an invalid policy or cost must never mean "unlimited".
func invalidIsRefused(t *testing.T, s Subject) {
	l := newTimeline(s)
	for _, p := range []limit.Policy{
		nil, limit.TokenBucket{}, perSecond(0, 1), perSecond(1, 0), perSecond(-1, 1), perSecond(1, -1),
		limit.TokenBucket{Capacity: 1, Refill: 1}, limit.TokenBucket{Capacity: 1, Refill: 1, Per: -time.Second},
		limit.TokenBucket{Capacity: 1, Refill: 1, Per: 999 * time.Microsecond},
		limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second + 1},
		perSecond(math.MaxInt64, 1), perSecond(1, math.MaxInt64), (*limit.Plan)(nil),
		limit.FixedWindow{}, limit.FixedWindow{Limit: -1, Window: time.Second}, limit.FixedWindow{Limit: 1}, limit.FixedWindow{Limit: 1, Window: -time.Second},
		limit.Calendar{}, limit.Calendar{Limit: 1}, limit.Calendar{Limit: 1, Period: limit.Month + 1}, limit.Calendar{Period: limit.Day},
		limit.Calendar{Limit: 1, Period: limit.Day, Location: time.Local},
		limit.SlidingWindow{}, limit.SlidingWindow{Limit: 1, Window: time.Second, Buckets: -1}, limit.SlidingWindow{Limit: math.MaxInt64, Window: time.Second},
		limit.SlidingLog{}, limit.SlidingLog{Limit: math.MaxInt64, Window: time.Second}, limit.Pacer{}, limit.Pacer{Burst: 1, Refill: 1, Per: time.Second},
		limit.All(), limit.All(perSecond(1, 1), nil), limit.All(perSecond(1, 1), perSecond(0, 1)), limit.Named("", perSecond(1, 1)),
	} {
		if d, err := s.Store.Take(context.Background(), []byte(l.key), p, 1); err == nil || d.Allowed {
			t.Fatalf("rule broken: an invalid policy is an error, never unlimited\npolicy %#v: %s, error %v", p, describe(d), err)
		}
	}
	b := perSecond(3, 1)
	l.take(t, b, 3)
	for _, cost := range []int64{0, -1, -3, math.MinInt64} {
		d, err := s.Store.Take(context.Background(), []byte(l.key), b, cost)
		if err == nil || d.Allowed {
			l.broken(t, "a cost below 1 is an error", "cost %d: %s", cost, describe(d))
		}
		if errors.CodeOf(err) != errors.InvalidArgument {
			l.broken(t, "a cost below 1 is an INVALID_ARGUMENT", "cost %d: the error is %v", cost, err)
		}
	}
	if d := l.take(t, b, 1); d.Allowed {
		l.broken(t, "a refused cost changes nothing", "a negative cost added tokens: %s", describe(d))
	}
}

// extremes: the first call, rates above 40 million a second, and the largest valid numbers.
// Floating point would fail here.
func extremes(t *testing.T, s Subject) {
	for _, b := range []limit.TokenBucket{
		perSecond(100, 10), perSecond(1, 40_000_001), perSecond(1_000_000_000, 1_000_000_000),
		perSecond(1<<51, 1_000_000), {Capacity: 1 << 51, Refill: 1000, Per: time.Millisecond},
		{Capacity: 1, Refill: 1, Per: 1 << 50 * time.Microsecond}, {Capacity: 1 << 31, Refill: 999_983, Per: time.Second},
	} {
		if _, err := limit.Compile(b); err != nil {
			continue
		}
		l, m := newTimeline(s), newModel(b)
		for _, cost := range []int64{1, b.Capacity, b.Capacity - 1, math.MaxInt64, 1, 1} {
			if cost < 1 {
				continue
			}
			want := m.Take(s.Clock.instant(), cost)
			if got := l.take(t, b, cost); got != want {
				l.broken(t, "no number leaves the exact range", "got  %s\nwant %s", describe(got), describe(want))
			}
			s.Clock.Advance(time.Microsecond)
		}
	}
}

// denialChangesNothing: a denial neither charges nor delays anything.
func denialChangesNothing(t *testing.T, s Subject) {
	b := perSecond(10, 1)
	l := newTimeline(s)
	l.take(t, b, 7)
	before := l.take(t, b, 4) // denied: 3 are left
	for range 100 {
		s.Clock.Advance(time.Millisecond)
		l.take(t, b, 4)
	}
	s.Clock.Advance(-100 * time.Millisecond)
	if again := l.take(t, b, 4); again != before {
		l.broken(t, "a denial changes nothing", "the same call was first answered\n%s\nand after 100 denials\n%s", describe(before), describe(again))
	}
	if d := l.take(t, b, 3); !d.Allowed || d.Remaining != 0 {
		l.broken(t, "a denial charges nothing", "3 were left and do not fit after denials: %s", describe(d))
	}
}
