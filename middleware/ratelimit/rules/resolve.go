package rules

import "github.com/wskit/wskit/limit"

// ruleAt is a rule and its place.
type ruleAt struct {
	Rule
	speed
	path    string
	limitAt string // the place of the rate, the limits or the exemption
	mark    string // identifies the rule in a key; empty for the default
	tier    bool   // the rule is one of a tier
	level   int    // the index in a chain
	wider   *ruleAt
	inner   int64                   // the largest burst of the rules of which this is a wider one
	policy  limit.Policy            // the Limits, and the maximum
	limiter *limit.Limiter          // of the policy, in a book that is in force
	places  *limit.ConcurrencyLimit // with the Concurrent as its maximum, likewise
}

// limits reports whether the rule says how frames are limited.
func (at *ruleAt) limits() bool { return at.tokens != 0 || at.Limits != nil || at.Exempt }

// chain has the rules for a frame in the order in which they apply, nil where there is none.
// After each, its wider rules apply. The last one is the default.
type chain [7]*ruleAt

// The indices in a chain.
const (
	levelOverride = iota
	levelTenantType
	levelTierType
	levelType
	levelTenant
	levelTier
	levelDefault
)

// resolved is the result of a chain: the values, and the rules that they are from. If the rate
// is Unlimited, there is no burst. A cost of 0 means that no rule has one.
type resolved struct {
	bucket
	cost                     int64
	silent                   bool
	limitBy, burstBy, costBy *ruleAt
	concurrentBy             *ruleAt // nil: any number may be handled at a time
}

// resolve takes each value from the first rule that has it, and caps the rate. It is used for
// frames and for [Effective].
func (ch *chain) resolve(maximum bucket) (r resolved) {
	for _, rule := range ch {
		for ; rule != nil; rule = rule.wider {
			if r.limitBy == nil && rule.limits() {
				r.speed, r.limitBy = rule.speed, rule
			}
			if r.burstBy == nil && rule.Burst != 0 {
				r.burst, r.burstBy = rule.Burst, rule
			}
			if r.costBy == nil && rule.Cost != 0 {
				r.cost, r.costBy = rule.Cost, rule
			}
			if r.concurrentBy == nil && rule.Concurrent != 0 {
				r.concurrentBy = rule
			}
			r.silent = r.silent || rule.Silent
		}
	}
	if r.limitBy != nil && r.limitBy.Exempt {
		r.concurrentBy = nil
	}
	switch {
	case r.tokens == 0:
		if r.limitBy != nil { // limits, or an exemption
			r.burst, r.burstBy = 0, nil
		}
		return r
	case r.tokens == Unlimited:
		r.burst, r.burstBy = 0, nil
	}
	r.bucket = r.bucket.within(maximum)
	return r
}

// exempt reports whether the frame passes without a charge.
func (r *resolved) exempt() bool { return r.limitBy.Exempt || r.tokens == Unlimited }

// marked appends to a key the rules that the limit is from, so that all frames of a key have the
// same one. With two in turn, a bucket would enforce neither (see limit.Limiter.With).
func (r *resolved) marked(key limit.Key, all bool) limit.Key {
	key = r.limitBy.marked(key, all)
	if by := r.burstBy; by != nil && by != r.limitBy {
		key = by.marked(key, all)
	}
	return key
}

// marked appends the rule to a key. Unless all is set, only rules of tiers are marked: the rest of a
// key says which others apply.
func (at *ruleAt) marked(key limit.Key, all bool) limit.Key {
	if at.mark != "" && (all || at.tier) {
		return key.Part(at.mark)
	}
	return key
}
