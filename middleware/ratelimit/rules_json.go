package ratelimit

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// ParseRules reads rules from a JSON document and checks them:
//
//	{
//	  "maximum": {"perMinute": 6000, "burst": 200},
//	  "default": {"perMinute": 600, "burst": 20},
//	  "types":   {"file.put": {"perSecond": 1, "cost": 5}},
//	  "tenants": {"acme": {"perMinute": 3000, "types": {"file.put": {"burst": 50}}}},
//	  "overrides": [{"tenant": "acme", "user": "ann", "unlimited": true}, {"ip": "192.0.2.0/24", "burst": 5}],
//	  "allow": [{"ip": "2001:db8::/32"}],
//	  "deny":  [{"tenant": "acme", "user": "bob"}, {"tenant": "initech"}]
//	}
//
// The names are those of the fields of [Rules] in lower camel case. A rate is perMinute,
// perSecond (sixty times as much per minute), or "unlimited": true. Values are whole numbers of
// at least 1, and a user is not empty; leave out what is not set. {"disabled": true} turns
// everything off.
//
// Unknown and duplicate names, null, "unlimited": false, and rules that [NewRuleLimiter] would
// not accept are errors: a [*RulesError], which has the place.
func ParseRules(document []byte) (Rules, error) {
	if err := refuseNull(document); err != nil {
		return Rules{}, decodeError(document, err)
	}
	var d rulesDoc
	if err := json.Unmarshal(document, &d, json.RejectUnknownMembers(true)); err != nil {
		return Rules{}, decodeError(document, err)
	}
	rules, err := d.rules()
	if err != nil {
		return Rules{}, err
	}
	if _, err := newBook(rules); err != nil {
		return Rules{}, err
	}
	return rules, nil
}

type rulesDoc struct {
	Disabled  bool                 `json:"disabled"`
	Maximum   *rateDoc             `json:"maximum"`
	Default   ruleDoc              `json:"default"`
	Tenants   map[string]tenantDoc `json:"tenants"`
	Types     map[string]ruleDoc   `json:"types"`
	Overrides []overrideDoc        `json:"overrides"`
	Allow     []subjectDoc         `json:"allow"`
	Deny      []subjectDoc         `json:"deny"`
}

type rateDoc struct {
	PerMinute whole `json:"perMinute"`
	PerSecond whole `json:"perSecond"`
	Burst     whole `json:"burst"`
}

type ruleDoc struct {
	PerMinute whole `json:"perMinute"`
	PerSecond whole `json:"perSecond"`
	Unlimited yes   `json:"unlimited"`
	Burst     whole `json:"burst"`
	Cost      whole `json:"cost"`
}

type tenantDoc struct {
	ruleDoc
	Types map[string]ruleDoc `json:"types"`
}

type overrideDoc struct {
	subjectDoc
	ruleDoc
}

type subjectDoc struct {
	Tenant string  `json:"tenant"`
	User   name    `json:"user"`
	IP     network `json:"ip"`
}

// yes is true or left out. False is refused: it could be taken to mean that there is a limit.
type yes bool

// UnmarshalJSON refuses everything but true.
func (y *yes) UnmarshalJSON(b []byte) error {
	if *y = string(b) == "true"; !*y {
		return problem(fmt.Sprintf("is %s; it must be true, or left out", short(b)))
	}
	return nil
}

// name is a text that is not empty: with an empty one, which a template may produce, an entry
// would apply to a whole tenant.
type name string

// UnmarshalJSON refuses the empty text.
func (n *name) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, (*string)(n)); err != nil {
		return problem(fmt.Sprintf("is %s; it must be a string", short(b)))
	}
	if *n == "" {
		return problem("is empty; leave it out to select the whole tenant")
	}
	return nil
}

// whole is a number from 1 to maxValue, or 0 if it is not set.
type whole int64

// UnmarshalJSON refuses everything but a whole number within the range.
func (w *whole) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 1 || n > maxValue {
		return problem(fmt.Sprintf("is %s; it must be a whole number from 1 to %d", short(b), maxValue))
	}
	*w = whole(n)
	return nil
}

// network is an address or a network.
type network netip.Prefix

// UnmarshalJSON reads "192.0.2.1" as well as "192.0.2.0/24".
func (n *network) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err == nil {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
			*n = network(netip.PrefixFrom(ip, ip.BitLen()))
			return nil
		}
		if p, err := netip.ParsePrefix(text); err == nil {
			*n = network(p)
			return nil
		}
	}
	return problem(fmt.Sprintf(`is %s; it must be an address or a network, such as "192.0.2.1" or "2001:db8::/64"`, short(b)))
}

// problem is the Problem of a [RulesError].
type problem string

func (p problem) Error() string { return string(p) }

func short(b []byte) string {
	const most = 60
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "") + "…"
	}
	return string(b)
}

func (d *rulesDoc) rules() (r Rules, err error) {
	r.Disabled = d.Disabled
	if m := d.Maximum; m != nil {
		rule, err := ruleDoc{PerMinute: m.PerMinute, PerSecond: m.PerSecond, Burst: m.Burst}.rule(atMaximum)
		if err != nil {
			return r, err
		}
		if rule.PerMinute == 0 {
			return r, atMaximum.name("perMinute").wrong("is missing; a maximum is a rate and a burst")
		}
		r.Maximum = Rate{PerMinute: rule.PerMinute, Burst: rule.Burst}
	}
	if r.Default, err = d.Default.rule(atDefault); err != nil {
		return r, err
	}
	if r.Types, err = ruleMap(atTypes, d.Types); err != nil {
		return r, err
	}
	for _, name := range slices.Sorted(maps.Keys(d.Tenants)) {
		t, at := d.Tenants[name], atTenants.name(name)
		rule, err := t.rule(at)
		if err != nil {
			return r, err
		}
		types, err := ruleMap(at.name("types"), t.Types)
		if err != nil {
			return r, err
		}
		if r.Tenants == nil {
			r.Tenants = make(map[string]Tenant, len(d.Tenants))
		}
		r.Tenants[name] = Tenant{Rule: rule, Types: types}
	}
	for i, o := range d.Overrides {
		rule, err := o.rule(atOverrides.index(i))
		if err != nil {
			return r, err
		}
		r.Overrides = append(r.Overrides, Override{o.subject(), rule})
	}
	r.Allow, r.Deny = subjects(d.Allow), subjects(d.Deny)
	return r, nil
}

// rule converts a rate to one per minute.
func (d ruleDoc) rule(at path) (Rule, error) {
	r := Rule{PerMinute: int64(d.PerMinute), Burst: int64(d.Burst), Cost: int64(d.Cost)}
	switch {
	case d.PerMinute != 0 && d.PerSecond != 0:
		return r, at.wrong("has perMinute and perSecond; write one of them")
	case bool(d.Unlimited) && (d.PerMinute != 0 || d.PerSecond != 0):
		return r, at.wrong("is unlimited and has a rate; write one of them")
	case d.PerSecond > maxValue/60:
		return r, at.name("perSecond").wrong("is %d; it must be a whole number from 1 to %d", d.PerSecond, maxValue/60)
	case d.PerSecond != 0:
		r.PerMinute = 60 * int64(d.PerSecond)
	case bool(d.Unlimited):
		r.PerMinute = Unlimited
	}
	return r, nil
}

func ruleMap(at path, docs map[string]ruleDoc) (map[string]Rule, error) {
	if docs == nil {
		return nil, nil
	}
	rules := make(map[string]Rule, len(docs))
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		rule, err := docs[name].rule(at.name(name))
		if err != nil {
			return nil, err
		}
		rules[name] = rule
	}
	return rules, nil
}

func (d subjectDoc) subject() Subject {
	return Subject{Tenant: d.Tenant, User: string(d.User), IP: netip.Prefix(d.IP)}
}

func subjects(docs []subjectDoc) (all []Subject) {
	for _, d := range docs {
		all = append(all, d.subject())
	}
	return all
}
