package rules

import (
	"fmt"
	"strings"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// book has Rules in a form for fast lookup. It is not changed once it is in force.
type book struct {
	rules     Rules
	maximum   bucket
	otherwise *ruleAt
	tenants   map[string]*classAt
	tiers     map[string]*classAt
	types     typeRules
	overrides []*ruleAt
	users     map[user]*ruleAt
	nets      nets[*ruleAt]
	allow     list
	deny      list
}

// classAt is the rule of a tenant or a tier, with its rules for types.
type classAt struct {
	ruleAt
	types typeRules
}

// typeRules are rules for message types and groups of them.
type typeRules struct {
	exact  map[string]*ruleAt
	groups map[string]*ruleAt // by the name without its '*', which is the prefix of the types
}

type user struct{ tenant, name string }

// newBook makes a book of rules and checks it.
func newBook(rules Rules) (*book, error) {
	rules = rules.clone()
	b := &book{
		rules:   rules,
		maximum: rules.Maximum.bucket(),
		tenants: make(map[string]*classAt, len(rules.Tenants)),
		tiers:   make(map[string]*classAt, len(rules.Tiers)),
		users:   map[user]*ruleAt{},
		allow:   newList(rules.Allow),
		deny:    newList(rules.Deny),
	}
	b.otherwise = b.rule(atDefault, rules.Default, levelDefault)
	b.otherwise.mark = ""
	b.types = b.typeRules(atTypes, rules.Types, levelType)
	for name, t := range rules.Tenants {
		b.tenants[name] = b.class(atTenants.name(name), t.Rule, levelTenant, t.Types, levelTenantType)
	}
	for name, t := range rules.Tiers {
		b.tiers[name] = b.class(atTiers.name(name), t.Rule, levelTier, t.Types, levelTierType)
	}
	for i, o := range rules.Overrides {
		at := b.rule(atOverrides.index(i), o.Rule, levelOverride)
		at.mark = fmt.Sprintf("%+q", []string{o.Tenant, o.User, o.IP.String()}) // independent of its index in the list
		b.overrides = append(b.overrides, at)
		if o.IP.IsValid() {
			b.nets.add(o.IP, at)
		} else {
			b.users[user{o.Tenant, o.User}] = at
		}
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *book) rule(p path, r Rule, level int) *ruleAt {
	at := &ruleAt{
		Rule: r, speed: r.speed(), path: string(p), mark: string(p), level: level,
		tier: level == levelTier || level == levelTierType,
	}
	switch {
	case r.PerMinute != 0:
		at.limitAt = at.path + ".perMinute"
	case r.PerHour != 0:
		at.limitAt = at.path + ".perHour"
	case r.PerDay != 0:
		at.limitAt = at.path + ".perDay"
	case r.Every != 0:
		at.limitAt = at.path + ".every"
	case r.Exempt:
		at.limitAt = at.path + ".exempt"
	case r.Limits != nil:
		at.limitAt = at.path + ".limits"
		at.policy = r.Limits
		if b.maximum != (bucket{}) {
			at.policy = limit.All(r.Limits, limit.Named("maximum", b.maximum.policy()))
		}
	}
	return at
}

func (b *book) class(at path, r Rule, level int, types map[string]Rule, typeLevel int) *classAt {
	return &classAt{*b.rule(at, r, level), b.typeRules(at.name("types"), types, typeLevel)}
}

func (b *book) typeRules(at path, rules map[string]Rule, level int) typeRules {
	t := typeRules{exact: make(map[string]*ruleAt, len(rules))}
	for name, rule := range rules {
		made := b.rule(at.name(name), rule, level)
		if prefix, group := strings.CutSuffix(name, ".*"); group {
			if t.groups == nil {
				t.groups = map[string]*ruleAt{}
			}
			t.groups[prefix+"."] = made
		} else {
			t.exact[name] = made
		}
	}
	for name, rule := range t.exact {
		rule.wider = t.group(name)
	}
	for prefix, rule := range t.groups {
		rule.wider = t.group(prefix[:len(prefix)-1])
	}
	return t
}

// find returns the rule for a type: its own, or that of the longest group.
func (t *typeRules) find(typ string) *ruleAt {
	if at := t.exact[typ]; at != nil {
		return at
	}
	return t.group(typ)
}

// group returns the rule of the longest group that has the type.
func (t *typeRules) group(typ string) *ruleAt {
	if len(t.groups) == 0 {
		return nil
	}
	for {
		dot := strings.LastIndexByte(typ, '.')
		if dot < 0 {
			return nil
		}
		if at := t.groups[typ[:dot+1]]; at != nil {
			return at
		}
		typ = typ[:dot]
	}
}

// all calls do with each rule, in no order.
func (b *book) all(do func(*ruleAt)) {
	types := func(t *typeRules) {
		for _, at := range t.exact {
			do(at)
		}
		for _, at := range t.groups {
			do(at)
		}
	}
	do(b.otherwise)
	types(&b.types)
	for _, classes := range []map[string]*classAt{b.tenants, b.tiers} {
		for _, c := range classes {
			do(&c.ruleAt)
			types(&c.types)
		}
	}
	for _, at := range b.overrides {
		do(at)
	}
}

// chain finds the rules for a frame.
func (b *book) chain(c *ingress.Context) (ch chain) {
	if c.Identity.Authenticated() {
		ch[levelOverride] = b.users[user{c.Identity.Tenant, c.Identity.User}]
	} else if at, ok := b.nets.find(c.IP); ok {
		ch[levelOverride] = at
	}
	if t := b.tenants[c.Identity.Tenant]; t != nil {
		ch[levelTenantType] = t.types.find(c.Type)
		ch[levelTenant] = &t.ruleAt
	}
	if len(b.tiers) > 0 {
		if t := b.tiers[c.Identity.Tier]; t != nil {
			ch[levelTierType] = t.types.find(c.Type)
			ch[levelTier] = &t.ruleAt
		}
	}
	ch[levelType] = b.types.find(c.Type)
	ch[levelDefault] = b.otherwise
	return ch
}

// resolve returns the values for a frame.
func (b *book) resolve(c *ingress.Context) resolved {
	ch := b.chain(c)
	return ch.resolve(b.maximum)
}
