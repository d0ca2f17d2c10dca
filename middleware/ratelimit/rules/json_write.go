package rules

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/limit"
)

// MarshalJSON writes the rules as the document that [Parse] reads, so that rules in force can be stored, compared
// and changed. The error is a [*Error] for rules that a document cannot say: a time that is not of whole
// milliseconds, or has no unit in which it is a whole number up to 9999, and a bucket with a rate that no member has.
func (r Rules) MarshalJSON() ([]byte, error) {
	d, err := newRulesDoc(r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(d, json.Deterministic(true), json.OmitZeroStructFields(true))
}

func newRulesDoc(r Rules) (d rulesDoc, err error) {
	d.Disabled = r.Disabled
	if r.Maximum != (Rate{}) {
		m, err := newRuleDoc(atMaximum, *r.Maximum.rule())
		if err != nil {
			return d, err
		}
		d.Maximum = &rateDoc{
			PerMinute: m.PerMinute, PerHour: m.PerHour, PerDay: m.PerDay, Every: m.Every, Burst: m.Burst,
		}
	}
	if d.Default, err = newRuleDoc(atDefault, r.Default); err != nil {
		return d, err
	}
	if d.Types, err = newRuleDocs(atTypes, r.Types); err != nil {
		return d, err
	}
	if d.Tenants, err = newClassDocs(atTenants, r.Tenants); err != nil {
		return d, err
	}
	if d.Tiers, err = newClassDocs(atTiers, r.Tiers); err != nil {
		return d, err
	}
	for i, o := range r.Overrides {
		rule, err := newRuleDoc(atOverrides.index(i), o.Rule)
		if err != nil {
			return d, err
		}
		d.Overrides = append(d.Overrides, overrideDoc{newSubjectDoc(o.Subject), rule})
	}
	d.Allow, d.Deny = newSubjectDocs(r.Allow), newSubjectDocs(r.Deny)
	return d, nil
}

func newRuleDoc(at path, r Rule) (d ruleDoc, err error) {
	d = ruleDoc{
		PerHour: whole(r.PerHour), PerDay: whole(r.PerDay), Every: span(r.Every), Burst: whole(r.Burst),
		Cost: whole(r.Cost), Concurrent: whole(r.Concurrent),
		Exempt: yes(r.Exempt), Silent: yes(r.Silent), Shadow: yes(r.Shadow),
	}
	if r.PerMinute == Unlimited {
		d.Unlimited = true
	} else {
		d.PerMinute = whole(r.PerMinute)
	}
	if err := d.Every.check(at.name("every")); err != nil || r.Limits == nil {
		return d, err
	}
	at = at.name("limits")
	plan, err := limit.Compile(r.Limits)
	if err != nil {
		return d, at.wrong("cannot be enforced: %v", err)
	}
	for i, p := range plan.Compiled().Parts {
		l, err := newLimitDoc(at.index(i), p.Policy)
		if err != nil {
			return d, err
		}
		if p.Name != p.Policy.String() {
			l.Name = name(p.Name)
		}
		d.Limits = append(d.Limits, l)
	}
	return d, nil
}

// newLimitDoc is a policy of package limit that is not of several.
func newLimitDoc(at path, policy fmt.Stringer) (d limitDoc, err error) {
	switch p := policy.(type) {
	case limit.TokenBucket:
		d = limitDoc{Kind: "bucket", Burst: whole(p.Capacity)}
		err = d.setRate(at, p.Refill, p.Per)
	case limit.Pacer:
		d = limitDoc{Kind: "pacer", Burst: whole(p.Burst), MaxWait: span(p.MaxWait)}
		err = d.setRate(at, p.Refill, p.Per)
	case limit.FixedWindow:
		d = limitDoc{Kind: "fixedWindow", Limit: whole(p.Limit), Window: span(p.Window)}
	case limit.SlidingWindow:
		d = limitDoc{Kind: "slidingWindow", Limit: whole(p.Limit), Window: span(p.Window), Buckets: whole(p.Buckets)}
	case limit.SlidingLog:
		d = limitDoc{Kind: "log", Limit: whole(p.Limit), Window: span(p.Window)}
	case limit.Calendar:
		d = limitDoc{Kind: "calendar", Limit: whole(p.Limit)}
		for text, period := range periods {
			if period == p.Period {
				d.Period = text
			}
		}
		if p.Location != nil && p.Location != time.UTC {
			d.Location = name(p.Location.String())
		}
	default:
		err = at.wrong("is %v, which a document cannot say; leave it in the program", policy)
	}
	for member, s := range map[string]span{"window": d.Window, "maxWait": d.MaxWait} {
		if err == nil {
			err = s.check(at.name(member))
		}
	}
	return d, err
}

// setRate sets the member that says a rate.
func (d *limitDoc) setRate(at path, tokens int64, per time.Duration) error {
	if tokens <= maxValue {
		switch per {
		case time.Second:
			d.PerSecond = whole(tokens)
			return nil
		case time.Minute:
			d.PerMinute = whole(tokens)
			return nil
		case time.Hour:
			d.PerHour = whole(tokens)
			return nil
		case day:
			d.PerDay = whole(tokens)
			return nil
		}
	}
	if tokens != 1 {
		return at.wrong("has %d per %v, which a document cannot say; choose a rate per s, m, h or d, or leave it in the program",
			tokens, per)
	}
	d.Every = span(per)
	return d.Every.check(at.name("every"))
}

func newRuleDocs(at path, rules map[string]Rule) (map[string]ruleDoc, error) {
	if rules == nil {
		return nil, nil
	}
	docs := make(map[string]ruleDoc, len(rules))
	for n, rule := range rules {
		d, err := newRuleDoc(at.name(n), rule)
		if err != nil {
			return nil, err
		}
		docs[n] = d
	}
	return docs, nil
}

func newClassDocs[C Tenant | Tier](at path, classes map[string]C) (map[string]tenantDoc, error) {
	if classes == nil {
		return nil, nil
	}
	docs := make(map[string]tenantDoc, len(classes))
	for n, c := range classes {
		t, at := Tenant(c), at.name(n)
		rule, err := newRuleDoc(at, t.Rule)
		if err != nil {
			return nil, err
		}
		types, err := newRuleDocs(at.name("types"), t.Types)
		if err != nil {
			return nil, err
		}
		docs[n] = tenantDoc{rule, types}
	}
	return docs, nil
}

func newSubjectDoc(s Subject) subjectDoc { return subjectDoc{s.Tenant, name(s.User), network(s.IP)} }

func newSubjectDocs(subjects []Subject) (docs []subjectDoc) {
	for _, s := range subjects {
		docs = append(docs, newSubjectDoc(s))
	}
	return docs
}

// check checks that a time can be written.
func (s span) check(at path) error {
	if s != 0 && s.text() == "" {
		return at.wrong("is %v; a document has whole numbers up to 9999 of ms, s, m, h or d", time.Duration(s))
	}
	return nil
}

// text is the time in the longest of the units in which it is a whole number, or "".
func (s span) text() string {
	for _, unit := range []string{"d", "h", "m", "s", "ms"} {
		if n := time.Duration(s) / units[unit]; n > 0 && n <= 9999 && n*units[unit] == time.Duration(s) {
			return strconv.FormatInt(int64(n), 10) + unit
		}
	}
	return ""
}

// MarshalText writes what UnmarshalJSON reads.
func (s span) MarshalText() ([]byte, error) { return []byte(s.text()), nil }

// MarshalText writes what UnmarshalJSON reads.
func (n network) MarshalText() ([]byte, error) {
	p := netip.Prefix(n)
	if p.IsSingleIP() {
		return p.Addr().MarshalText()
	}
	return p.MarshalText()
}
