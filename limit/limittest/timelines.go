package limittest

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
)

// timelines compares the store with the model over generated policies, costs
// and clocks, one part for every algorithm.
func timelines(t *testing.T, s Subject) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			needs(t, s, kind.example)
			rapid.Check(t, func(t *rapid.T) {
				compare(t, s, []limit.Policy{kind.any().Draw(t, "policy")})
			})
		})
	}
}

// policyChange is timelines with changes of the policy.
func policyChange(t *testing.T, s Subject) {
	for _, kind := range kinds {
		if kind.name == "All" {
			continue // a change must keep the number and the kinds of its parts
		}
		t.Run(kind.name, func(t *testing.T) {
			needs(t, s, kind.example)
			rapid.Check(t, func(t *rapid.T) {
				first := kind.any().Draw(t, "policy")
				policies := []limit.Policy{first}
				for range 2 {
					policies = append(policies, kind.any().Filter(sameShape(first)).Draw(t, "policy"))
				}
				compare(t, s, policies)
			})
		})
	}
}

func sameShape(p limit.Policy) func(limit.Policy) bool {
	return func(q limit.Policy) bool { return shape(p) == shape(q) }
}

func shape(p limit.Policy) string {
	plan, _ := limit.Compile(p)
	return plan.Shape()
}

// needs skips a part if the store does not have the policy.
func needs(t *testing.T, s Subject, p limit.Policy) {
	t.Helper()
	_, err := s.Store.Take(context.Background(), []byte(newTimeline(s).key), p, 1)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("the store has no %v", p)
	}
}

func compare(t *rapid.T, s Subject, policies []limit.Policy) {
	l := newTimeline(s)
	m, current := newModel(policies[0]), policies[0]
	steps := rapid.IntRange(1, s.Steps).Draw(t, "steps")
	var wait time.Duration // what the last denial advised
	var taken []limit.Decision
	var latest int64
	swung := false // whether the clock has swung further than a reset is kept
	_, extended := s.Store.(limit.ExtendedStore)
	for range steps {
		if len(policies) > 1 {
			if p := rapid.SampledFrom(policies).Draw(t, "policy"); p != current {
				m.Become(p)
				current = p
			}
		}
		s.Clock.Advance(anyStep(current, wait).Draw(t, "advance"))
		now := s.Clock.instant()
		if latest = max(latest, now); m.reset > 0 && latest-now > tolerance {
			// Whether the reset is still kept depends on the instant of the store's last call.
			latest, taken, swung = now, nil, true
		}
		cost := anyCost(current).Draw(t, "cost")
		var got, want limit.Decision
		switch op := rapid.IntRange(0, 15).Draw(t, "operation"); {
		case op == 0 && extended && rapid.Bool().Draw(t, "reset"):
			l.reset(t, current)
			m.Reset(now, current)
			swung = swung && m.reset != now
			if len(policies) > 1 {
				taken = nil // how long a reset is kept depends on the policy
			}
			continue
		case op <= 2 && extended && len(taken) > 0:
			i := rapid.IntRange(0, len(taken)-1).Draw(t, "which")
			l.refund(t, current, taken[i])
			m.Refund(now, taken[i])
			taken = append(taken[:i], taken[i+1:]...)
			continue
		case op <= 5 && extended:
			want, got = m.Peek(now, cost), l.peek(t, current, cost)
		default:
			want, got = m.Take(now, cost), l.take(t, current, cost)
			// If the policy changes or the clock has swung, how long a reset blocks refunds of
			// earlier charges depends on the instants of the store's calls.
			if got.Allowed && (len(policies) == 1 && !swung || got.At > m.reset) {
				taken = append(taken, got)
			}
		}
		if !extended { // they are for refunds
			got.At, got.Charged, want.At, want.Charged = 0, 0, 0, 0
		}
		if got != want {
			l.broken(t, "every field of a decision is that of the exact model", "got  %s\nwant %s%s",
				describe(got), describe(want), nameDifference(got, want))
		}
		wait = got.RetryAfter + got.Wait
	}
}

func nameDifference(got, want limit.Decision) string {
	switch {
	case got.Policy != want.Policy:
		return "\nthe policy is named " + got.Policy + ", not " + want.Policy
	case got.Charged != want.Charged || got.At != want.At:
		return "\nCharged or At, which a refund goes by, differ"
	}
	return ""
}

// A kind is an algorithm and a generator of policies for it.
type kind struct {
	name    string
	example limit.Policy
	any     func() *rapid.Generator[limit.Policy]
}

var kinds = []kind{
	{"TokenBucket", limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Second}, anyBucket},
	{"Pacer", limit.Pacer{Burst: 3, Refill: 1, Per: time.Second, MaxWait: time.Second}, anyPacer},
	{"FixedWindow", limit.FixedWindow{Limit: 3, Window: time.Second}, anyFixed},
	{"Calendar", limit.Calendar{Limit: 3, Period: limit.Day}, anyCalendar},
	{"SlidingWindow", limit.SlidingWindow{Limit: 3, Window: time.Second}, anySliding},
	{"SlidingLog", limit.SlidingLog{Limit: 3, Window: time.Second}, anyLog},
	{"All", limit.All(limit.FixedWindow{Limit: 3, Window: time.Second}, limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Second}), anyAll},
}

func valid(g *rapid.Generator[limit.Policy]) *rapid.Generator[limit.Policy] {
	return g.Filter(func(p limit.Policy) bool { return compiles(p) })
}

// compiles reports whether a policy is valid.
func compiles(p limit.Policy) bool {
	_, err := limit.Compile(p)
	return err == nil
}

func anySpan(t *rapid.T, label string) time.Duration {
	return rapid.OneOf(
		rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 3 * time.Second, time.Minute, time.Hour, 24 * time.Hour}),
		rapid.Map(rapid.Int64Range(1000, 10_000_000), func(us int64) time.Duration { return time.Duration(us) * time.Microsecond }),
	).Draw(t, label)
}

func anyLimit(t *rapid.T, label string) int64 {
	return rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 1000), rapid.Int64Range(1, 1<<40)).Draw(t, label)
}

func anyRefill(t *rapid.T) int64 {
	return rapid.OneOf(rapid.Int64Range(1, 10),
		rapid.SampledFrom([]int64{7, 997, 99_991, 100_000, 999_983, 40_000_000, 1_000_000_000})).Draw(t, "refill")
}

// anyBucket draws token buckets, small and large. Many have rates that are coprime with the
// clock.
func anyBucket() *rapid.Generator[limit.Policy] {
	return valid(rapid.Custom(func(t *rapid.T) limit.Policy {
		return limit.TokenBucket{Capacity: anyLimit(t, "capacity"), Refill: anyRefill(t), Per: anySpan(t, "per")}
	}))
}

func anyPacer() *rapid.Generator[limit.Policy] {
	return valid(rapid.Custom(func(t *rapid.T) limit.Policy {
		return limit.Pacer{
			Burst: rapid.Int64Range(1, 20).Draw(t, "burst"), Refill: anyRefill(t), Per: anySpan(t, "per"),
			MaxWait: time.Duration(rapid.Int64Range(1, 100_000_000).Draw(t, "wait")) * time.Microsecond,
		}
	}))
}

func anyFixed() *rapid.Generator[limit.Policy] {
	return valid(rapid.Custom(func(t *rapid.T) limit.Policy {
		return limit.FixedWindow{Limit: anyLimit(t, "limit"), Window: anySpan(t, "window")}
	}))
}

func anySliding() *rapid.Generator[limit.Policy] {
	return valid(rapid.Custom(func(t *rapid.T) limit.Policy {
		n := rapid.SampledFrom([]int{0, 1, 2, 3, 5, 10, 60}).Draw(t, "buckets")
		return limit.SlidingWindow{
			Limit:  rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 20_000)).Draw(t, "limit"),
			Window: anySpan(t, "window").Truncate(time.Microsecond) / time.Duration(max(n, 1)) / 1000 * 1000 * time.Duration(max(n, 1)), Buckets: n,
		}
	}))
}

func anyLog() *rapid.Generator[limit.Policy] {
	return valid(rapid.Custom(func(t *rapid.T) limit.Policy {
		return limit.SlidingLog{
			Limit:  rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 1000)).Draw(t, "limit"),
			Window: anySpan(t, "window"),
		}
	}))
}

func anyAll() *rapid.Generator[limit.Policy] {
	one := rapid.OneOf(anyBucket(), anyFixed(), anyCalendar(), anySliding(), anyLog(), anyBucket(), anyPacer())
	return rapid.Custom(func(t *rapid.T) limit.Policy {
		return limit.All(rapid.SliceOfN(one, 2, 4).Draw(t, "parts")...)
	})
}

// typical returns about how long it takes until one unit is available again, and until all
// are.
func typical(p limit.Policy) (one, all time.Duration) {
	switch p := p.(type) {
	case limit.TokenBucket:
		one = p.Per / time.Duration(p.Refill)
		all = min(time.Duration(min(p.Capacity, 20))*max(one, time.Microsecond), time.Hour)
	case limit.Pacer:
		one, all = p.Per/time.Duration(p.Refill), p.MaxWait
	case limit.FixedWindow:
		one, all = p.Window, p.Window
	case limit.Calendar:
		one = map[limit.Period]time.Duration{limit.Day: 1, limit.Week: 7, limit.Month: 30}[p.Period] * 24 * time.Hour
		all = one
	case limit.SlidingWindow:
		one, all = p.Window/time.Duration(max(p.Buckets, 1)), p.Window
	case limit.SlidingLog:
		one, all = p.Window/time.Duration(p.Limit), p.Window
	default:
		return typical(partsOf(p)[0])
	}
	return max(one, time.Microsecond), max(all, time.Microsecond)
}

// anyStep draws how far the clock moves: not at all, about the time of a token, by the
// RetryAfter of the last denial or slightly less, about a window, or far in either
// direction.
func anyStep(p limit.Policy, wait time.Duration) *rapid.Generator[time.Duration] {
	one, all := typical(p)
	between := func(lo, hi time.Duration) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.Int64Range(lo.Microseconds(), hi.Microseconds()), func(us int64) time.Duration {
			return time.Duration(us) * time.Microsecond
		})
	}
	const tolerance = limit.ClockTolerance
	return rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, 0, time.Microsecond, wait, max(wait-time.Microsecond, 0)}),
		between(0, 2*one),
		between(0, 2*all),
		between(-tolerance, tolerance),
		rapid.SampledFrom([]time.Duration{-time.Microsecond, -tolerance, -tolerance - time.Microsecond, -time.Hour, 24 * time.Hour}),
	)
}

func anyCost(p limit.Policy) *rapid.Generator[int64] {
	plan, _ := limit.Compile(p)
	ceiling := plan.Compiled().Ceiling
	return rapid.OneOf(
		rapid.Just(int64(1)),
		rapid.Int64Range(1, min(ceiling, 10)),
		rapid.Int64Range(1, ceiling),
		rapid.SampledFrom([]int64{ceiling, ceiling + 1, math.MaxInt64}),
	)
}
