package limittest

import (
	"fmt"
	"math/big"

	"github.com/wskit/wskit/limit"
)

// A ledger is the oracle of refunds: the admissions of one subject that were not
// refunded. It has no state of a limit and no rule for refunds. It uses only the documented
// bound of each policy: how much may be admitted in a span of time, a window, or at an
// instant.
type ledger struct {
	entries []*entry // in the order of admission
	parts   []*promise
	reset   int64 // the instant of the latest reset, or 0
}

// An entry is an admission.
type entry struct {
	taken    limit.Decision
	refunded bool
}

// A promise is the bound of one policy. Its clock does not go back: while the real clock is
// behind, the promise uses the latest instant of a charge or, in a window, of a refund that
// still counted.
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

// forget removes all admissions: after a reset at an instant, or, with 0, when the clock was set back so far that
// states are corrected.
func (g *ledger) forget(reset int64) {
	g.entries, g.reset = nil, reset
	for _, p := range g.parts {
		p.latest = 0
		clear(p.at)
	}
}

// admit adds an admission. It returns the promise that it breaks, or "".
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

// refund removes an admission.
func (g *ledger) refund(e *entry, now int64) {
	e.refunded = true
	if e.taken.At == g.reset { // by its instant it may be from before the reset: it may give nothing back
		return
	}
	for _, p := range g.parts {
		switch p.policy.(type) {
		case limit.FixedWindow, limit.Calendar, limit.SlidingWindow:
			if at, ok := p.at[e]; ok && p.share(at, now).Sign() > 0 {
				p.latest = max(p.latest, now)
			}
		}
	}
}

// broken checks the newest admission. The earlier ones were checked before, and refunds can
// only have removed some.
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

// bucket returns how much may be admitted at once and, for a bucket, how much more per
// microsecond. No span may admit more.
func (p *promise) bucket() (size, rate *big.Rat) {
	switch p := p.policy.(type) {
	case limit.TokenBucket:
		return rat(p.Capacity), big.NewRat(p.Refill, p.Per.Microseconds())
	case limit.Pacer:
		rate = big.NewRat(p.Refill, p.Per.Microseconds())
		return add(rat(p.Burst), mul(rate, rat(p.MaxWait.Microseconds()))), rate
	case limit.FixedWindow:
		return rat(p.Limit), nil
	case limit.Calendar:
		return rat(p.Limit), nil
	case limit.SlidingWindow:
		return rat(p.Limit), nil
	case limit.SlidingLog:
		return rat(p.Limit), nil
	}
	panic("limittest: no promise of " + p.policy.String())
}

// share is the part of an admission at an instant that counts at now. In a bucket every
// admission counts in full.
func (p *promise) share(at, now int64) *big.Rat {
	counts := true
	switch p := p.policy.(type) {
	case limit.FixedWindow, limit.Calendar:
		w := windowsOf(p)
		counts = w.number(at) == w.number(now)
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
