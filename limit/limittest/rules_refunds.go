package limittest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wskit/wskit/limit"
)

const ruleNoMore = "admissions that were not refunded never exceed what the policy admits without the refunded ones"

// A refunded timeline checks every admission with a ledger.
type refunded struct {
	*timeline
	ledger *ledger
	p      limit.Policy
}

func newRefunded(s Subject, p limit.Policy) *refunded {
	return &refunded{newTimeline(s), newLedger(p), p}
}

func (r *refunded) take(t tb, cost int64) limit.Decision {
	t.Helper()
	d := r.timeline.take(t, r.p, cost)
	if d.Allowed {
		if broken := r.ledger.admit(d); broken != "" {
			r.broken(t, ruleNoMore, "%s", broken)
		}
	}
	return d
}

// takeAll takes one at a time until it is denied.
func (r *refunded) takeAll(t tb) {
	t.Helper()
	for r.take(t, 1).Allowed {
	}
}

// giveBack refunds an admission.
func (r *refunded) giveBack(t tb, e *entry) {
	t.Helper()
	r.ledger.refund(e, r.s.Clock.instant())
	r.timeline.refund(t, r.p, e.taken)
}

func (r *refunded) reset(t tb) {
	t.Helper()
	r.timeline.reset(t, r.p)
	r.ledger.forget(r.s.Clock.instant())
}

// refundsAdmitNoMore: with any refunds and resets, in any order and at any time, no more is
// admitted than if the refunded charges had never been made.
func refundsAdmitNoMore(t *testing.T, s Subject) {
	has[limit.ExtendedStore](t, s)
	t.Run("an earlier charge was refunded too", func(t *testing.T) {
		r := newRefunded(s, perSecond(10, 1))
		r.take(t, 5)
		r.take(t, 5)
		r.giveBack(t, r.ledger.entries[0])
		s.Clock.Advance(6 * time.Second)
		r.take(t, 10)
		r.giveBack(t, r.ledger.entries[1])
		r.takeAll(t)
	})
	t.Run("a composite", func(t *testing.T) {
		p := limit.All(perSecond(10, 10), limit.FixedWindow{Limit: 1000, Window: time.Hour})
		needs(t, s, p)
		r := newRefunded(s, p)
		for range 9 {
			r.take(t, 1)
			s.Clock.Advance(100 * time.Millisecond)
		}
		r.take(t, 10)
		for _, e := range r.ledger.entries[:9] {
			r.giveBack(t, e)
		}
		r.takeAll(t)
	})
	t.Run("less than a microsecond's flow", func(t *testing.T) {
		r := newRefunded(s, limit.TokenBucket{Capacity: 1000, Refill: 1500, Per: time.Millisecond})
		r.take(t, 2)
		s.Clock.Advance(time.Microsecond)
		r.take(t, 998)
		r.giveBack(t, r.ledger.entries[0])
		r.takeAll(t)
	})
	t.Run("a charge at the instant of a reset", func(t *testing.T) {
		needs(t, s, limit.SlidingWindow{Limit: 3, Window: time.Millisecond})
		r := newRefunded(s, limit.SlidingWindow{Limit: 3, Window: time.Millisecond})
		window := s.Clock.instant()/1000*1000 + 1000
		s.Clock.set(window + 778)
		r.take(t, 1)
		r.reset(t)
		s.Clock.set(window + 777)
		r.take(t, 1)
		s.Clock.set(window + 778)
		r.take(t, 1)
		s.Clock.set(window + 1667)
		r.giveBack(t, r.ledger.entries[1])
		s.Clock.set(window + 999)
		r.take(t, 1)
		s.Clock.set(window + 1667)
		r.takeAll(t)
	})
	t.Run("a reset", func(t *testing.T) { everySample(resetForgetsCharges)(t, s) })
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			needs(t, s, kind.example)
			rapid.Check(t, func(t *rapid.T) { refundAtRandom(t, s, kind.name) })
		})
	}
}

// resetForgetsCharges: a charge before a reset gives nothing back after it.
func resetForgetsCharges(t *testing.T, s Subject, p limit.Policy) {
	for _, later := range []time.Duration{0, time.Microsecond, 100 * time.Millisecond} {
		r := newRefunded(s, p)
		before := r.take(t, 10)
		s.Clock.Advance(later)
		r.reset(t)
		s.Clock.Advance(later)
		r.take(t, 10)
		r.timeline.refund(t, p, before)
		s.Clock.Advance(later)
		r.takeAll(t)
	}
	r := newRefunded(s, p) // a charge after the reset can be refunded
	r.take(t, 10)
	r.reset(t)
	s.Clock.Advance(tick)
	after := r.take(t, 10)
	r.giveBack(t, r.ledger.entries[0])
	if d := r.take(t, 10); !d.Allowed {
		r.broken(t, "what was charged after a reset is given back", "after the refund of %d: %s", after.Charged, describe(d))
	}
}

// tick is longer than the granularity of any store's clock.
const tick = 10 * time.Millisecond

// small draws policies of a kind with small limits.
func small(t *rapid.T, kind string) limit.Policy {
	span := func() time.Duration {
		return rapid.OneOf(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 3 * time.Second, 40 * time.Second}),
			drawMicros(1000, 5_000_000)).Draw(t, "span")
	}
	number := rapid.Int64Range(1, 12)
	switch kind {
	case "TokenBucket":
		return limit.TokenBucket{Capacity: number.Draw(t, "capacity"), Refill: rapid.SampledFrom([]int64{1, 2, 3, 7, 10, 1500, 99_991}).Draw(t, "refill"), Per: span()}
	case "Pacer":
		refill, per := number.Draw(t, "refill"), span()
		return limit.Pacer{Burst: number.Draw(t, "burst"), Refill: refill, Per: per, MaxWait: drawMicros(1, 10*per.Microseconds()/refill).Draw(t, "wait")}
	case "FixedWindow":
		return limit.FixedWindow{Limit: number.Draw(t, "limit"), Window: span()}
	case "Calendar":
		return drawCalendar(t, number.Draw(t, "limit"))
	case "SlidingWindow":
		n := rapid.IntRange(1, 5).Draw(t, "buckets")
		return limit.SlidingWindow{Limit: number.Draw(t, "limit"), Window: span() * time.Duration(n), Buckets: n}
	case "SlidingLog":
		return limit.SlidingLog{Limit: number.Draw(t, "limit"), Window: span()}
	}
	var parts []limit.Policy
	for range rapid.IntRange(2, 3).Draw(t, "parts") {
		parts = append(parts, small(t, rapid.SampledFrom(kinds[:len(kinds)-1]).Draw(t, "part").name))
	}
	return limit.All(parts...)
}

func drawMicros(lo, hi int64) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(lo, hi), func(us int64) time.Duration { return time.Duration(us) * time.Microsecond })
}

// refundAtRandom takes, refunds and resets at random, while the clock advances, swings and
// is set back. While the clock is behind an admission, nothing is refunded or reset, and
// admissions of that time are never refunded: the guarantee requires this.
func refundAtRandom(t *rapid.T, s Subject, kind string) {
	p := small(t, kind)
	if !compiles(p) {
		t.Skip("no valid policy")
	}
	plan, _ := limit.Compile(p)
	one, all := typical(p)
	r := newRefunded(s, p)
	tolerance := limit.ClockTolerance.Microseconds()
	forwards := rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Just(time.Microsecond),
		drawMicros(0, 2*one.Microseconds()), drawMicros(0, all.Microseconds()), drawMicros(0, 2*all.Microseconds()))
	var taken []*entry // these may be refunded
	var highest int64  // the latest instant of a charge, a refund or a reset
	lowest := s.Clock.instant()
	for range rapid.IntRange(1, s.Steps).Draw(t, "steps") {
		switch op := rapid.IntRange(0, 19).Draw(t, "operation"); {
		case op == 0:
			if most := tolerance - max(0, highest-s.Clock.instant()); most > 0 {
				s.Clock.Advance(-drawMicros(1, most).Draw(t, "swing"))
			}
		case op == 1: // so far that every state is corrected
			s.Clock.set(lowest - 2*tolerance - time.Hour.Microseconds())
			r.ledger.forget(0)
			taken, highest = nil, 0
		case op <= 5:
			s.Clock.Advance(forwards.Draw(t, "advance"))
		}
		lowest = min(lowest, s.Clock.instant())
		behind := highest - s.Clock.instant()
		known := len(r.ledger.entries)
		switch op := rapid.IntRange(0, 19).Draw(t, "operation"); {
		case behind > 0 && op < 6:
			s.Clock.Advance(time.Duration(behind) * time.Microsecond)
		case behind <= 0 && op == 0:
			r.reset(t)
			highest = s.Clock.instant()
			if rapid.Bool().Draw(t, "forget what was taken") {
				taken = nil
			}
		case behind <= 0 && op < 9 && len(taken) > 0:
			i := rapid.IntRange(0, len(taken)-1).Draw(t, "which")
			highest = s.Clock.instant()
			r.giveBack(t, taken[i])
			taken = append(taken[:i], taken[i+1:]...)
		case op < 11:
			r.takeAll(t)
		default:
			r.take(t, rapid.Int64Range(1, plan.Compiled().Ceiling).Draw(t, "cost"))
		}
		if n := len(r.ledger.entries); n > known && behind <= 0 {
			highest = s.Clock.instant()
			taken = append(taken, r.ledger.entries[known:]...)
		}
	}
}
