package limit_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/limit"
)

func compile(t testing.TB, p limit.Policy) *limit.Plan {
	t.Helper()
	plan, err := limit.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// The numbers of this table can be checked by hand: 7 per 3 s is p = 3,000,000
// and q = 7, so a token is worth 428,571 3/7 µs.
func TestTokenBucket(t *testing.T) {
	const us = time.Microsecond
	plan := compile(t, limit.TokenBucket{Capacity: 2, Refill: 7, Per: 3 * time.Second})
	var state []int64
	for i, step := range []struct {
		now, cost int64
		want      limit.Decision
		write     bool
		state     [2]int64
	}{
		{0, 1, limit.Decision{Allowed: true, Limit: 2, Remaining: 1, ResetAfter: 428572 * us}, true, [2]int64{428571, 3}},
		{0, 1, limit.Decision{Allowed: true, Limit: 2, Remaining: 0, ResetAfter: 857143 * us}, true, [2]int64{857142, 6}},
		{0, 1, limit.Decision{Limit: 2, RetryAfter: 428572 * us, ResetAfter: 857143 * us}, false, [2]int64{857142, 6}},
		{428571, 1, limit.Decision{Limit: 2, RetryAfter: 1 * us, ResetAfter: 428572 * us}, false, [2]int64{857142, 6}},
		{428572, 1, limit.Decision{Allowed: true, Limit: 2, Remaining: 0, ResetAfter: 857142*us + us}, true, [2]int64{1285714, 2}},
		{428572, 3, limit.Decision{Limit: 2, Impossible: true, ResetAfter: 857143 * us}, false, [2]int64{1285714, 2}},
		{1285714, 1, limit.Decision{Allowed: true, Limit: 2, Remaining: 0, ResetAfter: 428572 * us}, true, [2]int64{1714285, 5}},
		{9999999, 2, limit.Decision{Allowed: true, Limit: 2, Remaining: 0, ResetAfter: 857143 * us}, true, [2]int64{10857141, 6}},
	} {
		step.want.Policy, step.want.At = "token_bucket(2,7/3s)", step.now
		if step.want.Allowed {
			step.want.Charged = step.cost
		}
		var d limit.Decision
		var write bool
		state, write = plan.Take(&d, state, step.now, step.cost)
		if d != step.want || write != step.write || [2]int64(state) != step.state {
			t.Fatalf("step %d: at %d µs, cost %d\ngot  %+v, write %v, state %v\nwant %+v, write %v, state %v",
				i, step.now, step.cost, d, write, state, step.want, step.write, step.state)
		}
	}
}

// What makes no sense, and what would leave the exact range, is
// refused with the field and the remedy.
func TestInvalidPolicies(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		policy limit.Policy
		says   string
	}{
		{nil, "the policy is nil"},
		{limit.TokenBucket{}, "Capacity must be at least 1"},
		{limit.TokenBucket{Capacity: -1, Refill: 1, Per: s}, "Capacity must be at least 1"},
		{limit.TokenBucket{Capacity: 1, Per: s}, "Refill must be at least 1"},
		{limit.TokenBucket{Capacity: 1, Refill: -1, Per: s}, "Refill must be at least 1"},
		{limit.TokenBucket{Capacity: 1, Refill: 1}, "Per must be at least 1ms"},
		{limit.TokenBucket{Capacity: 1, Refill: 1, Per: -s}, "Per must be at least 1ms"},
		{limit.TokenBucket{Capacity: 1, Refill: 1, Per: s + 1}, "Per must be a whole number of microseconds"},
		{limit.TokenBucket{Capacity: 1, Refill: math.MaxInt64, Per: s}, "lowest terms"},
		{limit.TokenBucket{Capacity: math.MaxInt64, Refill: 1, Per: s}, "Capacity must be at most 2251799813"},
		{limit.TokenBucket{Capacity: 1, Refill: 1, Per: math.MaxInt64 / 1000 * 1000}, "Per must be at most"},
		{limit.Named("", limit.TokenBucket{Capacity: 1, Refill: 1, Per: s}), "empty name"},
		{limit.Named("chat", limit.TokenBucket{}), `in the policy named "chat"`},
		{limit.Named("chat", nil), "the policy is nil"},
		{(*limit.Plan)(nil), "the plan is nil"},
	} {
		_, err := limit.Compile(c.policy)
		if err == nil || !strings.HasPrefix(err.Error(), "limit: ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%#v: error %v, want one that says %q", c.policy, err, c.says)
		}
	}
}

// The bounds that the messages name are the bounds.
func TestBoundsAreTight(t *testing.T) {
	const capacity, refill = 2251799813, 37529995 // 2⁵¹ div 10⁶, 2⁵¹ div (H + 2)
	for _, b := range []limit.TokenBucket{
		{Capacity: capacity, Refill: 1, Per: time.Second},
		{Capacity: 1, Refill: refill, Per: 1000003 * time.Microsecond},
	} {
		if _, err := limit.Compile(b); err != nil {
			t.Error(err)
		}
	}
	for _, b := range []limit.TokenBucket{
		{Capacity: capacity + 1, Refill: 1, Per: time.Second},
		{Capacity: 1, Refill: refill + 1, Per: 1000003 * time.Microsecond},
	} {
		_, err := limit.Compile(b)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint("at most ", int64(capacity))) && !strings.Contains(err.Error(), fmt.Sprint("at most ", refill)) {
			t.Errorf("%v: %v", b, err)
		}
	}
}

// Over the whole valid range, no intermediate exceeds 2⁵³. The
// largest are bounded here as the documentation of the algorithm derives them.
func TestNothingLeavesTheExactRange(t *testing.T) {
	for _, b := range []limit.TokenBucket{
		{Capacity: 2251799813, Refill: 1, Per: time.Second},
		{Capacity: 1 << 51, Refill: 1024, Per: 1024 * time.Microsecond},
		{Capacity: 1, Refill: 37_529_995, Per: 1000003 * time.Microsecond},
		{Capacity: 2251793058, Refill: 37_529_995, Per: 1000003 * time.Microsecond},
	} {
		plan := compile(t, b)
		const now = 1<<52 - 1
		var d limit.Decision
		state, _ := plan.Take(&d, nil, now, b.Capacity)
		for _, back := range []int64{0, 1, 60_000_000, 60_000_001, now} {
			s, _ := plan.Take(&d, append([]int64(nil), state...), now-back, b.Capacity)
			for _, n := range []int64{s[0], s[1], d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds(), d.Remaining} {
				if n < 0 || n >= 1<<53 {
					t.Errorf("%v, clock back by %d: state %v, %+v", b, back, s, d)
				}
			}
		}
	}
}

func TestDecidingAllocatesNothing(t *testing.T) {
	plan := compile(t, limit.TokenBucket{Capacity: 10, Refill: 7, Per: 3 * time.Second})
	state := make([]int64, 2)
	var d limit.Decision
	now := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		plan.Take(&d, state, now, 1)
		now += 1000
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
