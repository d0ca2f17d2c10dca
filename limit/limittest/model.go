package limittest

import (
	"math/big"
	"time"

	"github.com/wskit/wskit/limit"
)

// A model implements a policy for one subject with exact rationals, in the simplest way and
// slowly. It shares no code with package limit, and solves no equations: it finds a wait by
// searching for the first instant at which the cost fits.
type model struct {
	name   string
	meters []meter
	parts  []string // their names
	reset  int64    // the instant of the last reset
}

// A meter computes how much of one limit is used at an instant.
type meter interface {
	capacity() *big.Rat
	// read returns a reading at now: what will be used at later instants without other
	// calls, and whether the clock was set back so far that the state had to be
	// corrected.
	read(now int64) reading
	// keep stores a reading, after charging cost at now. A cost of 0 stores a correction.
	keep(r reading, now, cost int64)
	// refund takes back cost that was charged at an instant.
	refund(now, cost, at int64)
	become(policy limit.Policy)
}

type reading struct {
	corrected bool
	used      func(at int64) *big.Rat
	// ahead is the instant until which the state differs from a new one although nothing
	// is used: the clock has been there already.
	ahead int64
	// wait is how long an admission must be delayed; nil means no delay.
	wait func(used *big.Rat) time.Duration
	kept any
}

// newModel returns the model of a valid policy, with nothing used.
func newModel(policy limit.Policy) *model {
	plan, err := limit.Compile(policy)
	if err != nil {
		panic("limittest: no model for an invalid policy: " + err.Error())
	}
	m := &model{name: plan.String()}
	for _, part := range plan.Compiled().Parts {
		m.meters = append(m.meters, newMeter(part.Policy.(limit.Policy)))
		m.parts = append(m.parts, part.Name)
	}
	return m
}

// partsOf returns the policies in a composite, in order, or else the policy alone, without
// names of their own.
func partsOf(policy limit.Policy) (parts []limit.Policy) {
	plan, _ := limit.Compile(policy)
	for _, part := range plan.Compiled().Parts {
		parts = append(parts, part.Policy.(limit.Policy))
	}
	return parts
}

func newMeter(policy limit.Policy) (m meter) {
	switch policy.(type) {
	case limit.TokenBucket, limit.Pacer:
		m = &bucketModel{}
	case limit.FixedWindow, limit.Calendar:
		m = &fixedModel{}
	case limit.SlidingWindow:
		m = &slidingModel{}
	case limit.SlidingLog:
		m = &logModel{}
	default:
		panic("limittest: no model for " + policy.String())
	}
	m.become(policy)
	return m
}

// Become changes the policy to another of the same kind and keeps the state.
func (m *model) Become(policy limit.Policy) {
	next := newModel(policy)
	for i, part := range next.meters {
		switch p := part.(type) {
		case *bucketModel:
			m.meters[i].become(p.policy)
		case *fixedModel:
			m.meters[i].become(p.policy)
		case *slidingModel:
			m.meters[i].become(p.policy)
		case *logModel:
			m.meters[i].become(p.policy)
		}
	}
	m.name, m.parts = next.name, next.parts
}

// Take decides at now, in microseconds since the Unix epoch, and charges the cost if it is
// allowed. The cost is at least 1.
func (m *model) Take(now, cost int64) limit.Decision { return m.decide(now, cost, true) }

// Peek decides and charges nothing.
func (m *model) Peek(now, cost int64) limit.Decision { return m.decide(now, cost, false) }

// Reset deletes what was used, and with it the charges that could be refunded.
func (m *model) Reset(now int64, policy limit.Policy) {
	next := newModel(policy)
	next.reset = m.reset
	for _, part := range m.meters {
		if part.read(now).used(now).Sign() > 0 {
			next.reset = now
		}
	}
	*m = *next
}

// Refund gives back the part of a charge that may be given back.
func (m *model) Refund(now int64, taken limit.Decision) {
	if taken.Charged < 1 {
		return
	}
	forgotten := taken.At <= m.reset && m.reset-now <= tolerance
	for _, part := range m.meters {
		if r := part.read(now); r.corrected {
			part.keep(r, now, 0)
			continue
		}
		if forgotten || taken.At-now > tolerance {
			continue
		}
		part.refund(now, taken.Charged, taken.At)
	}
}

func (m *model) decide(now, cost int64, charge bool) limit.Decision {
	readings := make([]reading, len(m.meters))
	fits := true
	for i, part := range m.meters {
		readings[i] = part.read(now)
		fits = fits && !less(part.capacity(), add(readings[i].used(now), rat(cost)))
	}
	var all limit.Decision
	var longest, wait time.Duration
	for i, part := range m.meters {
		r := readings[i]
		d := limit.Decision{Limit: floor(part.capacity()).Int64(), Policy: m.parts[i], At: now}
		after := add(r.used(now), rat(cost))
		d.Allowed = !less(part.capacity(), after)
		switch {
		case d.Allowed && r.wait != nil:
			wait = max(wait, r.wait(after))
		case d.Allowed:
		case less(part.capacity(), rat(cost)):
			d.Impossible = true
		default:
			d.RetryAfter = first(now, func(at int64) bool {
				return !less(part.capacity(), add(r.used(at), rat(cost)))
			})
		}
		switch {
		case fits && charge:
			part.keep(r, now, cost)
			d.Charged = cost
			r = part.read(now)
		case r.corrected && charge:
			part.keep(r, now, 0)
		}
		if left := sub(part.capacity(), r.used(now)); left.Sign() > 0 {
			d.Remaining = floor(left).Int64()
		}
		longest = max(longest, first(now, func(at int64) bool { return at >= r.ahead && r.used(at).Sign() == 0 }))
		if i == 0 || binding(d, all) {
			all = d
		}
	}
	all.ResetAfter = longest
	if all.Allowed {
		all.Wait = wait
	}
	return all
}

// binding reports whether d binds rather than the one named so far: an impossible one comes
// first, then the longest wait, then the least remaining.
func binding(d, named limit.Decision) bool {
	rank := func(d limit.Decision) int {
		switch {
		case d.Impossible:
			return 2
		case !d.Allowed:
			return 1
		}
		return 0
	}
	if rank(d) != rank(named) {
		return rank(d) > rank(named)
	}
	if d.Allowed {
		return d.Remaining < named.Remaining
	}
	return d.RetryAfter > named.RetryAfter
}

// first returns how long after now ok becomes true (it stays true): it doubles a span until
// ok is true, and then bisects.
func first(now int64, ok func(at int64) bool) time.Duration {
	if ok(now) {
		return 0
	}
	lo, hi := int64(0), int64(1)
	for !ok(now + hi) {
		lo, hi = hi, 2*hi
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; ok(now + mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return time.Duration(hi) * time.Microsecond
}

func rat(n int64) *big.Rat       { return new(big.Rat).SetInt64(n) }
func add(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }
func sub(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func mul(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func quo(a, b *big.Rat) *big.Rat { return new(big.Rat).Quo(a, b) }
func less(a, b *big.Rat) bool    { return a.Cmp(b) < 0 }
func least(a, b *big.Rat) *big.Rat {
	if less(a, b) {
		return a
	}
	return b
}

func floor(a *big.Rat) *big.Int {
	return new(big.Int).Div(a.Num(), a.Denom()) // Euclidean; the denominator is positive
}

func ceil(a *big.Rat) *big.Int {
	n := floor(new(big.Rat).Neg(a))
	return n.Neg(n)
}

func micros(n *big.Int) time.Duration { return time.Duration(n.Int64()) * time.Microsecond }

var tolerance = limit.ClockTolerance.Microseconds()
