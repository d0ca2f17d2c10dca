package limittest_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/suitetest"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/limittest"
)

func TestRightStorePasses(t *testing.T) { limittest.Run(t, open(fault{})) }

var faults = []fault{
	{
		name: "RefillRoundedDown", part: "EveryRateIsExact", rule: "ideal count over any horizon",
		// The fraction of a microsecond that is owed is rounded up each time.
		state: func(_, after []int64, d *limit.Decision, _ int64) []int64 {
			if len(after) == 2 && after[1] > 0 && strings.HasPrefix(d.Policy, "token_bucket") {
				return []int64{after[0] + 1, 0}
			}
			return after
		},
	},
	{
		name: "MillisecondClock", part: "RetryAfterIsExact", rule: "RetryAfter is the shortest wait",
		decision: func(d *limit.Decision) {
			d.RetryAfter = (d.RetryAfter + time.Millisecond - 1).Truncate(time.Millisecond)
		},
	},
	{
		name: "RetryTooShort", part: "RetryAfterIsExact", rule: "waiting RetryAfter with no other traffic succeeds",
		decision: func(d *limit.Decision) {
			if d.RetryAfter > time.Microsecond {
				d.RetryAfter -= time.Microsecond
			}
		},
	},
	{
		name: "RetryTooLong", part: "RetryAfterIsExact", rule: "RetryAfter is the shortest wait",
		decision: func(d *limit.Decision) {
			if d.RetryAfter > 0 {
				d.RetryAfter += time.Microsecond
			}
		},
	},
	{
		name: "ImpossibleIsRetryable", part: "ImpossibleIsNotRetryable", rule: "a cost above the ceiling is impossible",
		decision: func(d *limit.Decision) {
			if d.Impossible {
				d.Impossible, d.RetryAfter = false, time.Second
			}
		},
	},
	{
		name: "TimeCreditedTwice", part: "ClockSwings", rule: "a clock that swings never credits the same time twice",
		// When the clock is behind, what is owed is cut to the bucket's size and stored, as
		// if the time passed twice.
		state: func(before, after []int64, d *limit.Decision, now int64) []int64 {
			if !d.Allowed && len(before) == 2 && before[0]-now > 12_000_000 {
				return []int64{now + 5_000_000, 0}
			}
			return after
		},
	},
	{
		name: "FrozenUntilTheClockCatchesUp", part: "ClockSetBack", rule: "denies a key for no longer",
		state: func(before, after []int64, d *limit.Decision, _ int64) []int64 {
			if !d.Allowed && len(before) == 2 {
				return before // a correction is not written
			}
			return after
		},
		now: latest(),
	},
	{
		name: "NegativeCostAddsTokens", part: "InvalidIsRefused", rule: "a cost below 1 is an error",
		cost: func(c int64) int64 { return max(c, 1) },
	},
	{
		name: "DenialCharges", part: "DenialChangesNothing", rule: "a denial changes nothing",
		state: func(before, after []int64, d *limit.Decision, _ int64) []int64 {
			if !d.Allowed && len(after) == 2 {
				return []int64{after[0] + 1000, after[1]}
			}
			return after
		},
	},
	{
		name: "FloatingPoint", part: "Extremes", rule: "no number leaves the exact range",
		decision: func(d *limit.Decision) {
			d.Remaining = int64(float64(float32(d.Remaining)))
		},
	},
	{
		name: "KeysCutAtSeparator", part: "KeysAreApart", rule: "different keys have different limits",
		key: func(k string) string { return strings.ReplaceAll(k, "::", ":") },
	},
	{
		name: "KeysFolded", part: "KeysAreApart", rule: "different keys have different limits",
		key: strings.ToLower,
	},
	{
		name: "NamesIgnored", part: "LimitersAreApart", rule: "limiters share state exactly when they share a name",
		key: func(k string) string { return strings.NewReplacer("one-", "", "two-", "").Replace(k) },
	},
	{
		name: "AnotherWindowIsFresh", part: "WindowsTolerateSwings", rule: "a clock that swings never credits the same time twice",
		load: func(before []int64, policy limit.Policy, now int64) []int64 {
			if w, ok := policy.(limit.FixedWindow); ok && len(before) == 2 && before[0] > now-now%w.Window.Microseconds() {
				return nil
			}
			return before
		},
	},
	{
		name: "AnotherSizeIsFresh", part: "TwoSizesAdmitTheLarger", rule: "two sizes of a bucket admit no more than the larger",
		load: func(before []int64, policy limit.Policy, now int64) []int64 {
			b, ok := policy.(limit.TokenBucket)
			if ok && len(before) == 2 && before[0]-now > b.Capacity*b.Per.Microseconds()/b.Refill {
				return nil
			}
			return before
		},
	},
	{
		name: "DroppedWhenItIsEmpty", part: "StepsAdmitNoMore", rule: "a clock that is stepped admits no more",
		load: func(before []int64, policy limit.Policy, now int64) []int64 {
			var d limit.Decision
			plan, _ := limit.Compile(policy)
			if plan.Peek(&d, before, now, 1); d.ResetAfter == 0 {
				return nil
			}
			return before
		},
	},
	{
		name: "DeniedUntilTheWindowEnds", part: "WaitsAreExact", rule: "RetryAfter is the shortest wait",
		decision: func(d *limit.Decision) {
			if d.RetryAfter > 0 && strings.HasPrefix(d.Policy, "sliding_window") {
				d.RetryAfter = d.ResetAfter
			}
		},
	},
	{
		name: "LogSavedWhenItsLengthChanged", part: "NoSpanAdmitsMore", rule: "no window admits more than its limit",
		state: func(before, after []int64, d *limit.Decision, _ int64) []int64 {
			if strings.HasPrefix(d.Policy, "sliding_log") && len(before) == len(after) && len(before) > 0 {
				return before
			}
			return after
		},
	},
	{
		name: "ResetFromTheOldest", part: "WaitsAreExact", rule: "after ResetAfter the whole limit is available again",
		decision: func(d *limit.Decision) { d.ResetAfter /= 2 },
	},
	{name: "PartsChargedOneByOne", part: "CompositesChargeAllOrNone", rule: "a denied part of a composite charges none of the others", separate: true},
	{
		name: "PeekCharges", part: "PeekChangesNothing", rule: "a peek changes nothing",
		peek: func(s *plain, key []byte, policy limit.Policy, cost int64) {
			s.Take(context.Background(), []byte(key), policy, cost)
		},
	},
	{
		name: "RefundOfWhatCameBack", part: "RefundAdmitsNoMore", rule: "a refund gives back nothing that has flowed back in",
		refund: func(d *limit.Decision, now int64) { d.At = now },
	},
	{
		name: "RefundOfHalf", part: "RefundIsExact", rule: "a refund gives back exactly what was taken",
		refund: func(d *limit.Decision, _ int64) { d.Charged /= 2 },
	},
	{name: "RefundByTheLine", part: "RefundsAdmitNoMore", rule: ruleNoMore, refunds: refundsBy(byTheLine)},
	{name: "RefundByTheLineOfAll", part: "RefundsAdmitNoMore", rule: ruleNoMore, refunds: refundsBy(byTheLineOfAll)},
	{name: "RefundRoundedUp", part: "RefundsAdmitNoMore", rule: ruleNoMore, refunds: refundsBy(roundedUp)},
	{name: "ResetLeavesNoInstant", part: "RefundsAdmitNoMore", rule: ruleNoMore, resetForgotten: true},
	{name: "ResetDoesNothing", part: "ResetForgets", rule: "a reset deletes everything", noReset: true},
	{
		name: "SettledWithHalf", part: "ReserveAndSettle", rule: "a reservation that is settled counts as its actual cost",
		refund: func(d *limit.Decision, _ int64) { d.Charged /= 2 },
	},
	{name: "SettledBackwards", part: "ReserveAndSettle", rule: "a reservation that is settled counts as its actual cost", reversed: true},
	{name: "SettledWithoutLock", part: "ReserveAndSettle", rule: "reservations that are settled at the same time all count", unlocked: true},
	{name: "ManyBackwards", part: "ManyInOrder", rule: "several asks are answered in order", reversed: true},
	{name: "NoKeysTogether", part: "AllOrNone", rule: "a valid call gets its decisions", noTakeAll: true},
	{name: "NoKeysAtOnce", part: "AllOrNoneAtOnce", rule: "a valid call gets its decisions", noTakeAll: true},
	{name: "NotUndone", part: "AllOrNone", rule: "an ask that is denied charges none of the others", noUndo: true},
	{
		name: "CheckThenSet", part: "Concurrency", rule: "N callers on one key", unlocked: true,
	},
}

const ruleNoMore = "admissions that were not refunded never exceed what the policy admits without the refunded ones"

// latest returns a clock that never goes back, even if its input does.
func latest() func(int64) int64 {
	var mu sync.Mutex
	high := int64(math.MinInt64)
	return func(now int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		high = max(high, now)
		return high
	}
}

// TestSuiteCatches runs the suite in a separate process on stores with one fault each: it
// must fail and name the rule. A race, or a fault that shows at few instants only, may need
// several runs.
func TestSuiteCatches(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			out := suitetest.Catches(t, 20, "^TestFaultyStore$/^"+f.part+"$", f.name, "-rapid.nofailfile", "-rapid.shrinktime=10ms", "-rapid.checks=30")
			if !strings.Contains(out, "rule broken: ") || !strings.Contains(out, f.rule) {
				t.Fatalf("the suite failed without naming the rule %q:\n%s", f.rule, out)
			}
		})
	}
}

func TestFaultyStore(t *testing.T) {
	f := suitetest.Find(t, faults, func(f fault) string { return f.name })
	limittest.Run(t, open(f))
}
