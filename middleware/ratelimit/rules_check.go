package ratelimit

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
)

// RulesError is an error in [Rules].
type RulesError struct {
	// Path is the place of the error, with the names of the JSON document, such as
	// tenants.acme.perMinute, types["chat.send"].cost or deny[2].ip. It is empty for
	// the document as a whole.
	Path string
	// Problem describes the error and the remedy.
	Problem string
}

// Error returns path and problem.
func (e *RulesError) Error() string {
	return "ratelimit: rules: " + cmp.Or(e.Path, "the document") + " " + e.Problem
}

// path is a place in the rules.
type path string

const (
	atMaximum   path = "maximum"
	atDefault   path = "default"
	atTenants   path = "tenants"
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

func (p path) wrong(format string, args ...any) *RulesError {
	return &RulesError{Path: string(p), Problem: fmt.Sprintf(format, args...)}
}

// check returns the first error in the rules.
func (r *Rules) check() error {
	for _, check := range []func() *RulesError{
		r.checkMaximum, r.checkDefault, r.checkTypes, r.checkTenants, r.checkOverrides,
		func() *RulesError { return checkList(atAllow, r.Allow) },
		func() *RulesError { return checkList(atDeny, r.Deny) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rules) checkMaximum() *RulesError {
	m := r.Maximum
	switch {
	case m == Rate{}:
		return nil
	case m.PerMinute == 0:
		return atMaximum.name("perMinute").wrong("is missing; a maximum is a rate and a burst")
	case m.Burst == 0:
		return atMaximum.name("burst").wrong("is missing; a maximum is a rate and a burst")
	}
	if err := checkValue(atMaximum.name("perMinute"), m.PerMinute); err != nil {
		return err
	}
	return checkValue(atMaximum.name("burst"), m.Burst)
}

func (r *Rules) checkDefault() *RulesError {
	if r.Default.PerMinute == 0 && !r.Disabled {
		return atDefault.name("perMinute").wrong("is missing; set a rate per minute, or make the default unlimited")
	}
	return r.checkRule(atDefault, &chain{})
}

func (r *Rules) checkTypes() *RulesError {
	for _, name := range slices.Sorted(maps.Keys(r.Types)) {
		if err := r.checkRule(atTypes.name(name), &chain{2: {Rule: r.Types[name]}}); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rules) checkTenants() *RulesError {
	for _, name := range slices.Sorted(maps.Keys(r.Tenants)) {
		t, at := r.Tenants[name], atTenants.name(name)
		if err := r.checkRule(at, &chain{3: {Rule: t.Rule}}); err != nil {
			return err
		}
		for _, typ := range slices.Sorted(maps.Keys(t.Types)) {
			ch := &chain{1: {Rule: t.Types[typ]}, 2: {Rule: r.Types[typ]}, 3: {Rule: t.Rule}}
			if err := r.checkRule(at.name("types").name(typ), ch); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Rules) checkOverrides() *RulesError {
	seen := map[Subject]path{}
	for i, o := range r.Overrides {
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
		if err := r.checkRule(at, &chain{0: {Rule: o.Rule}}); err != nil {
			return err
		}
	}
	return nil
}

// checkRule checks the first rule of a chain, whose place is at, and the values that result
// from it and the rules after it.
func (r *Rules) checkRule(at path, ch *chain) *RulesError {
	ch[len(ch)-1] = &ruleAt{Rule: r.Default}
	rule := ch[slices.IndexFunc(ch[:], func(at *ruleAt) bool { return at != nil })]
	if rule.PerMinute != Unlimited {
		if err := checkValue(at.name("perMinute"), rule.PerMinute); err != nil {
			return err
		}
	}
	if err := checkValue(at.name("burst"), rule.Burst); err != nil {
		return err
	}
	if err := checkValue(at.name("cost"), rule.Cost); err != nil {
		return err
	}
	switch is := ch.resolve(r.Maximum); {
	case is.perMinuteBy == nil || is.PerMinute == Unlimited:
	case is.Burst == 0:
		return at.name("burst").wrong("is missing, also in the rules that apply otherwise; set how much may come at once")
	case is.cost > is.Burst:
		return at.wrong("has a cost of %d and a burst of %d: a frame would never pass; lower the cost or raise the burst", is.cost, is.Burst)
	}
	return nil
}

// checkValue checks the range of a value; 0 means that it is not set.
func checkValue(at path, v int64) *RulesError {
	if v < 0 || v > maxValue {
		return at.wrong("is %d; it must be from 1 to %d", v, maxValue)
	}
	return nil
}

func checkList(at path, subjects []Subject) *RulesError {
	seen := map[Subject]path{}
	for i, s := range subjects {
		if err := s.check(at.index(i), seen); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a subject that is empty, not in the canonical form, or a duplicate.
func (s Subject) check(at path, seen map[Subject]path) *RulesError {
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
