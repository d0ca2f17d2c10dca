package limittest

import (
	"math/big"
	"time"

	"github.com/wskit/wskit/limit"
)

// bucketModel is a token bucket or a pacer. It stores when it will be full again.
type bucketModel struct {
	policy limit.Policy
	burst  *big.Rat // what is admitted without a wait
	size   *big.Rat // burst plus what may wait
	rate   *big.Rat // tokens per microsecond
	// Full again at fullAt + rest/(numerator of the rate in lowest terms) µs since
	// the epoch; nil if it was never used. The two are separate, as in a store, so that
	// they can be read under another rate too.
	fullAt, rest *big.Int
}

func (m *bucketModel) become(policy limit.Policy) {
	m.policy = policy
	switch p := policy.(type) {
	case limit.TokenBucket:
		m.rate = big.NewRat(p.Refill, p.Per.Microseconds())
		m.burst = rat(p.Capacity)
		m.size = m.burst
	case limit.Pacer:
		m.rate = big.NewRat(p.Refill, p.Per.Microseconds())
		m.burst = rat(p.Burst)
		m.size = add(m.burst, mul(m.rate, rat(p.MaxWait.Microseconds())))
	}
}

func (m *bucketModel) capacity() *big.Rat { return m.size }

// full is the instant at which the bucket is full again, under the current rate. A rest
// that was stored under another rate stays below one microsecond.
func (m *bucketModel) full() *big.Rat {
	if m.fullAt == nil {
		return new(big.Rat)
	}
	rest, q := m.rest, m.rate.Num()
	if rest.Cmp(q) >= 0 {
		rest = new(big.Int).Sub(q, big.NewInt(1))
	}
	return add(new(big.Rat).SetInt(m.fullAt), new(big.Rat).SetFrac(rest, q))
}

func (m *bucketModel) read(now int64) (r reading) {
	full := m.full()
	span := new(big.Rat).SetInt(ceil(quo(m.size, m.rate)))
	if m.fullAt != nil {
		ahead := sub(new(big.Rat).SetInt(m.fullAt), rat(now))
		if less(add(span, rat(tolerance)), ahead) {
			r.corrected = true
			full = add(rat(now), quo(m.size, m.rate))
		}
	}
	r.used = func(at int64) *big.Rat {
		if !less(rat(at), full) {
			return new(big.Rat)
		}
		return mul(sub(full, rat(at)), m.rate)
	}
	if _, pacer := m.policy.(limit.Pacer); pacer {
		r.wait = func(used *big.Rat) time.Duration {
			if !less(m.burst, used) {
				return 0
			}
			return micros(ceil(quo(sub(used, m.burst), m.rate)))
		}
	}
	return r
}

func (m *bucketModel) keep(r reading, now, cost int64) {
	m.set(now, add(r.used(now), rat(cost)))
}

func (m *bucketModel) set(now int64, used *big.Rat) {
	full := add(rat(now), quo(used, m.rate))
	m.fullAt = floor(full)
	m.rest = floor(mul(sub(full, new(big.Rat).SetInt(m.fullAt)), new(big.Rat).SetInt(m.rate.Num())))
}

// refund does not give back what has flowed in since the charge, because without the charge
// the bucket might have been full by then.
func (m *bucketModel) refund(now, cost, at int64) {
	used := m.read(now).used(now)
	most := new(big.Rat).SetInt(floor(m.size))
	back := sub(least(rat(cost), most), mul(rat(max(0, now-at)), m.rate))
	if back.Sign() > 0 && used.Sign() > 0 {
		m.set(now, sub(used, least(used, back)))
	}
}
