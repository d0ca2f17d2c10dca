package ratelimit

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

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

// book is Rules laid out for looking up. It never changes.
type book struct {
	rules     Rules
	otherwise *ruleAt
	tenants   map[string]*tenantAt
	types     map[string]*ruleAt
	users     map[user]*ruleAt
	nets      nets[*ruleAt]
	allow     list
	deny      list
	rates     map[Rate]struct{} // all that resolve can answer with
}

type tenantAt struct {
	ruleAt
	types map[string]*ruleAt
}

type user struct{ tenant, name string }

// newBook checks the rules and lays them out.
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
		at.mark = fmt.Sprintf("%+q", []string{o.Tenant, o.User, o.IP.String()}) // whatever its place in the list
		if o.IP.IsValid() {
			b.nets.add(o.IP, at)
		} else {
			b.users[user{o.Tenant, o.User}] = at
		}
	}
	var err error
	b.rates, err = b.reach()
	return b, err
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

// resolve says what is in force for a frame.
func (b *book) resolve(c *ingress.Context) resolved {
	ch := b.chain(c)
	return ch.resolve(b.rules.Maximum)
}

// list is an allow or a deny list.
type list struct {
	names map[user]int // the place in the list; of a whole tenant without a name
	nets  nets[int]
}

func newList(subjects []Subject) list {
	l := list{names: map[user]int{}}
	for i, s := range subjects {
		if s.IP.IsValid() {
			l.nets.add(s.IP, i)
		} else {
			l.names[user{s.Tenant, s.User}] = i
		}
	}
	return l
}

// find returns the place in the list of the entry that names the client.
func (l *list) find(c *ingress.Context) (int, bool) {
	if len(l.names) > 0 {
		if i, ok := l.names[user{c.Identity.Tenant, c.Identity.User}]; ok {
			return i, true
		}
		if i, ok := l.names[user{c.Identity.Tenant, ""}]; ok {
			return i, true
		}
	}
	return l.nets.find(c.IP)
}

// nets finds the most specific network of an address: one look for every length
// of prefix there is, the longest first.
type nets[T any] struct {
	bits [2][]int // of IPv4 and of IPv6, descending
	of   map[netip.Prefix]T
}

func (n *nets[T]) add(p netip.Prefix, v T) {
	if n.of == nil {
		n.of = map[netip.Prefix]T{}
	}
	n.of[p] = v
	bits := &n.bits[family(p.Addr())]
	i, known := slices.BinarySearchFunc(*bits, p.Bits(), func(a, b int) int { return b - a })
	if !known {
		*bits = slices.Insert(*bits, i, p.Bits())
	}
}

func (n *nets[T]) find(ip netip.Addr) (found T, ok bool) {
	if len(n.of) == 0 || !ip.IsValid() {
		return found, false
	}
	ip = ip.Unmap().WithZone("")
	for _, bits := range n.bits[family(ip)] {
		p, err := ip.Prefix(bits)
		if err != nil {
			break
		}
		if found, ok = n.of[p]; ok {
			return found, true
		}
	}
	return found, false
}

func family(ip netip.Addr) int {
	if ip.Is4() {
		return 0
	}
	return 1
}
