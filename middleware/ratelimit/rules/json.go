package rules

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Parse reads rules from a JSON document and checks them:
//
//	{
//	  "maximum": {"perMinute": 6000, "burst": 200},
//	  "default": {"perMinute": 600, "burst": 20},
//	  "types":   {
//	    "file.put": {"perSecond": 1, "cost": 5},
//	    "report.*": {"perHour": 10, "burst": 2, "concurrent": 1},
//	    "login":    {"limits": [{"kind": "log", "limit": 5, "window": "15m"}, {"kind": "fixedWindow", "limit": 50, "window": "1d"}]},
//	    "cursor":   {"silent": true},
//	    "ping":     {"exempt": true},
//	    "search":   {"every": "90s", "burst": 3, "shadow": true}
//	  },
//	  "tiers":   {"free": {"perMinute": 60, "types": {"report.*": {"perDay": 3}}}},
//	  "tenants": {"acme": {"perMinute": 3000, "types": {"file.put": {"burst": 50}}}},
//	  "overrides": [{"tenant": "acme", "user": "ann", "unlimited": true}, {"ip": "192.0.2.0/24", "burst": 5}],
//	  "allow": [{"ip": "2001:db8::/32"}],
//	  "deny":  [{"tenant": "acme", "user": "bob"}, {"tenant": "initech"}]
//	}
//
// The names are those of the fields of [Rules] in lower camel case. A rate is perMinute,
// perHour, perDay, perSecond (sixty times as much per minute), every, or "unlimited": true.
// Values are whole numbers of at least 1, and a user is not empty; leave out what is not set. A
// time is a whole number up to 9999 and one of the units ms, s, m, h and d: "90s". {"disabled": true} turns
// everything off.
//
// Each of the limits has a kind, and may have a name, which limit.Decision.Policy reports:
//
//	{"kind": "bucket", "perHour": 10, "burst": 2}
//	{"kind": "fixedWindow", "limit": 100, "window": "1d"}
//	{"kind": "calendar", "limit": 10000, "period": "month", "location": "Europe/Berlin"}
//	{"kind": "slidingWindow", "limit": 600, "window": "1m", "buckets": 6}
//	{"kind": "log", "limit": 5, "window": "15m", "name": "logins"}
//	{"kind": "pacer", "perSecond": 10, "burst": 1, "maxWait": "2s"}
//
// They are the policies of package limit. [Schema] describes the document to editors; a
// member "$schema" at the top may name it.
//
// Unknown and duplicate names, null, "unlimited": false, and rules that [New] would
// not accept are errors: a [*Error], which has the place.
func Parse(document []byte) (Rules, error) {
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
	Tiers     map[string]tenantDoc `json:"tiers"`
	Schema    string               `json:"$schema"`
}

type rateDoc struct {
	PerMinute whole `json:"perMinute"`
	PerSecond whole `json:"perSecond"`
	Burst     whole `json:"burst"`
	PerHour   whole `json:"perHour"`
	PerDay    whole `json:"perDay"`
	Every     span  `json:"every"`
}

type ruleDoc struct {
	PerMinute  whole      `json:"perMinute"`
	PerSecond  whole      `json:"perSecond"`
	Unlimited  yes        `json:"unlimited"`
	Burst      whole      `json:"burst"`
	Cost       whole      `json:"cost"`
	PerHour    whole      `json:"perHour"`
	PerDay     whole      `json:"perDay"`
	Every      span       `json:"every"`
	Limits     []limitDoc `json:"limits"`
	Exempt     yes        `json:"exempt"`
	Concurrent whole      `json:"concurrent"`
	Silent     yes        `json:"silent"`
	Shadow     yes        `json:"shadow"`
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

// span is a time of whole milliseconds, or 0 if it is not set.
type span time.Duration

var units = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": day}

// UnmarshalJSON reads "90s". The schema has the same form as a pattern.
func (s *span) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
		n, err := strconv.ParseInt(number, 10, 64)
		unit := units[text[len(number):]]
		if err == nil && unit != 0 && '1' <= text[0] && text[0] <= '9' && len(number) <= 4 {
			*s = span(time.Duration(n) * unit)
			return nil
		}
	}
	return problem(fmt.Sprintf(`is %s; it must be a whole number from 1 to 9999 and a unit out of ms, s, m, h and d, such as "90s"`, short(b)))
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

// problem is the Problem of a [Error].
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
		rule, err := ruleDoc{
			PerMinute: m.PerMinute, PerSecond: m.PerSecond, PerHour: m.PerHour, PerDay: m.PerDay, Every: m.Every, Burst: m.Burst,
		}.rule(atMaximum)
		if err != nil {
			return r, err
		}
		if rule.speed() == (speed{}) {
			return r, atMaximum.name("perMinute").wrong("is missing; a maximum is a rate and a burst")
		}
		r.Maximum = Rate{PerMinute: rule.PerMinute, PerHour: rule.PerHour, PerDay: rule.PerDay, Every: rule.Every, Burst: rule.Burst}
	}
	if r.Default, err = d.Default.rule(atDefault); err != nil {
		return r, err
	}
	if r.Types, err = ruleMap(atTypes, d.Types); err != nil {
		return r, err
	}
	if r.Tenants, err = classes(atTenants, d.Tenants); err != nil {
		return r, err
	}
	tiers, err := classes(atTiers, d.Tiers)
	if err != nil {
		return r, err
	}
	for name, t := range tiers {
		if r.Tiers == nil {
			r.Tiers = make(map[string]Tier, len(tiers))
		}
		r.Tiers[name] = Tier(t)
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

// rule converts a rate per second to one per minute.
func (d ruleDoc) rule(at path) (r Rule, err error) {
	r = Rule{
		PerMinute: int64(d.PerMinute), PerHour: int64(d.PerHour), PerDay: int64(d.PerDay), Every: time.Duration(d.Every),
		Burst: int64(d.Burst), Cost: int64(d.Cost), Concurrent: int64(d.Concurrent),
		Exempt: bool(d.Exempt), Silent: bool(d.Silent), Shadow: bool(d.Shadow),
	}
	if d.Limits != nil {
		if r.Limits, err = limits(at.name("limits"), d.Limits); err != nil {
			return r, err
		}
	}
	other := d.PerMinute != 0 || r.PerHour != 0 || r.PerDay != 0 || r.Every != 0 || r.Limits != nil || r.Exempt
	switch {
	case d.PerMinute != 0 && d.PerSecond != 0:
		return r, at.wrong("has perMinute and perSecond; write one of them")
	case d.PerSecond != 0 && other:
		return r, at.wrong("has perSecond and another limit; write one of them")
	case bool(d.Unlimited) && (d.PerSecond != 0 || other):
		return r, at.wrong("is unlimited and has a rate or another limit; write one of them")
	case d.PerSecond > maxValue/60:
		return r, at.name("perSecond").wrong("is %d; it must be a whole number from 1 to %d", d.PerSecond, maxValue/60)
	case d.PerSecond != 0:
		r.PerMinute = 60 * int64(d.PerSecond)
	case bool(d.Unlimited):
		r.PerMinute = Unlimited
	}
	return r, nil
}

func classes(at path, docs map[string]tenantDoc) (map[string]Tenant, error) {
	if len(docs) == 0 {
		return nil, nil
	}
	all := make(map[string]Tenant, len(docs))
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		t, at := docs[name], at.name(name)
		rule, err := t.rule(at)
		if err != nil {
			return nil, err
		}
		types, err := ruleMap(at.name("types"), t.Types)
		if err != nil {
			return nil, err
		}
		all[name] = Tenant{Rule: rule, Types: types}
	}
	return all, nil
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
