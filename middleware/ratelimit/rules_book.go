package ratelimit

import (
	"fmt"

	"github.com/wskit/wskit/ingress"
)

// book has Rules in a form for fast lookup. It is not changed.
type book struct {
	rules     Rules
	otherwise *ruleAt
	tenants   map[string]*tenantAt
	types     map[string]*ruleAt
	users     map[user]*ruleAt
	nets      nets[*ruleAt]
	allow     list
	deny      list
}

type tenantAt struct {
	ruleAt
	types map[string]*ruleAt
}

type user struct{ tenant, name string }

// newBook checks the rules and makes a book of them.
func newBook(rules Rules) (*book, error) {
	if err := rules.check(); err != nil {
		return nil, err
	}
	rules = rules.clone()
	b := &book{
		rules:     rules,
		otherwise: &ruleAt{Rule: rules.Default, path: string(atDefault)},
		tenants:   make(map[string]*tenantAt, len(rules.Tenants)),
		types:     rulesAt(atTypes, rules.Types),
		users:     map[user]*ruleAt{},
		allow:     newList(rules.Allow),
		deny:      newList(rules.Deny),
	}
	for name, tenant := range rules.Tenants {
		at := atTenants.name(name)
		b.tenants[name] = &tenantAt{*at.rule(tenant.Rule), rulesAt(at.name("types"), tenant.Types)}
	}
	for i, o := range rules.Overrides {
		at := atOverrides.index(i).rule(o.Rule)
		at.mark = fmt.Sprintf("%+q", []string{o.Tenant, o.User, o.IP.String()}) // independent of its index in the list
		if o.IP.IsValid() {
			b.nets.add(o.IP, at)
		} else {
			b.users[user{o.Tenant, o.User}] = at
		}
	}
	return b, nil
}

func rulesAt(at path, rules map[string]Rule) map[string]*ruleAt {
	m := make(map[string]*ruleAt, len(rules))
	for name, rule := range rules {
		m[name] = at.name(name).rule(rule)
	}
	return m
}

func (p path) rule(r Rule) *ruleAt { return &ruleAt{Rule: r, path: string(p), mark: string(p)} }

// chain finds the rules for a frame.
func (b *book) chain(c *ingress.Context) (ch chain) {
	if c.Identity.Authenticated() {
		ch[0] = b.users[user{c.Identity.Tenant, c.Identity.User}]
	} else if at, ok := b.nets.find(c.IP); ok {
		ch[0] = at
	}
	if t := b.tenants[c.Identity.Tenant]; t != nil {
		ch[1] = t.types[c.Type]
		ch[3] = &t.ruleAt
	}
	ch[2] = b.types[c.Type]
	ch[4] = b.otherwise
	return ch
}

// resolve returns the values for a frame.
func (b *book) resolve(c *ingress.Context) resolved {
	ch := b.chain(c)
	return ch.resolve(b.rules.Maximum)
}
