package engine

import (
	"fmt"
	"time"

	"github.com/wskit/wskit/internal/table"
)

// The token bucket is implemented as the generic cell rate algorithm (ITU-T
// I.371). The state is not a number of tokens, but the instant at which the bucket
// will be full again. So there is no refill and no rounding, and an absent state is
// a full bucket.
//
// Refill R per P microseconds, g = gcd(R, P), p = P/g, q = R/g. Counted in
// units of 1/q µs, one token is worth p and q units pass per microsecond, so
// every rational rate is exact. A full bucket is Capacity·p units. State:
//
//	state[0] = t, state[1] = f    full again at t + f/q µs, 0 ≤ f < q
type bucket struct {
	p, q    int64 // one token is worth p units; q units pass per microsecond
	full    int64 // Capacity·p
	queue   int64 // of a Pacer: the part of full that is queue, not burst
	horizon int64 // τ + correctAfter: a state further ahead was written before the clock was set back
	limit   int64 // Capacity
}

// TokenBucket makes the plan of a limit.TokenBucket.
func TokenBucket(policy fmt.Stringer, capacity, refill int64, per time.Duration) (*Plan, error) {
	if capacity < 1 {
		return nil, invalid(policy, "Capacity", "at least 1: the largest burst")
	}
	b, err := newBucket(policy, "Capacity", capacity, refill, per)
	if err != nil {
		return nil, err
	}
	return newBucketPlan(policy, b), nil
}

// Pacer makes the plan of a limit.Pacer. It is a token bucket with the same state. Its
// capacity is the burst plus the tokens that flow in during the longest wait:
// full = burst·p + maxWait·q. The wait is the time until only the burst is owed.
func Pacer(policy fmt.Stringer, burst, refill int64, per, maxWait time.Duration) (*Plan, error) {
	if burst < 1 {
		return nil, invalid(policy, "Burst", "at least 1: what goes through at once")
	}
	b, err := newBucket(policy, "Burst", burst, refill, per)
	if err != nil {
		return nil, err
	}
	if maxWait < time.Microsecond || maxWait%time.Microsecond != 0 {
		return nil, invalid(policy, "MaxWait", "at least 1µs and a whole number of microseconds; to deny instead of waiting use TokenBucket")
	}
	wait := maxWait.Microseconds()
	if most := (maxTerm - b.full) / b.q; wait > most {
		return nil, invalid(policy, "MaxWait", fmt.Sprintf("at most %v to stay exact with this Burst and rate", micros(most)))
	}
	b.queue = wait * b.q
	b.full += b.queue
	b.limit = b.full / b.p
	b.horizon = ceilDiv(b.full, b.q) + correctAfter
	return newBucketPlan(policy, b), nil
}

// newBucket checks and prepares a bucket of n tokens. field is the name of n in the
// policy, for error texts.
func newBucket(policy fmt.Stringer, field string, n, refill int64, each time.Duration) (c bucket, err error) {
	if refill < 1 {
		return c, invalid(policy, "Refill", "at least 1: the tokens that flow in every Per")
	}
	if err := checkSpan(policy, "Per", each); err != nil {
		return c, err
	}
	per := each.Microseconds()
	g := gcd(refill, per)
	c = bucket{p: per / g, q: refill / g, limit: n}

	// The largest intermediate value is (τ+H)·q + q + n·p: the most that can be owed
	// without a correction, plus a cost of n.
	if c.q > maxTerm/(correctAfter+2) {
		return c, invalid(policy, "Refill", fmt.Sprintf(
			"such that the rate stays exact: in lowest terms it is %d per %v, and the number may be at most %d; round it to a multiple of 1,000 or more",
			c.q, micros(c.p), maxTerm/(correctAfter+2)))
	}
	if most := maxTerm / c.p; n > most {
		if most == 0 {
			return c, invalid(policy, "Per", fmt.Sprintf("at most %v", micros(maxTerm)))
		}
		return c, invalid(policy, field, fmt.Sprintf(
			"at most %d to stay exact at a rate of %d per %v in lowest terms; refill faster, choose a Refill that shares more factors with Per in microseconds, or count in larger units",
			most, c.q, micros(c.p)))
	}
	c.full = n * c.p
	c.horizon = ceilDiv(c.full, c.q) + correctAfter
	return c, nil
}

func newBucketPlan(policy fmt.Stringer, b bucket) *Plan {
	plan := newPlan(policy, kindBucket, "b", 2, b.limit)
	plan.bucket, plan.late, plan.paced = b, true, b.queue > 0
	if b.q <= table.MaxFraction+1 {
		plan.swaps = swapAttempts
	}
	return plan
}

// owed returns how many units are missing from a full bucket at now, and
// whether the state had to be corrected. It compares before it multiplies, so that
// no product exceeds the exact range.
func (b *bucket) owed(t, f, now int64) (units int64, corrected bool) {
	if f >= b.q {
		f = b.q - 1 // written under another rate: keep it under the next microsecond
	}
	switch {
	case now > t || now == t && f == 0:
		return 0, false
	case t-now > b.horizon:
		return b.full, true
	default:
		return (t-now)*b.q + f, false
	}
}

// look computes what is owed at now.
func (b *bucket) look(v *view, state []int64, now int64) {
	v.used, v.corrected = b.owed(state[0], state[1], now)
}

func (b *bucket) fits(v *view, cost int64) bool {
	return cost <= b.limit && cost*b.p <= b.full-v.used
}

// admit looks and charges. It returns what is owed afterwards.
func (b *bucket) admit(t, f, now, cost int64) (used int64, fits, corrected bool) {
	used, corrected = b.owed(t, f, now)
	if cost > b.limit || cost*b.p > b.full-used {
		return used, false, corrected
	}
	return used + cost*b.p, true, corrected
}

// due returns the state of a bucket that owes used, and the instant from which on
// that state means the same as no state.
func (b *bucket) due(used, now int64) (t, f, until int64) {
	t = used
	if b.q > 1 {
		t, f = used/b.q, used%b.q
	}
	t += now
	if until = t; f > 0 {
		until++
	}
	return t, f, until
}

// write charges cost and sets v.until. A cost of 0 writes a corrected state.
func (b *bucket) write(v *view, state []int64, now, cost int64) {
	v.used += cost * b.p
	state[0], state[1], v.until = b.due(v.used, now)
}

// answer fills d, after a charge or for a cost that was not charged.
func (b *bucket) answer(d *Answer, v *view, now, cost int64, charged bool) {
	d.Limit = b.limit
	if !v.fits {
		if cost > b.limit {
			d.Impossible = true
		} else {
			d.RetryAfter = micros(ceilDiv(v.used+cost*b.p-b.full, b.q))
		}
	}
	if v.used < b.full {
		d.Remaining = floorDiv(b.full-v.used, b.p)
	}
	d.ResetAfter = micros(b.resetAfter(v, now, charged || v.corrected))
	if b.queue > 0 && v.fits {
		ahead := v.used - (b.full - b.queue)
		if !charged {
			ahead += cost * b.p
		}
		if ahead > 0 {
			d.Wait = micros(ceilDiv(ahead, b.q))
		}
	}
}

func (b *bucket) resetAfter(v *view, now int64, written bool) int64 {
	if written {
		return v.until - now
	}
	return ceilDiv(v.used, b.q)
}

// refund gives back a charge made at the instant at, less what has flowed in since. Without
// the charge the bucket might have been full for a part of that time, and would then owe
// as much as this one does (see docs/decisions/refunds.md).
func (b *bucket) refund(v *view, state []int64, now, cost, at int64) (write bool) {
	back := b.back(v.used, now, cost, at)
	if back == 0 {
		return false
	}
	v.used -= back
	b.write(v, state, now, 0)
	return true
}

// back is how many of the units owed the refund of a charge gives back.
func (b *bucket) back(used, now, cost, at int64) int64 {
	back, since := min(cost, b.limit)*b.p, max(0, now-at)
	if since > back/b.q { // compare before multiplying
		return 0
	}
	return min(back-since*b.q, used)
}
