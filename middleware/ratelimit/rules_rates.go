package ratelimit

// maxRates bounds how many different limits one set of rules may amount to. Each of
// them is made ready when the rules are put in force, so that frames find theirs by
// looking it up, and nothing that clients do makes another one.
const maxRates = 1 << 14

// reach returns every rate that resolve can answer with under these rules.
//
// It goes through the order of the rules from the default up. On each step, a rule
// that gives rate and burst adds one; a rule that gives one of the two meets all
// there are of the other.
func (b *book) reach() (map[Rate]struct{}, error) {
	found := spread{b.otherwise.pair(): {}}
	var tenants, tenantTypes, types, overrides []Rate
	for _, t := range b.tenants {
		tenants = append(tenants, t.pair())
		for _, rule := range t.types {
			tenantTypes = append(tenantTypes, rule.pair())
		}
	}
	for _, rule := range b.types {
		types = append(types, rule.pair())
	}
	for _, o := range b.rules.Overrides {
		overrides = append(overrides, o.pair())
	}
	for _, step := range [][]Rate{tenants, types, tenantTypes, overrides} {
		if !found.step(step) {
			return nil, path("").wrong("amounts to more than %d different limits; let tenants and types share rates and bursts", maxRates)
		}
	}
	capped := make(map[Rate]struct{}, len(found))
	for rate := range found {
		if rate = rate.within(b.rules.Maximum); rate.PerMinute > 0 && rate.Burst > 0 {
			capped[rate] = struct{}{}
		}
	}
	return capped, nil
}

// pair is the rate of a rule, with 0 for what it does not give.
func (r Rule) pair() Rate { return Rate{PerMinute: r.PerMinute, Burst: r.Burst} }

// spread is a set of rates.
type spread map[Rate]struct{}

// step adds what rules of one kind make of the rates below them, and reports
// whether that is within bounds.
func (s spread) step(rules []Rate) bool {
	perMinutes, bursts := map[int64]struct{}{}, map[int64]struct{}{}
	for rate := range s {
		perMinutes[rate.PerMinute] = struct{}{}
		bursts[rate.Burst] = struct{}{}
	}
	done := map[Rate]struct{}{{}: {}} // a rule without either changes nothing
	for _, rule := range rules {
		if _, again := done[rule]; again {
			continue
		}
		done[rule] = struct{}{}
		switch {
		case rule.PerMinute != 0 && rule.Burst != 0:
			s[rule] = struct{}{}
		case rule.PerMinute != 0:
			for burst := range bursts {
				s[Rate{rule.PerMinute, burst}] = struct{}{}
			}
		default:
			for perMinute := range perMinutes {
				s[Rate{perMinute, rule.Burst}] = struct{}{}
			}
		}
		if len(s) > maxRates {
			return false
		}
	}
	return true
}
