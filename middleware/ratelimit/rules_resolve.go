package ratelimit

import "github.com/wskit/wskit/limit"

// ruleAt is a rule and where it stands.
type ruleAt struct {
	Rule
	path string
	mark string // tells the rule from others in a key; empty for the default
}

// chain holds the rules that speak for a frame, the strongest first; nil where
// there is none. The last one is the default.
type chain [5]*ruleAt

// resolved is what a chain says: the values in force, and who asked for which.
// PerMinute is Unlimited when nothing limits the frame, and then there is no burst.
// A cost of 0 is one that no rule says.
type resolved struct {
	Rate
	cost                         int64
	perMinuteBy, burstBy, costBy *ruleAt
}

// resolve picks each value from the first rule that has one, and caps the rate.
// It is the one place where that is decided, for frames and for [Effective].
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

// within caps the rate by the maximum, of which the zero Rate is none.
func (r Rate) within(maximum Rate) Rate {
	switch {
	case maximum == Rate{}:
		return r
	case r.PerMinute == Unlimited:
		return maximum
	}
	return Rate{PerMinute: min(r.PerMinute, maximum.PerMinute), Burst: min(r.Burst, maximum.Burst)}
}

// mark appends to a key which rules gave the rate, so that the frames of one key have
// one rate at a time, whatever the key was made of. Under two rates in turn, a bucket
// would hold neither (see limit.Limiter.With).
func (r *resolved) mark(key limit.Key) limit.Key {
	if r.perMinuteBy.mark != "" {
		key = key.Part(r.perMinuteBy.mark)
	}
	if r.burstBy != nil && r.burstBy != r.perMinuteBy && r.burstBy.mark != "" {
		key = key.Part(r.burstBy.mark)
	}
	return key
}
