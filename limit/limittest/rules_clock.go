package limittest

import (
	"context"
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wskit/wskit/limit"
)

// slow are policies whose state lasts about as long as the clock tolerance, and longer.
var slow = []limit.Policy{
	limit.TokenBucket{Capacity: 10, Refill: 1, Per: 7 * time.Second},
	limit.FixedWindow{Limit: 10, Window: 50 * time.Second},
	limit.SlidingWindow{Limit: 10, Window: 45 * time.Second, Buckets: 3},
	limit.SlidingLog{Limit: 10, Window: 55 * time.Second},
	limit.All(limit.FixedWindow{Limit: 10, Window: 2 * time.Minute}, limit.SlidingLog{Limit: 10, Window: time.Second}),
}

// swing moves the clock of a store between 0 and far ahead of the time.
type swing struct {
	s      Subject
	passes *rapid.Generator[time.Duration] // how much time passes at a step
	far    time.Duration
	ahead  time.Duration
}

// newSwing draws how far the clock swings, and how much time passes at a step, possibly
// none. Both are about as long as state lasts, or as the tolerance.
func newSwing(t *rapid.T, s Subject, long time.Duration) swing {
	const tolerance = limit.ClockTolerance
	long = min(long, tolerance)
	w := swing{s: s, passes: rapid.Just(time.Duration(0))}
	w.far = min(tolerance, rapid.SampledFrom([]time.Duration{long + long/8, 2 * long, tolerance}).Draw(t, "the clock swings by"))
	if !rapid.Bool().Draw(t, "time stands still") {
		w.passes = rapid.OneOf(w.passes, drawSpan(0, long/8), drawSpan(0, 2*long))
	}
	return w
}

// step draws the next movement: time passes, or the clock is stepped, or both.
func (w *swing) step(t *rapid.T) {
	passes := w.passes.Draw(t, "time passes")
	ahead := rapid.OneOf(rapid.SampledFrom([]time.Duration{0, w.far}), drawSpan(0, w.far)).Draw(t, "the clock is ahead by")
	w.s.step(passes + ahead - w.ahead)
	w.ahead = ahead
}

// end undoes the last step, for the next timeline.
func (w *swing) end() { w.s.step(-w.ahead) }

func drawSpan(lo, hi time.Duration) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(lo.Microseconds(), hi.Microseconds()), func(us int64) time.Duration {
		return time.Duration(us) * time.Microsecond
	})
}

// stepsAdmitNoMore: while a clock swings by up to the tolerance and any calls are made, no
// more is admitted than the policy admits in the time between a reading of the clock and the
// latest reading.
func stepsAdmitNoMore(t *testing.T, s Subject) {
	for _, p := range append(append([]limit.Policy(nil), samples...), slow...) {
		t.Run(p.String(), func(t *testing.T) {
			needs(t, s, p)
			swingRegularly(t, s, p)
			rapid.Check(t, func(t *rapid.T) { swingAndTake(t, s, p) })
		})
	}
}

// swingRegularly exhausts the limit, moves the clock to where the limit is available again,
// makes another call there if the store can, moves the clock back, and repeats this.
func swingRegularly(t *testing.T, s Subject, p limit.Policy) {
	_, extended := s.Store.(limit.ExtendedStore)
	for _, do := range []func(*timeline, *tally){
		func(*timeline, *tally) {},
		func(l *timeline, log *tally) { log.take(t, l, p, l.take(t, p, 11)) },
		func(l *timeline, log *tally) {
			if d := l.take(t, p, 1); extended && d.Allowed {
				log.see(d)
				l.refund(t, p, d)
			} else {
				log.take(t, l, p, d)
			}
		},
		func(l *timeline, log *tally) {
			if extended {
				log.see(l.peek(t, p, 1))
			}
		},
	} {
		l := newTimeline(s)
		var log tally
		for range 5 {
			far := time.Duration(0)
			for range 11 {
				d := l.take(t, p, 1)
				log.take(t, l, p, d)
				far = max(far, d.ResetAfter)
			}
			far = min(far+time.Millisecond, limit.ClockTolerance)
			s.step(far)
			do(l, &log)
			s.step(-far)
		}
	}
}

// A tally is the sum of the admissions that are not refunded.
type tally struct {
	at, cost []int64 // at each reading
	latest   int64   // of all readings
}

// take adds a decision that is not refunded, and checks the sum.
func (y *tally) take(t tb, l *timeline, p limit.Policy, d limit.Decision) {
	t.Helper()
	y.see(d)
	if !d.Allowed {
		return
	}
	y.at, y.cost = append(y.at, d.At), append(y.cost, d.Charged)
	admitted := int64(0)
	for i := len(y.at) - 1; i >= 0; i-- {
		admitted += y.cost[i]
		if most := mostIn(p, y.at[i], y.latest); admitted > most {
			l.broken(t, "a clock that is stepped admits no more",
				"from the reading %s on %d were admitted and not given back; by the latest reading, %s, at most %d may be",
				since(l.start, y.at[i]), admitted, since(l.start, y.latest), most)
		}
	}
}

// see records the instant of a decision.
func (y *tally) see(d limit.Decision) { y.latest = max(y.latest, d.At) }

func swingAndTake(t *rapid.T, s Subject, p limit.Policy) {
	_, long := typical(p)
	l, w := newTimeline(s), newSwing(t, s, long)
	defer w.end()
	_, extended := s.Store.(limit.ExtendedStore)
	var log tally
	for range rapid.IntRange(1, s.Steps).Draw(t, "steps") {
		if rapid.Bool().Draw(t, "step") {
			w.step(t)
		}
		switch op := rapid.IntRange(0, 19).Draw(t, "operation"); {
		case op == 0 && extended:
			l.reset(t, p)
			log = tally{latest: log.latest}
		case op <= 4 && extended:
			log.see(l.peek(t, p, rapid.Int64Range(1, 11).Draw(t, "cost")))
		default:
			d := l.take(t, p, rapid.SampledFrom([]int64{1, 1, 3, 10, 11}).Draw(t, "cost"))
			if extended && op >= 14 && d.Allowed {
				log.see(d)
				l.refund(t, p, d)
				continue
			}
			log.take(t, l, p, d)
		}
	}
}

// mostIn is how much a policy may admit from one reading of the clock to another (both
// included), according to its documentation.
func mostIn(p limit.Policy, from, to int64) int64 {
	windows := func(width time.Duration) int64 { return to/width.Microseconds() - from/width.Microseconds() + 1 }
	flow := func(refill int64, per time.Duration) int64 {
		return floor(mul(rat(to-from), big.NewRat(refill, per.Microseconds()))).Int64()
	}
	switch p := p.(type) {
	case limit.TokenBucket:
		return p.Capacity + flow(p.Refill, p.Per)
	case limit.Pacer:
		to += p.MaxWait.Microseconds() // delayed admissions are decided early
		return p.Burst + flow(p.Refill, p.Per)
	case limit.FixedWindow:
		return p.Limit * windows(p.Window)
	case limit.Calendar:
		return p.Limit * (number(p, to) - number(p, from) + 1)
	case limit.SlidingWindow:
		n := int64(max(p.Buckets, 1))
		return p.Limit * ((windows(p.Window/time.Duration(n)) + n - 1) / n)
	case limit.SlidingLog:
		return p.Limit * ((to-from)/p.Window.Microseconds() + 1)
	}
	most := int64(1) << 62
	for _, part := range partsOf(p) {
		most = min(most, mostIn(part, from, to))
	}
	return most
}

// stepsEndNoLease: with a clock that swings by up to the tolerance, the store never grants
// more leases than the limit at any reading of the clock.
func stepsEndNoLease(t *testing.T, s Subject) {
	store := has[limit.LeaseStore](t, s)
	const most = 3
	rapid.Check(t, func(t *rapid.T) {
		s.rewind()
		w := newSwing(t, s, leaseTime)
		defer w.end()
		key := fmt.Sprintf("limittest:hold:%d", keys.Add(1))
		ends := map[string]int64{} // of the leases that were not released
		for i := range rapid.IntRange(1, s.Steps).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "step") {
				w.step(t)
			}
			switch op := rapid.IntRange(0, 5).Draw(t, "operation"); {
			case op == 0 && len(ends) > 0:
				for id := range ends {
					if err := store.Release(context.Background(), []limit.Lease{{Key: key, ID: id}}); err != nil {
						t.Fatalf("Release: %v", err)
					}
					delete(ends, id)
					break
				}
			case op == 1:
				if _, _, err := store.Held(context.Background(), key, 0); err != nil {
					t.Fatalf("Held: %v", err)
				}
			default:
				id := fmt.Sprint(i)
				d, err := store.Acquire(context.Background(), limit.Lease{Key: key, ID: id}, most, leaseTime)
				if err != nil {
					t.Fatalf("Acquire: %v", err)
				}
				if !d.Allowed {
					continue
				}
				ends[id] = d.At + leaseTime.Microseconds()
				last := 0
				for _, end := range ends {
					if end > d.At {
						last++
					}
				}
				if last > most {
					t.Fatalf("rule broken: a clock that is stepped frees no lease\n%d leases were unexpired when one was granted, want at most %d", last, most)
				}
			}
		}
	})
}
