package limittest

import (
	"fmt"
	"math/big"

	"github.com/wskit/wskit/limit"
)

// A ledger is the oracle of refunds: the admissions of one subject that were not
// refunded, as if the refunded ones had never been made. It knows no state and
// no rule for refunds, only what the documentation of each policy promises: how much
// may be admitted in a span of time, a window, or at an instant.
type ledger struct {
	entries []*entry // as they were admitted
	parts   []*promise
}

// An entry is an admission.
type entry struct {
	taken    limit.Decision
	refunded bool
}

// A promise is that of one policy. It goes by a clock that does not go back: a clock
// that swings is ridden out at the latest instant at which something was charged or,
// in a window, given back that still counted.
type promise struct {
	policy limit.Policy
	latest int64
	at     map[*entry]int64 // when each counts
}

func newLedger(policy limit.Policy) *ledger {
	g := &ledger{}
	for _, part := range partsOf(policy) {
		g.parts = append(g.parts, &promise{policy: part, at: map[*entry]int64{}})
	}
	return g
}

// forget begins anew: after a reset, or when the clock was set back so far that
// states are healed.
func (g *ledger) forget() {
	g.entries = nil
	for _, p := range g.parts {
		p.latest = 0
		clear(p.at)
	}
}

// admit notes an admission. It returns the promise that it breaks, or "".
func (g *ledger) admit(d limit.Decision) (broken string) {
	e := &entry{taken: d}
	g.entries = append(g.entries, e)
	for _, p := range g.parts {
		p.latest = max(p.latest, d.At)
		p.at[e] = p.latest
	}
	for _, p := range g.parts {
		if broken = p.broken(g.entries); broken != "" {
			return broken
		}
	}
	return ""
}

// refund notes that an admission was refunded.
func (g *ledger) refund(e *entry, now int64) {
	e.refunded = true
	for _, p := range g.parts {
		switch p.policy.(type) {
		case limit.FixedWindow, limit.SlidingWindow:
			if at, ok := p.at[e]; ok && p.share(at, now).Sign() > 0 {
				p.latest = max(p.latest, now)
			}
		}
	}
}

// broken checks the newest admission. Those before it were checked when they came, and
// refunds since have only made them fewer.
func (p *promise) broken(entries []*entry) string {
	sum := new(big.Rat)
	size, rate := p.bucket()
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		if e.refunded {
			continue
		}
		sum = add(sum, mul(rat(e.taken.Charged), p.share(p.at[e], p.latest)))
		most := size
		if rate != nil {
			most = add(size, mul(rat(p.latest-p.at[e]), rate))
		}
		if less(most, sum) {
			return fmt.Sprintf("%v: %s are admitted since the instant %d and not refunded; at most %s may be", p.policy, sum.FloatString(3), p.at[e], most.FloatString(3))
		}
	}
	return ""
}

// bucket is how much may be admitted at once and, of a bucket, how much more as time
// goes on: in no span may it be more.
func (p *promise) bucket() (size, rate *big.Rat) {
	switch p := p.policy.(type) {
	case limit.TokenBucket:
		return rat(p.Capacity), big.NewRat(p.Refill, p.Per.Microseconds())
	case limit.Pacer:
		rate = big.NewRat(p.Refill, p.Per.Microseconds())
		return add(rat(p.Burst), mul(rate, rat(p.MaxWait.Microseconds()))), rate
	case limit.FixedWindow:
		return rat(p.Limit), nil
	case limit.SlidingWindow:
		return rat(p.Limit), nil
	case limit.SlidingLog:
		return rat(p.Limit), nil
	}
	panic("limittest: no promise of " + p.policy.String())
}

// share is the part of an admission at an instant that counts at now. Under a bucket
// every admission counts.
func (p *promise) share(at, now int64) *big.Rat {
	counts := true
	switch p := p.policy.(type) {
	case limit.FixedWindow:
		w := p.Window.Microseconds()
		counts = at/w == now/w
	case limit.SlidingWindow:
		n := int64(max(p.Buckets, 1))
		w := p.Window.Microseconds() / n
		if age := now/w - at/w; age == n {
			return big.NewRat(w-now%w, w)
		} else {
			counts = age < n
		}
	case limit.SlidingLog:
		counts = now-at < p.Window.Microseconds()
	}
	if counts {
		return rat(1)
	}
	return new(big.Rat)
}
