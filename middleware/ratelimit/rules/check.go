package rules

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wskit/wskit/limit"
)

// Error is an error in [Rules].
type Error struct {
	// Path is the place of the error, with the names of the JSON document, such as
	// tenants.acme.perMinute, types["chat.send"].cost or deny[2].ip. It is empty for
	// the document as a whole.
	Path string
	// Problem describes the error and the remedy.
	Problem string
}

// Error returns path and problem.
func (e *Error) Error() string {
	return "rules: not valid: " + cmp.Or(e.Path, "the document") + " " + e.Problem
}

// path is a place in the rules.
type path string

const (
	atMaximum   path = "maximum"
	atDefault   path = "default"
	atTenants   path = "tenants"
	atTiers     path = "tiers"
	atTypes     path = "types"
	atOverrides path = "overrides"
	atAllow     path = "allow"
	atDeny      path = "deny"
)

// name is the place of a member. Names with other characters than letters, digits, '_' and '-'
// are quoted.
func (p path) name(name string) path {
	for i, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return p + path("["+strconv.Quote(name)+"]")
		}
	}
	switch {
	case name == "":
		return p + `[""]`
	case p == "":
		return path(name)
	}
	return p + "." + path(name)
}

func (p path) index(i int) path { return p + path("["+strconv.Itoa(i)+"]") }

func (p path) wrong(format string, args ...any) *Error {
	return &Error{Path: string(p), Problem: fmt.Sprintf(format, args...)}
}

// check returns the first error in the rules.
func (b *book) check() error {
	for _, check := range []func() *Error{
		b.checkMaximum, b.checkDefault,
		func() *Error { return b.checkTypes(atTypes, b.rules.Types, &b.types, nil) },
		b.checkTenants, b.checkTiers, b.checkOverrides, b.checkExact,
		func() *Error { return checkList(atAllow, b.rules.Allow) },
		func() *Error { return checkList(atDeny, b.rules.Deny) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) checkMaximum() *Error {
	m := b.rules.Maximum
	switch {
	case m == Rate{}:
		return nil
	case b.maximum.tokens == 0:
		return atMaximum.name("perMinute").wrong("is missing; a maximum is a rate and a burst")
	case m.Burst == 0:
		return atMaximum.name("burst").wrong("is missing; a maximum is a rate and a burst")
	}
	if m.PerMinute == Unlimited {
		return checkValue(atMaximum.name("perMinute"), m.PerMinute)
	}
	if err := checkValues(atMaximum, m.rule()); err != nil {
		return err
	}
	if _, err := limit.Compile(b.maximum.policy()); err != nil {
		return atMaximum.wrong("cannot be counted exactly: %v", err)
	}
	return nil
}

func (b *book) checkDefault() *Error {
	if !b.otherwise.limits() && !b.rules.Disabled {
		return atDefault.name("perMinute").wrong("is missing; set a rate per minute, or make the default unlimited")
	}
	return b.checkRule(b.otherwise, &chain{})
}

// checkTypes checks rules for types. The chain has the rules that apply besides.
func (b *book) checkTypes(at path, rules map[string]Rule, t *typeRules, beside func(typ string) chain) *Error {
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		group, isGroup := strings.CutSuffix(name, ".*")
		if strings.Contains(group, "*") || isGroup && group == "" {
			return at.name(name).wrong(`is no name of a type or a group; a wildcard is the end of a name after a dot, such as "report.*"`)
		}
		var ch chain
		if beside != nil {
			ch = beside(name)
		}
		rule := t.exact[name]
		if isGroup {
			rule = t.groups[group+"."]
		}
		if err := b.checkRule(rule, &ch); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) checkTenants() *Error {
	for _, name := range slices.Sorted(maps.Keys(b.rules.Tenants)) {
		if err := b.checkClass(atTenants.name(name), b.tenants[name], b.rules.Tenants[name].Types); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) checkTiers() *Error {
	for _, name := range slices.Sorted(maps.Keys(b.rules.Tiers)) {
		if err := b.checkClass(atTiers.name(name), b.tiers[name], b.rules.Tiers[name].Types); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) checkClass(at path, c *classAt, types map[string]Rule) *Error {
	if err := b.checkRule(&c.ruleAt, &chain{}); err != nil {
		return err
	}
	return b.checkTypes(at.name("types"), types, &c.types, func(typ string) (ch chain) {
		ch[levelType], ch[c.level] = b.types.find(typ), &c.ruleAt
		return ch
	})
}

func (b *book) checkOverrides() *Error {
	seen := map[Subject]path{}
	for i, o := range b.rules.Overrides {
		at := atOverrides.index(i)
		if err := o.Subject.check(at, seen); err != nil {
			return err
		}
		switch {
		case o.IP.IsValid() && o.IP.Addr().Is6() && o.IP.Bits() > 64:
			return at.name("ip").wrong("is %v; IPv6 clients are counted by their /64, so name a /64 or more", o.IP)
		case !o.IP.IsValid() && o.User == "":
			return at.wrong("names no user; put the rule for a whole tenant into %s", atTenants.name(o.Tenant))
		}
		if err := b.checkRule(b.overrides[i], &chain{}); err != nil {
			return err
		}
	}
	return nil
}

// checkRule checks a rule, and the values that result from it and the rules after it in the
// chain.
func (b *book) checkRule(rule *ruleAt, ch *chain) *Error {
	ch[levelDefault] = b.otherwise
	ch[rule.level] = rule
	at := path(rule.path)
	if err := checkValues(at, &rule.Rule); err != nil {
		return err
	}
	if rule.policy != nil {
		if _, err := limit.Compile(rule.policy); err != nil {
			return at.name("limits").wrong("cannot be enforced: %v", err)
		}
	}
	switch is := ch.resolve(b.maximum); {
	case is.limitBy == nil || is.exempt():
	case is.limitBy.policy != nil:
		plan, err := limit.Compile(is.limitBy.policy)
		if err != nil {
			return nil // reported where the limits are
		}
		var d limit.Decision
		if plan.Peek(&d, nil, 0, max(is.cost, 1)); d.Impossible {
			return at.wrong("has a cost of %d and a limit %s of %d: a frame would never pass; lower the cost or raise the limit", is.cost, d.Policy, d.Limit)
		}
	case is.burst == 0:
		return at.name("burst").wrong("is missing, also in the rules that apply otherwise; set how much may come at once")
	case is.cost > is.burst:
		return at.wrong("has a cost of %d and a burst of %d: a frame would never pass; lower the cost or raise the burst", is.cost, is.burst)
	}
	return nil
}

// checkValues checks the values of one rule.
func checkValues(at path, r *Rule) *Error {
	set := []string{}
	for _, v := range []struct {
		name  string
		value int64
	}{{"perMinute", r.PerMinute}, {"perHour", r.PerHour}, {"perDay", r.PerDay}} {
		if v.value == 0 {
			continue
		}
		set = append(set, v.name)
		if v.name == "perMinute" && v.value == Unlimited {
			continue
		}
		if err := checkValue(at.name(v.name), v.value); err != nil {
			return err
		}
	}
	if r.Every != 0 {
		if set = append(set, "every"); r.Every < time.Millisecond || r.Every > maxSpan || r.Every%time.Microsecond != 0 {
			return at.name("every").wrong("is %v; it must be from 1ms to %d days, in whole microseconds", r.Every, maxSpan/day)
		}
	}
	if r.Limits != nil {
		set = append(set, "limits")
	}
	if r.Exempt {
		set = append(set, "exempt")
	}
	if err := checkValue(at.name("burst"), r.Burst); err != nil {
		return err
	}
	if err := checkValue(at.name("cost"), r.Cost); err != nil {
		return err
	}
	if err := checkValue(at.name("concurrent"), r.Concurrent); err != nil {
		return err
	}
	switch {
	case len(set) > 1:
		return at.wrong("has %s; write one of them", strings.Join(set, " and "))
	case r.Concurrent != 0 && r.Exempt:
		return at.name("concurrent").wrong("has no effect on exempt; leave it out")
	case r.Burst != 0 && (r.Limits != nil || r.Exempt):
		return at.name("burst").wrong("has no effect on %s; leave it out", set[0])
	case r.Shadow && r.Concurrent == 0 && (len(set) == 0 || r.Exempt || r.PerMinute == Unlimited):
		return at.name("shadow").wrong("tries the limit of its own rule, which has none; write a rate or limits next to it, or concurrent")
	}
	return nil
}

// checkExact checks that each rate is exact with every burst that may apply with it.
func (b *book) checkExact() (wrong *Error) {
	var largest [len(chain{})]int64 // the bursts of the levels
	b.all(func(at *ruleAt) {
		largest[at.level] = max(largest[at.level], at.Burst)
		for wider := at.wider; wider != nil; wider = wider.wider {
			wider.inner = max(wider.inner, at.Burst)
		}
	})
	b.all(func(at *ruleAt) {
		if at.tokens <= 0 {
			return
		}
		burst := max(at.Burst, at.inner)
		for wider := at.wider; wider != nil && at.Burst == 0; wider = wider.wider {
			burst = max(burst, wider.Burst)
		}
		for level, l := range largest {
			if level < at.level || level > at.level && at.Burst == 0 {
				burst = max(burst, l)
			}
		}
		if burst == 0 {
			return // reported where it is missing
		}
		if _, err := limit.Compile(bucket{at.speed, burst}.within(b.maximum).policy()); err != nil && (wrong == nil || at.limitAt < wrong.Path) {
			wrong = path(at.limitAt).wrong("cannot be counted exactly with a burst of %d, which may apply with it: lower the largest burst of the rules, or raise the rate (%v)", burst, err)
		}
	})
	return wrong
}

// checkValue checks the range of a value; 0 means that it is not set.
func checkValue(at path, v int64) *Error {
	if v < 0 || v > maxValue {
		return at.wrong("is %d; it must be from 1 to %d", v, maxValue)
	}
	return nil
}

func checkList(at path, subjects []Subject) *Error {
	seen := map[Subject]path{}
	for i, s := range subjects {
		if err := s.check(at.index(i), seen); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a subject that is empty, not in the canonical form, or a duplicate.
func (s Subject) check(at path, seen map[Subject]path) *Error {
	ip := s.IP
	switch {
	case s == Subject{}:
		return at.wrong("is empty; set a user, a tenant or an ip")
	case ip == netip.Prefix{}:
	case s.Tenant != "" || s.User != "":
		return at.wrong("has a user or tenant and an ip; make two entries of it")
	case !ip.IsValid():
		return at.name("ip").wrong("is not a network")
	case ip.Addr().Is4In6():
		return at.name("ip").wrong("is %v; do not write IPv4 as IPv6", ip)
	case ip != ip.Masked():
		return at.name("ip").wrong("is %v, which has bits set beyond its length; write %v", ip, ip.Masked())
	}
	if first, again := seen[s]; again {
		return at.wrong("is the same as %s", first)
	}
	seen[s] = at
	return nil
}
