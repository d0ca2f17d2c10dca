package limittest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/wskit/wskit/limit"
)

// samples are policies of every algorithm that admit 10 at once.
var samples = []limit.Policy{
	limit.TokenBucket{Capacity: 10, Refill: 7, Per: 3 * time.Second},
	limit.Pacer{Burst: 8, Refill: 2, Per: time.Second, MaxWait: time.Second},
	limit.FixedWindow{Limit: 10, Window: 3 * time.Second},
	limit.Calendar{Limit: 10, Period: limit.Day},
	limit.SlidingWindow{Limit: 10, Window: 3 * time.Second},
	limit.SlidingWindow{Limit: 10, Window: 3 * time.Second, Buckets: 5},
	limit.SlidingLog{Limit: 10, Window: 3 * time.Second},
	limit.All(limit.SlidingLog{Limit: 10, Window: 2 * time.Second}, limit.TokenBucket{Capacity: 30, Refill: 1, Per: time.Second}),
}

// everySample runs a rule for a policy of each algorithm that the store has.
func everySample(rule func(*testing.T, Subject, limit.Policy)) func(*testing.T, Subject) {
	return func(t *testing.T, s Subject) {
		for i, p := range samples {
			t.Run(fmt.Sprintf("%d-%v", i, p), func(t *testing.T) {
				needs(t, s, p)
				rule(t, s, p)
			})
		}
	}
}

// waitsAreExact: for every algorithm, waiting RetryAfter succeeds, a microsecond less does
// not, and after ResetAfter the whole limit is available again.
func waitsAreExact(t *testing.T, s Subject, p limit.Policy) {
	for _, cost := range []int64{1, 3, 10} {
		l := newTimeline(s)
		var d limit.Decision
		for i := range int64(40) {
			if d = l.take(t, p, 1+i%2); !d.Allowed {
				break
			}
			s.Clock.Advance(123_457 * time.Microsecond)
		}
		_, d = l.exhaust(t, p, cost)
		denied := s.Clock.instant()
		s.Clock.Advance(d.RetryAfter - time.Microsecond)
		if early := l.take(t, p, cost); d.RetryAfter <= 0 || early.Allowed {
			l.broken(t, "RetryAfter is the shortest wait", "admitted 1 µs before RetryAfter (%v) was over", d.RetryAfter)
		}
		s.Clock.set(denied + d.RetryAfter.Microseconds())
		after := l.take(t, p, cost)
		if !after.Allowed {
			l.broken(t, "waiting RetryAfter with no other traffic succeeds", "denied again after waiting %v", d.RetryAfter)
		}
		s.Clock.Advance(after.ResetAfter)
		if full := l.take(t, p, after.Limit); !full.Allowed || full.RetryAfter != 0 {
			l.broken(t, "after ResetAfter the whole limit is available again", "the ceiling of %d is answered: %s", after.Limit, describe(full))
		}
	}
}

// noSpanAdmitsMore: at any pace, no span as long as a window admits more than the policy's
// bound: Limit for a log and for a calendar window; for a sliding window up to twice that,
// depending on its sub-windows.
func noSpanAdmitsMore(t *testing.T, s Subject) {
	const window = 3 * time.Second
	for _, c := range []struct {
		policy limit.Policy
		most   func(admitted []int64) (got, most int)
	}{
		{limit.SlidingLog{Limit: 10, Window: window}, func(a []int64) (int, int) { return busiest(a, window), 10 }},
		{limit.SlidingWindow{Limit: 10, Window: window, Buckets: 30}, func(a []int64) (int, int) { return busiest(a, window), 11 }},
		{limit.FixedWindow{Limit: 10, Window: window}, func(a []int64) (int, int) { return calendar(a, window), 10 }},
	} {
		needs(t, s, c.policy)
		for _, every := range []time.Duration{7 * time.Millisecond, 101 * time.Millisecond, 299 * time.Millisecond} {
			l := newTimeline(s)
			var admitted []int64
			for range 3 * s.Steps {
				if l.take(t, c.policy, 1).Allowed {
					admitted = append(admitted, s.Clock.instant())
				}
				s.Clock.Advance(every)
			}
			if got, most := c.most(admitted); got > most {
				l.broken(t, "no window admits more than its limit", "%v asked every %v: %d in one window, at most %d", c.policy, every, got, most)
			}
			if span := time.Duration(3*s.Steps) * every; len(admitted) < int(span/window)*8 {
				l.broken(t, "a window admits its limit", "%v asked every %v: only %d in %v", c.policy, every, len(admitted), span)
			}
		}
	}
}

// twoSizesAdmitTheLarger: over one key, buckets that refill in the same time, or at the same rate
// and in times less than ClockTolerance apart, admit in any order no more than the larger would.
func twoSizesAdmitTheLarger(t *testing.T, s Subject) {
	bucket := func(capacity, refill int64, per time.Duration) limit.TokenBucket {
		return limit.TokenBucket{Capacity: capacity, Refill: refill, Per: per}
	}
	for _, c := range []struct{ large, small limit.TokenBucket }{
		{bucket(45, 45, time.Hour), bucket(30, 30, time.Hour)},
		{bucket(45, 90, time.Hour), bucket(20, 40, time.Hour)},
		{bucket(45, 1, time.Second), bucket(5, 1, time.Second)},
	} {
		needs(t, s, c.large)
		for seed := range uint64(4) {
			rng := rand.New(rand.NewPCG(seed, 1))
			l := newTimeline(s)
			var at []int64
			for range 3 * s.Steps {
				p := c.large
				if rng.IntN(2) == 0 {
					p = c.small
				}
				for range rng.IntN(60) {
					if !l.take(t, p, 1).Allowed {
						break
					}
					at = append(at, s.Clock.instant())
				}
				s.Clock.Advance(time.Duration(rng.Int64N(int64(3 * c.large.Per / time.Duration(c.large.Refill)))))
			}
			for i := range at {
				for j := i; j < len(at); j++ {
					if most := mostIn(c.large, at[i], at[j]); int64(j-i+1) > most {
						l.broken(t, "two sizes of a bucket admit no more than the larger", "%v and %v: %d in %v, at most %d",
							c.large, c.small, j-i+1, time.Duration(at[j]-at[i])*time.Microsecond, most)
					}
				}
			}
		}
	}
}

// busiest is the largest number of admissions in any half-open span as long as a window.
func busiest(at []int64, window time.Duration) (most int) {
	for i, j := 0, 0; j < len(at); j++ {
		for at[j]-at[i] >= window.Microseconds() {
			i++
		}
		most = max(most, j-i+1)
	}
	return most
}

func calendar(at []int64, window time.Duration) (most int) {
	counts := map[int64]int{}
	for _, t := range at {
		counts[t/window.Microseconds()]++
		most = max(most, counts[t/window.Microseconds()])
	}
	return most
}

// windowsTolerateSwings: a clock that swings by up to the tolerance opens no window twice,
// for any algorithm.
func windowsTolerateSwings(t *testing.T, s Subject, p limit.Policy) {
	for _, swing := range []time.Duration{time.Microsecond, 3 * time.Second, limit.ClockTolerance / 2} {
		l := newTimeline(s)
		l.exhaust(t, p, 1)
		for range 6 {
			s.Clock.Advance(-swing)
			if d := l.take(t, p, 1); d.Allowed {
				l.broken(t, "a clock that swings never credits the same time twice", "swinging back by %v admitted one more", swing)
			}
			s.Clock.Advance(swing)
			if d := l.take(t, p, 1); d.Allowed {
				l.broken(t, "a clock that swings never credits the same time twice", "back where it was after swinging by %v, one more is admitted", swing)
			}
		}
	}
}

// windowsSetBack: a clock that is set back by more admits no more, and denies a key for no
// longer than the tolerance and ResetAfter.
func windowsSetBack(t *testing.T, s Subject, p limit.Policy) {
	l := newTimeline(s)
	full, _ := l.exhaust(t, p, 1)
	s.Clock.Advance(-365 * 24 * time.Hour)
	if d := l.take(t, p, 1); d.Allowed {
		l.broken(t, "a clock set back admits no more", "one more is admitted")
	}
	s.Clock.Advance(limit.ClockTolerance + 2*full.ResetAfter + 6*time.Second)
	if d := l.take(t, p, full.Limit); !d.Allowed {
		l.broken(t, "a clock set back denies a key for no longer than the tolerance and one refill", "the ceiling is not available")
	}
}

// compositesChargeAllOrNone: if a part denies, the others are not charged, and the decision
// names that part.
func compositesChargeAllOrNone(t *testing.T, s Subject) {
	day := limit.Named("day", limit.FixedWindow{Limit: 100, Window: 24 * time.Hour})
	burst := limit.Named("burst", limit.TokenBucket{Capacity: 5, Refill: 1, Per: time.Second})
	log := limit.Named("log", limit.SlidingLog{Limit: 7, Window: 10 * time.Second})
	p := limit.All(day, limit.All(log, burst))
	needs(t, s, p)
	l := newTimeline(s)
	for range 5 {
		l.take(t, p, 1)
	}
	d := l.take(t, p, 1)
	if d.Allowed || d.Policy != "burst" || d.RetryAfter != time.Second || d.Limit != 5 {
		l.broken(t, "a composite names the part that bound", "burst was used up: %s by %s", describe(d), d.Policy)
	}
	for range 50 {
		l.take(t, p, 1)
	}
	s.Clock.Advance(2 * time.Second)
	if d = l.take(t, p, 2); !d.Allowed {
		l.broken(t, "a denied part of a composite charges none of the others", "7 fit into the log, 5 were taken: %s by %s", describe(d), d.Policy)
	}
	s.Clock.Advance(time.Second)
	d = l.take(t, p, 1)
	if d.Allowed || d.Policy != "log" || d.RetryAfter != 7*time.Second {
		l.broken(t, "of several that deny, a composite names the longest wait", "%s by %s", describe(d), d.Policy)
	}
	if d = l.take(t, p, 6); d.Allowed || !d.Impossible || d.Policy != "burst" {
		l.broken(t, "a composite is impossible when a part is", "6 of at most 5: %s by %s", describe(d), d.Policy)
	}
	if d.ResetAfter < time.Hour && d.ResetAfter > 0 {
		if left := 24*time.Hour - time.Duration(s.Clock.instant()%(24*time.Hour).Microseconds())*time.Microsecond; d.ResetAfter != left {
			l.broken(t, "the longest reset of a composite's parts is its own", "%s, the day ends in %v", describe(d), left)
		}
	}
}

// pacerSpacesOut: admissions are spaced out at the rate, and one that would wait too long is
// denied.
func pacerSpacesOut(t *testing.T, s Subject) {
	p := limit.Pacer{Burst: 2, Refill: 7, Per: 3 * time.Second, MaxWait: 2 * time.Second}
	needs(t, s, p)
	l := newTimeline(s)
	token := 3 * time.Second / 7
	for i := range 6 {
		d := l.take(t, p, 1)
		want := max(0, time.Duration(i-1)*token)
		if !d.Allowed || d.Wait < want || d.Wait > want+time.Duration(i)*time.Microsecond {
			l.broken(t, "a pacer spaces out what it admits", "number %d has to wait %v, want %v", i+1, d.Wait, want)
		}
	}
	d := l.take(t, p, 1)
	if d.Allowed || d.RetryAfter <= 0 || d.Wait != 0 {
		l.broken(t, "a pacer denies what would wait longer than MaxWait", "%s", describe(d))
	}
}
