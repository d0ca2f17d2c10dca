package limittest_test

import (
	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/limit"
)

// A wrongRule returns how many units of a charge a bucket gives back. A token is worth p
// units, and q units flow in per microsecond.
type wrongRule func(charge, q, full, now int64, taken *limit.Decision, composite bool) (back int64)

// refundsBy refunds with a wrong rule in the token buckets of a plan, and with the right
// rule in its other parts.
func refundsBy(rule wrongRule) func(*limit.Plan, []int64, int64, int64, *limit.Decision) ([]int64, bool) {
	return func(plan *limit.Plan, state []int64, now, reset int64, taken *limit.Decision) (next []int64, write bool) {
		parts := plan.Compiled().Parts
		if taken.Charged < 1 || taken.At <= reset || plan.Width() == 0 || len(state) == 0 {
			state, _, write = plan.Refund(state, now, reset, taken)
			return state, write
		}
		for _, part := range parts {
			own := state[:part.Width]
			state = state[part.Width:]
			if n := part.Numbers(nil, 0); n[0] == engine.KindBucket {
				p, q, full := n[1], n[2], n[3]
				owed := max(0, (own[0]-now)*q+own[1])
				owed -= max(0, min(owed, rule(taken.Charged*p, q, full, now, taken, len(parts) > 1)))
				own = []int64{now + owed/q, owed % q}
			} else {
				own, _, _ = part.Refund(own, now, reset, (*engine.Answer)(taken))
			}
			next = append(next, own...)
		}
		return next, true
	}
}

func lessWhatFlowedIn(charge, q, now int64, taken *limit.Decision) int64 {
	return charge - (now-taken.At)*q
}

// byTheLine assumes that time pays the oldest charge first: a charge is owed in full until
// all earlier charges are paid.
func byTheLine(charge, q, full, now int64, taken *limit.Decision, _ bool) int64 {
	until := taken.At + min(taken.ResetAfter.Microseconds(), (full+q-1)/q)
	return min(charge, (until-now)*q)
}

// byTheLineOfAll is byTheLine for composites, where ResetAfter may belong to another part.
func byTheLineOfAll(charge, q, full, now int64, taken *limit.Decision, composite bool) int64 {
	if composite {
		return byTheLine(charge, q, full, now, taken, true)
	}
	return lessWhatFlowedIn(charge, q, now, taken)
}

// roundedUp gives back whole microseconds.
func roundedUp(charge, q, _, now int64, taken *limit.Decision, _ bool) int64 {
	return (lessWhatFlowedIn(charge, q, now, taken) + q - 1) / q * q
}
