package rules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
)

// everything is a document with every name there is.
const everything = `{
	"disabled": false,
	"maximum": {"perSecond": 100, "burst": 200},
	"default": {"perMinute": 600, "burst": 20, "cost": 2},
	"tenants": {
		"acme":    {"perMinute": 3000, "burst": 50, "types": {"file.put": {"burst": 5, "cost": 5}}},
		"initech": {"unlimited": true}
	},
	"types": {"file.put": {"perSecond": 1}, "": {"burst": 3}},
	"overrides": [
		{"tenant": "acme", "user": "ann", "perMinute": 60000},
		{"ip": "192.0.2.0/24", "burst": 7}
	],
	"allow": [{"ip": "2001:db8::1"}],
	"deny":  [{"user": "bob"}, {"tenant": "globex"}]
}`

func TestParseRules(t *testing.T) {
	got, err := rules.Parse([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	want := rules.Rules{
		Maximum: rules.Rate{PerMinute: 6000, Burst: 200},
		Default: rules.Rule{PerMinute: 600, Burst: 20, Cost: 2},
		Tenants: map[string]rules.Tenant{
			"acme": {
				Rule:  rules.Rule{PerMinute: 3000, Burst: 50},
				Types: map[string]rules.Rule{"file.put": {Burst: 5, Cost: 5}},
			},
			"initech": {Rule: rules.Rule{PerMinute: rules.Unlimited}},
		},
		Types: map[string]rules.Rule{"file.put": {PerMinute: 60}, "": {Burst: 3}},
		Overrides: []rules.Override{
			{Subject: rules.Subject{Tenant: "acme", User: "ann"}, Rule: rules.Rule{PerMinute: 60000}},
			{Subject: rules.Subject{IP: netip.MustParsePrefix("192.0.2.0/24")}, Rule: rules.Rule{Burst: 7}},
		},
		Allow: []rules.Subject{{IP: netip.MustParsePrefix("2001:db8::1/128")}},
		Deny:  []rules.Subject{{User: "bob"}, {Tenant: "globex"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseRulesDisabled(t *testing.T) {
	given, err := rules.Parse([]byte(`{"disabled": true}`))
	if err != nil || !given.Disabled {
		t.Errorf("%+v, %v", given, err)
	}
}

func writtenAndRead(t *testing.T, given rules.Rules) rules.Rules {
	t.Helper()
	document, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	again, err := rules.Parse(document)
	if err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	return again
}

// Rules in force can be written, changed and read again.
func TestRulesAreWrittenAsTheyWereRead(t *testing.T) {
	for _, document := range []string{everything, `{
		"default": {"unlimited": true, "concurrent": 3},
		"tiers": {"free": {"perDay": 3, "burst": 1, "types": {"report.*": {"every": "36h", "silent": true}}}},
		"types": {"ping": {"exempt": true}, "search": {"every": "90s", "burst": 3, "shadow": true}, "login": {"limits": [
			{"kind": "log", "limit": 5, "window": "15m", "name": "logins"},
			{"kind": "fixedWindow", "limit": 50, "window": "1d"},
			{"kind": "calendar", "limit": 10000, "period": "month", "location": "Europe/Berlin"},
			{"kind": "slidingWindow", "limit": 600, "window": "1m", "buckets": 6},
			{"kind": "bucket", "perHour": 10, "burst": 2},
			{"kind": "pacer", "perSecond": 10, "burst": 1, "maxWait": "2500ms"}
		]}}
	}`} {
		want, err := rules.Parse([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		if got := writtenAndRead(t, want); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

// What a document cannot say is refused with its place, and not written as something else.
func TestRulesThatCannotBeWritten(t *testing.T) {
	fine := rules.Rule{PerMinute: 60, Burst: 1}
	for place, given := range map[string]rules.Rules{
		"default.every":     {Default: rules.Rule{Every: 1500 * time.Microsecond, Burst: 1}},
		"types.a.limits[0]": {Default: fine, Types: map[string]rules.Rule{"a": {Limits: limit.TokenBucket{Capacity: 1, Refill: 7, Per: 5 * time.Second}}}},
		"tiers.b.limits[1].window": {Default: fine, Tiers: map[string]rules.Tier{"b": {Rule: rules.Rule{Limits: limit.All(
			limit.SlidingLog{Limit: 1, Window: time.Second}, limit.FixedWindow{Limit: 1, Window: 10001 * time.Millisecond})}}}},
		"overrides[0].limits[0].maxWait": {Default: fine, Overrides: []rules.Override{{Subject: rules.Subject{User: "ann"},
			Rule: rules.Rule{Limits: limit.Pacer{Burst: 1, Refill: 1, Per: time.Second, MaxWait: time.Microsecond}}}}},
	} {
		_, err := json.Marshal(given)
		wrong, ok := errors.AsType[*rules.Error](err)
		if !ok || wrong.Path != place {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// Every error names the place, and says what is wrong there.
func TestRulesErrors(t *testing.T) {
	const fine = `"default": {"perMinute": 600, "burst": 20}`
	for _, c := range []struct{ document, path, says string }{
		{``, "", "not valid JSON"},
		{`[]`, "", "must be an object"},
		{"{\n" + fine + ",\n!}", "", "not valid JSON in line 3"},
		{`{` + fine + `} {}`, "", "not valid JSON"},
		{`{}`, "default.perMinute", "is missing"},
		{`{"default": {"perMinute": 600}}`, "default.burst", "is missing"},
		{`{"default": {"burst": 600}}`, "default.perMinute", "is missing"},
		{`{"default": {"perMinute": 600, "burst": 20, "Burst": 20}}`, "default.Burst", "the names are perMinute, perSecond, unlimited, burst, cost"},
		{`{"default": {"perMinute": 600, "burst": 20, "burst": 20}}`, "default.burst", "is there twice"},
		{`{"default": {"perMinute": 600, "burst": 20, "b\u0075rst": 20}}`, "default.burst", "is there twice"},
		{`{` + fine + `, "tenant": {}}`, "tenant", "the names are disabled, maximum, default, tenants, types, overrides, allow, deny"},
		{`{` + fine + `, "tenants": {"acme": {"perMinute": 0}}}`, "tenants.acme.perMinute", "is 0; it must be a whole number from 1 to 30000000"},
		{`{` + fine + `, "tenants": {"acme": {"perMinute": -1}}}`, "tenants.acme.perMinute", "is -1;"},
		{`{` + fine + `, "tenants": {"acme": {"perMinute": 1.5}}}`, "tenants.acme.perMinute", "is 1.5;"},
		{`{` + fine + `, "tenants": {"acme": {"perMinute": 1e3}}}`, "tenants.acme.perMinute", "is 1e3;"},
		{`{` + fine + `, "tenants": {"acme": {"perMinute": "60"}}}`, "tenants.acme.perMinute", `is "60";`},
		{`{` + fine + `, "tenants": {"acme": {"perMinute": 30000001}}}`, "tenants.acme.perMinute", "is 30000001;"},
		{`{` + fine + `, "tenants": {"acme": {"perMinute": 99999999999999999999}}}`, "tenants.acme.perMinute", "is 99999999999999999999;"},
		{`{` + fine + `, "tenants": {"acme": {"perSecond": 500001}}}`, "tenants.acme.perSecond", "is 500001; it must be a whole number from 1 to 500000"},
		{`{` + fine + `, "tenants": {"acme": {"perMinute": null}}}`, "tenants.acme.perMinute", "is null"},
		{`{` + fine + `, "tenants": null}`, "tenants", "is null"},
		{`{` + fine + `, "tenants": {"acme": {"perMinute": 60, "perSecond": 1}}}`, "tenants.acme", "write one of them"},
		{`{` + fine + `, "tenants": {"acme": {"perMinute": 60, "unlimited": true}}}`, "tenants.acme", "write one of them"},
		{`{` + fine + `, "tenants": {"acme": 60}}`, "tenants.acme", "must be an object"},
		{`{` + fine + `, "tenants": {"acme": {"unlimited": 1}}}`, "tenants.acme.unlimited", "is 1; it must be true, or left out"},
		{`{"default": {"unlimited": true}, "types": {"export": {"unlimited": false}}}`, "types.export.unlimited", "is false;"},
		{`{` + fine + `, "tenants": {"acme": {}, "acme": {}}}`, "tenants.acme", "is there twice"},
		{`{` + fine + `, "tenants": {"a.b": {"types": {"chat.send": {"cost": 0}}}}}`, `tenants["a.b"].types["chat.send"].cost`, "is 0;"},
		{`{` + fine + `, "tenants": {"7": {"burst": 0}}}`, `tenants["7"].burst`, "is 0;"},
		{`{` + fine + `, "types": {"": {"rate": 0}}}`, `types[""].rate`, "is not a name"},
		{`{` + fine + `, "types": {"export": {"cost": 21}}}`, "types.export", "a cost of 21 and a burst of 20"},
		{`{"default": {"unlimited": true}, "types": {"export": {"perMinute": 21}}}`, "types.export.burst", "is missing"},
		{`{` + fine + `, "maximum": {}}`, "maximum.perMinute", "is missing"},
		{`{` + fine + `, "maximum": {"perMinute": 1}}`, "maximum.burst", "is missing"},
		{`{` + fine + `, "maximum": {"burst": 1}}`, "maximum.perMinute", "is missing"},
		{`{` + fine + `, "maximum": {"perMinute": 60, "burst": 4, "unlimited": true}}`, "maximum.unlimited", "the names are perMinute, perSecond, burst"},
		{`{` + fine + `, "maximum": {"perMinute": 60, "burst": 4}, "types": {"export": {"cost": 5}}}`, "types.export", "a cost of 5 and a burst of 4"},
		{`{` + fine + `, "overrides": {}}`, "overrides", "must be an array"},
		{`{` + fine + `, "overrides": [{"user": "ann"}, {"user": "bob", "burst": 0}]}`, "overrides[1].burst", "is 0;"},
		{`{` + fine + `, "overrides": [{"burst": 1}]}`, "overrides[0]", "is empty; set"},
		{`{` + fine + `, "overrides": [{"tenant": "acme", "burst": 1}]}`, "overrides[0]", "put the rule for a whole tenant into tenants.acme"},
		{`{` + fine + `, "overrides": [{"user": "ann"}, {"user": "ann"}]}`, "overrides[1]", "is the same as overrides[0]"},
		{`{` + fine + `, "overrides": [{"ip": "2001:db8::1"}]}`, "overrides[0].ip", "a /64 or more"},
		{`{` + fine + `, "allow": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.1/32"}]}`, "allow[1]", "is the same as allow[0]"},
		{`{` + fine + `, "allow": [{"ip": "192.0.2.1/24"}]}`, "allow[0].ip", "write 192.0.2.0/24"},
		{`{` + fine + `, "allow": [{"ip": "::ffff:192.0.2.1"}]}`, "allow[0].ip", "do not write IPv4 as IPv6"},
		{`{` + fine + `, "allow": [{"ip": "fe80::1%eth0"}]}`, "allow[0].ip", `is "fe80::1%eth0"; it must be an address or a network`},
		{`{` + fine + `, "allow": [{"ip": 7}]}`, "allow[0].ip", "is 7;"},
		{`{` + fine + `, "deny": [{"user": "ann", "ip": "192.0.2.1"}]}`, "deny[0]", "make two entries"},
		{`{` + fine + `, "deny": [{"user": "ann", "burst": 1}]}`, "deny[0].burst", "the names are tenant, user, ip"},
		{`{` + fine + `, "deny": [{"user": ["ann"]}]}`, "deny[0].user", "must be a string"},
		{`{` + fine + `, "allow": [{"tenant": "acme", "user": ""}]}`, "allow[0].user", "is empty; leave it out to select the whole tenant"},
		{`{` + fine + `, "deny": [{"ip": "192.0.2.1"}, {"tenant": "acme", "user": ""}]}`, "deny[1].user", "is empty;"},
		{`{` + fine + `, "overrides": [{"ip": "192.0.2.1", "user": "", "burst": 1}]}`, "overrides[0].user", "is empty;"},
		{`{"disabled": true, "types": {"x": {"burst": 0}}}`, "types.x.burst", "is 0;"},
	} {
		given, err := rules.Parse([]byte(c.document))
		e, ok := errors.AsType[*rules.Error](err)
		if !ok {
			t.Errorf("%s\n\taccepted as %+v, error %v", c.document, given, err)
			continue
		}
		if e.Path != c.path || !strings.Contains(e.Problem, c.says) {
			t.Errorf("%s\n\tat %q: %s\n\twant %q: … %s …", c.document, e.Path, e.Problem, c.path, c.says)
		}
		if text := err.Error(); !strings.HasPrefix(text, "rules: ") || !strings.Contains(text, c.path) || !strings.Contains(text, e.Problem) {
			t.Errorf("the error reads %q", text)
		}
		if !reflect.DeepEqual(given, rules.Rules{}) {
			t.Errorf("%s\n\tan error, and rules all the same: %+v", c.document, given)
		}
	}
}

// Rules that were made in Go are checked just as well.
func TestRulesMadeInGoAreChecked(t *testing.T) {
	fine := rules.Rule{PerMinute: 600, Burst: 20}
	subject := func(ip netip.Prefix) []rules.Subject { return []rules.Subject{{IP: ip}} }
	for path, given := range map[string]rules.Rules{
		"default.perMinute":              {},
		"default.burst":                  {Default: rules.Rule{PerMinute: 1, Burst: -1}},
		"default.cost":                   {Default: rules.Rule{PerMinute: 1, Burst: 1, Cost: -1}},
		"maximum.perMinute":              {Default: fine, Maximum: rules.Rate{PerMinute: -1, Burst: 1}},
		"maximum.burst":                  {Default: fine, Maximum: rules.Rate{PerMinute: 1, Burst: 30_000_001}},
		"tenants.acme.perMinute":         {Default: fine, Tenants: map[string]rules.Tenant{"acme": {Rule: rules.Rule{PerMinute: -2}}}},
		"tenants.acme.types.x.perMinute": {Default: fine, Tenants: map[string]rules.Tenant{"acme": {Types: map[string]rules.Rule{"x": {PerMinute: 30_000_001}}}}},
		"deny[0].ip":                     {Default: fine, Deny: subject(netip.PrefixFrom(netip.MustParseAddr("192.0.2.1"), 33))},
		"allow[0].ip":                    {Default: fine, Allow: subject(netip.MustParsePrefix("192.0.2.1/24"))},
		"allow[0]":                       {Default: fine, Allow: subject(netip.Prefix{})},
	} {
		_, err := rules.New(memory.NewStore(), given)
		if e, ok := errors.AsType[*rules.Error](err); !ok || e.Path != path {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := given.Effective(&ingress.Context{}); err == nil {
			t.Errorf("%s: Effective accepts it", path)
		}
	}
}

// Whatever is accepted can be enforced, and whatever is not is refused with its
// place.
func FuzzParseRules(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(`{"disabled": true}`))
	f.Add([]byte(`{"default": {"perMinute": 1, "burst": 1}, "tenants": {"a": {"types": {"": {"unlimited": true}}}}}`))
	f.Add([]byte(`{"default": {"perSecond": 500000, "burst": 30000000}, "deny": [{"ip": "::/0"}], "overrides": [{"ip": "0.0.0.0/0"}]}`))
	f.Add([]byte(`{"default": {"perMinute": null}}`))
	f.Add([]byte(`{"default": {"perHour": 9, "burst": 1}, "tiers": {"a": {"types": {"b.*": {"every": "90s"}, "b.c": {"cost": 1}}}}}`))
	f.Add([]byte(`{"default": {"limits": [{"kind": "log", "limit": 5, "window": "1m"}, {"kind": "pacer", "perDay": 1, "burst": 2, "maxWait": "1d"}]}}`))
	ended, end := context.WithCancel(f.Context()) // so that no pacer waits
	end()
	f.Fuzz(func(t *testing.T, document []byte) {
		given, err := rules.Parse(document)
		if err != nil {
			if _, ok := errors.AsType[*rules.Error](err); !ok {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		limits, err := rules.New(memory.NewStore(), given)
		if err != nil {
			t.Fatalf("parsed, but cannot be enforced: %v", err)
		}
		again := writtenAndRead(t, given)
		if got, want := fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", given); got != want {
			t.Fatalf("written, and read again:\n%s\nbefore:\n%s", got, want)
		}
		handle := limits.Middleware(ingress.Pass)
		for _, frame := range framesFor(given) {
			frame.State.Ctx = ended
			e, _ := limits.Rules().Effective(&frame)
			if e.Limited && (e.Policy == "" || e.Rate != (rules.Setting{}) && (e.Rate.Value < 1 || e.Burst.Value < 1)) {
				t.Errorf("%+v: %+v", frame, e)
			}
			if err := handle(&frame); err != nil && errors.CodeOf(err) == errors.Internal {
				t.Error(err)
			}
		}
	})
}

// framesFor are frames of every tenant, type and subject that rules speak of, and
// of others.
func framesFor(given rules.Rules) (frames []ingress.Context) {
	tenants, types, tiers := []string{"", "other"}, []string{"", "other", "b.c", "b.d.e"}, []string{""}
	for name, t := range given.Tiers {
		tiers = append(tiers, name)
		for name := range t.Types {
			types = append(types, name)
		}
	}
	for name, t := range given.Tenants {
		tenants = append(tenants, name)
		for name := range t.Types {
			types = append(types, name)
		}
	}
	for name := range given.Types {
		types = append(types, name)
	}
	subjects := []rules.Subject{{}, {User: "other"}}
	for _, o := range given.Overrides {
		subjects = append(subjects, o.Subject)
	}
	for _, s := range append(append(subjects, given.Allow...), given.Deny...) {
		for _, typ := range types {
			frame := ingress.Context{Type: typ, IP: s.IP.Addr(), Identity: ingress.Identity{Tenant: s.Tenant, User: s.User}}
			frames = append(frames, frame)
			for _, tenant := range tenants {
				frame.Identity.Tenant = tenant
				for _, frame.Identity.Tier = range tiers {
					frames = append(frames, frame)
				}
			}
		}
	}
	return frames
}
