package ratelimit

import "github.com/wskit/wskit/limit"

// ruleAt is a rule and its place.
type ruleAt struct {
	Rule
	path string
	mark string // identifies the rule in a key; empty for the default
}

// chain has the rules for a frame in the order in which they apply, nil where there is none. The
// last one is the default.
type chain [5]*ruleAt

// resolved is the result of a chain: the values, and the rules that they are from. If PerMinute
// is Unlimited, there is no burst. A cost of 0 means that no rule has one.
type resolved struct {
	Rate
	cost                         int64
	perMinuteBy, burstBy, costBy *ruleAt
}

// resolve takes each value from the first rule that has it, and caps the rate. It is used for
// frames and for [Effective].
func (ch *chain) resolve(maximum Rate) (r resolved) {
	for _, rule := range ch {
		if rule == nil {
			continue
		}
		if r.perMinuteBy == nil && rule.PerMinute != 0 {
			r.PerMinute, r.perMinuteBy = rule.PerMinute, rule
		}
		if r.burstBy == nil && rule.Burst != 0 {
			r.Burst, r.burstBy = rule.Burst, rule
		}
		if r.costBy == nil && rule.Cost != 0 {
			r.cost, r.costBy = rule.Cost, rule
		}
	}
	if r.PerMinute == Unlimited {
		r.Burst, r.burstBy = 0, nil
	}
	r.Rate = r.Rate.within(maximum)
	return r
}

// within caps the rate by the maximum; the zero Rate means no maximum.
func (r Rate) within(maximum Rate) Rate {
	switch {
	case maximum == Rate{}:
		return r
	case r.PerMinute == Unlimited:
		return maximum
	}
	return Rate{PerMinute: min(r.PerMinute, maximum.PerMinute), Burst: min(r.Burst, maximum.Burst)}
}

// mark appends to a key the rules that the rate is from, so that all frames of a key have the
// same rate. With two rates in turn, a bucket would enforce neither (see limit.Limiter.With).
func (r *resolved) mark(key limit.Key) limit.Key {
	if r.perMinuteBy.mark != "" {
		key = key.Part(r.perMinuteBy.mark)
	}
	if r.burstBy != nil && r.burstBy != r.perMinuteBy && r.burstBy.mark != "" {
		key = key.Part(r.burstBy.mark)
	}
	return key
}
