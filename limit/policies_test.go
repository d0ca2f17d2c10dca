package limit_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/limit"
)

// Windows, logs, pacers and composites that make no sense are refused
// with the field and the remedy.
func TestInvalidWindows(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		policy limit.Policy
		says   string
	}{
		{limit.FixedWindow{}, "Limit must be at least 1"},
		{limit.FixedWindow{Limit: -1, Window: s}, "Limit must be at least 1"},
		{limit.FixedWindow{Limit: 1}, "Window must be at least 1ms"},
		{limit.FixedWindow{Limit: 1, Window: -s}, "Window must be at least 1ms"},
		{limit.FixedWindow{Limit: 1, Window: s + 1}, "Window must be a whole number of microseconds"},
		{limit.FixedWindow{Limit: math.MaxInt64, Window: s}, "Limit must be at most 2251799813685248"},
		{limit.FixedWindow{Limit: 1, Window: math.MaxInt64 / 1000 * 1000}, "Window must be at most"},
		{limit.Calendar{}, "Period must be Day, Week or Month"},
		{limit.Calendar{Period: limit.Day}, "Limit must be at least 1"},
		{limit.Calendar{Limit: 1, Period: 4}, "calendar(1/Period(4),UTC): Period must be Day, Week or Month"},
		{limit.Calendar{Limit: 1, Period: limit.Day, Location: time.Local}, "Location must be one of time.LoadLocation: time.Local differs"},
		{limit.Calendar{Limit: 1, Period: limit.Day, Location: time.FixedZone("far", 27*3600)}, "Location must be at most 26 hours from UTC"},
		{limit.SlidingWindow{}, "Window must be at least 1ms"},
		{limit.SlidingWindow{Window: s}, "Limit must be at least 1"},
		{limit.SlidingWindow{Limit: 1, Window: s, Buckets: -1}, "Buckets must be from 0 to 1440"},
		{limit.SlidingWindow{Limit: 1, Window: s, Buckets: 1441}, "Buckets must be from 0 to 1440"},
		{limit.SlidingWindow{Limit: 1, Window: s, Buckets: 7}, "1s in 7 parts is not"},
		{limit.SlidingWindow{Limit: 1, Window: 3 * time.Millisecond, Buckets: 4}, "at most 3, for sub-windows of at least 1ms"},
		{limit.SlidingWindow{Limit: 26063, Window: 24 * time.Hour}, "Limit must be at most 26062 (with sub-windows of 24h0m0s; more Buckets allow a larger limit)"},
		{limit.SlidingLog{}, "Limit must be at least 1"},
		{limit.SlidingLog{Limit: 1001, Window: s}, "Limit must be at most 1000: every admission is stored"},
		{limit.SlidingLog{Limit: 1}, "Window must be at least 1ms"},
		{limit.Pacer{}, "Burst must be at least 1"},
		{limit.Pacer{Burst: 1, Per: s, MaxWait: s}, "Refill must be at least 1"},
		{limit.Pacer{Burst: 1, Refill: 1, MaxWait: s}, "Per must be at least 1ms"},
		{limit.Pacer{Burst: 1, Refill: 1, Per: s}, "MaxWait must be at least 1µs"},
		{limit.Pacer{Burst: 1, Refill: 1, Per: s, MaxWait: -s}, "MaxWait must be at least 1µs"},
		{limit.Pacer{Burst: 1, Refill: 999_983, Per: s, MaxWait: 365 * 24 * time.Hour}, "MaxWait must be at most"},
		{limit.All(), "All without a policy"},
		{limit.All(nil), "the policy is nil"},
		{limit.All(limit.FixedWindow{Limit: 1, Window: s}, limit.FixedWindow{}), "Limit must be at least 1: how much is admitted in a window (in All)"},
		{limit.All(eight(), limit.FixedWindow{Limit: 1, Window: s}), "All of 9 policies: at most 8"},
		{limit.All(compile(t, eight()), limit.FixedWindow{Limit: 1, Window: s}), "All of 9 policies: at most 8"},
		{limit.Named("x", limit.All()), `in the policy named "x"`},
	} {
		_, err := limit.Compile(c.policy)
		if err == nil || !strings.HasPrefix(err.Error(), "limit: ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: error %v, want one that says %q", c.policy, err, c.says)
		}
	}
}

func eight() limit.Policy {
	one := limit.FixedWindow{Limit: 1, Window: time.Second}
	return limit.All(one, one, limit.All(one, one, limit.All(one, one)), one, one)
}

// Policies can be compared, and so be keys of a map.
func TestPoliciesCompare(t *testing.T) {
	seen := map[limit.Policy]bool{eight(): true, limit.Named("x", eight()): true, limit.SlidingLog{Limit: 1, Window: 1}: true}
	if !seen[eight()] || !seen[limit.Named("x", eight())] || seen[limit.SlidingLog{Limit: 2, Window: 1}] {
		t.Error(seen)
	}
}

// An All within an All is the same as one; of one policy it is that policy.
func TestAllIsFlat(t *testing.T) {
	a, b := limit.FixedWindow{Limit: 1, Window: time.Second}, limit.SlidingLog{Limit: 2, Window: time.Second}
	if limit.All(a, limit.All(b, limit.All(a))) != limit.All(a, b, a) {
		t.Error("not flat")
	}
	if compile(t, limit.All(a)).Shape() != compile(t, a).Shape() {
		t.Error("All of one policy is another")
	}
	parts := compile(t, limit.All(a, limit.Named("in", limit.All(b, a)))).Compiled().Parts
	if len(parts) != 3 || parts[1].Name != "in/sliding_log(2/1s)" {
		t.Error(parts)
	}
}

// At the largest numbers, no intermediate of a window exceeds 2⁵³.
func TestNoWindowLeavesTheExactRange(t *testing.T) {
	const most, now = int64(1) << 51, int64(1)<<52 - 1
	for _, p := range []limit.Policy{
		limit.FixedWindow{Limit: most, Window: time.Millisecond}, limit.FixedWindow{Limit: most, Window: time.Duration(most) * time.Microsecond},
		limit.SlidingWindow{Limit: most / 1000, Window: time.Millisecond}, limit.SlidingWindow{Limit: 1, Window: time.Duration(most) * time.Microsecond},
		limit.SlidingWindow{Limit: most / 1000, Window: 1440 * time.Millisecond, Buckets: 1440}, limit.SlidingWindow{Limit: 26062, Window: 24 * time.Hour},
		limit.SlidingLog{Limit: 1000, Window: time.Duration(most) * time.Microsecond},
		limit.Pacer{Burst: 1, Refill: 1, Per: time.Second, MaxWait: 2251799812 * time.Microsecond},
	} {
		plan := compile(t, p)
		var d limit.Decision
		state, _ := plan.Take(&d, nil, now, plan.Compiled().Ceiling)
		if !d.Allowed {
			t.Errorf("%v: the ceiling does not fit: %+v", p, d)
		}
		for _, back := range []int64{0, 1, 60_000_000, 60_000_001, now} {
			for _, cost := range []int64{1, plan.Compiled().Ceiling, math.MaxInt64} {
				s, _ := plan.Take(&d, append([]int64(nil), state...), now-back, cost)
				for _, n := range append(s, d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds(), d.Remaining) {
					if n < 0 || n >= 1<<53 {
						t.Errorf("%v, clock back by %d: state %v, %+v", p, back, s, d)
					}
				}
			}
		}
	}
}
