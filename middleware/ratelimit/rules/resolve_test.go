package rules_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
)

func mustParse(t testing.TB, document string) rules.Rules {
	t.Helper()
	given, err := rules.Parse([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return given
}

func frame(tenant, name, ip, typ string) *ingress.Context {
	c := &ingress.Context{Type: typ, Identity: ingress.Identity{Tenant: tenant, User: name}}
	if ip != "" {
		c.IP = netip.MustParseAddr(ip)
	}
	return c
}

// Each value comes from the strongest rule that gives it, and says so.
func TestResolution(t *testing.T) {
	given := mustParse(t, `{
		"maximum": {"perMinute": 6000, "burst": 200},
		"default": {"perMinute": 600, "burst": 20},
		"tenants": {
			"acme": {"perMinute": 3000, "types": {"file.put": {"burst": 8}, "chat.send": {"unlimited": true}}},
			"big":  {"perSecond": 1000, "burst": 1000, "cost": 2},
			"free": {"unlimited": true},
			"":     {"burst": 10}
		},
		"types": {
			"file.put": {"perMinute": 60, "burst": 6, "cost": 5},
			"ping": {"unlimited": true},
			"": {"perMinute": 6}
		},
		"overrides": [
			{"tenant": "acme", "user": "ann", "burst": 100},
			{"ip": "192.0.2.0/24", "perMinute": 30},
			{"ip": "192.0.2.7", "perMinute": 15},
			{"ip": "2001:db8::/64", "cost": 3},
			{"tenant": "acme", "user": "eve", "unlimited": true}
		],
		"allow": [{"ip": "10.0.0.0/8"}, {"tenant": "acme", "user": "probe"}],
		"deny": [{"tenant": "initech"}, {"user": "bob"}, {"ip": "10.6.6.6"}]
	}`)
	for _, c := range []struct {
		tenant, user, ip, typ  string
		list                   string
		perMinute, burst, cost string
	}{
		{"other", "bob", "", "x", "", "600 (default.perMinute)", "20 (default.burst)", "0"},
		{"", "ann", "", "x", "", "600 (default.perMinute)", `10 (tenants[""].burst)`, "0"},
		{"", "ann", "", "", "", `6 (types[""].perMinute)`, `10 (tenants[""].burst)`, "0"},
		{"acme", "bob", "", "x", "", "3000 (tenants.acme.perMinute)", "20 (default.burst)", "0"},
		{"acme", "ann", "", "x", "", "3000 (tenants.acme.perMinute)", "100 (overrides[0].burst)", "0"},
		{"acme", "bob", "", "file.put", "", `60 (types["file.put"].perMinute)`, `8 (tenants.acme.types["file.put"].burst)`, `5 (types["file.put"].cost)`},
		{"acme", "ann", "", "file.put", "", `60 (types["file.put"].perMinute)`, `100 (overrides[0].burst)`, `5 (types["file.put"].cost)`},
		{"other", "bob", "", "file.put", "", `60 (types["file.put"].perMinute)`, `6 (types["file.put"].burst)`, `5 (types["file.put"].cost)`},
		// The maximum caps what is too much, and what has no limit.
		{"big", "ann", "", "x", "", "6000 (tenants.big.perMinute: 60000, capped by the maximum)", "200 (tenants.big.burst: 1000, capped by the maximum)", "2 (tenants.big.cost)"},
		{"free", "ann", "", "x", "", "6000 (tenants.free.perMinute: unlimited, capped by the maximum)", "200 (maximum.burst)", "0"},
		{"free", "ann", "", "file.put", "", `60 (types["file.put"].perMinute)`, `6 (types["file.put"].burst)`, `5 (types["file.put"].cost)`},
		{"acme", "bob", "", "chat.send", "", `6000 (tenants.acme.types["chat.send"].perMinute: unlimited, capped by the maximum)`, "200 (maximum.burst)", "0"},
		{"acme", "eve", "", "file.put", "", "6000 (overrides[4].perMinute: unlimited, capped by the maximum)", "200 (maximum.burst)", `5 (types["file.put"].cost)`},
		{"other", "bob", "", "ping", "", "6000 (types.ping.perMinute: unlimited, capped by the maximum)", "200 (maximum.burst)", "0"},
		// Addresses: the most specific network, for clients without a name only.
		{"other", "", "192.0.2.1", "x", "", "30 (overrides[1].perMinute)", "20 (default.burst)", "0"},
		{"other", "", "192.0.2.7", "x", "", "15 (overrides[2].perMinute)", "20 (default.burst)", "0"},
		{"other", "", "::ffff:192.0.2.7", "x", "", "15 (overrides[2].perMinute)", "20 (default.burst)", "0"},
		{"other", "ann", "192.0.2.7", "x", "", "600 (default.perMinute)", "20 (default.burst)", "0"},
		{"other", "", "192.0.3.7", "x", "", "600 (default.perMinute)", "20 (default.burst)", "0"},
		{"other", "", "2001:db8::7%eth0", "x", "", "600 (default.perMinute)", "20 (default.burst)", "3 (overrides[3].cost)"},
		{"other", "", "2001:db8:0:1::7", "x", "", "600 (default.perMinute)", "20 (default.burst)", "0"},
		// Lists: users by tenant and name, whole tenants, addresses of all clients. Denied
		// is denied.
		{"acme", "probe", "", "x", "allow[1]", "", "", ""},
		{"other", "probe", "", "x", "", "", "", ""},
		{"acme", "bob", "10.1.2.3", "x", "allow[0]", "", "", ""},
		{"acme", "bob", "10.6.6.6", "x", "deny[2]", "", "", ""},
		{"", "bob", "", "x", "deny[1]", "", "", ""},
		{"initech", "bob", "10.1.2.3", "x", "deny[0]", "", "", ""},
		{"initech", "", "", "x", "deny[0]", "", "", ""},
		{"initech:bob", "", "", "x", "", "", "", ""},
	} {
		f := frame(c.tenant, c.user, c.ip, c.typ)
		e, err := given.Effective(f)
		if err != nil {
			t.Fatal(err)
		}
		at := fmt.Sprintf("%s/%s %s %s", c.tenant, c.user, c.ip, c.typ)
		if e.List != c.list || e.Limited != (c.list == "") {
			t.Errorf("%s: list %q, limited %v; want %q", at, e.List, e.Limited, c.list)
		}
		if c.perMinute != "" && (e.Rate.String() != c.perMinute || e.Burst.String() != c.burst || e.Cost.String() != c.cost) {
			t.Errorf("%s\n\tgot  %v, %v, %v\n\twant %s, %s, %s", at, e.Rate, e.Burst, e.Cost, c.perMinute, c.burst, c.cost)
		}
	}
}

// The maximum is a rate. Neither a window of a second instead of a minute
// nor a larger burst lets through more than it says.
func TestMaximumIsARate(t *testing.T) {
	const perMinute, burst = 600, 10
	for _, rule := range []string{
		`"perSecond": 600, "burst": 10`,
		`"perMinute": 600, "burst": 36000`,
		`"perSecond": 500000, "burst": 30000000`,
		`"unlimited": true`,
	} {
		for _, place := range []string{
			`"default": {%s}`,
			`"default": {"perMinute": 1, "burst": 1}, "tenants": {"acme": {%s}}`,
			`"default": {"perMinute": 1, "burst": 1}, "tenants": {"acme": {"types": {"x": {%s}}}}`,
			`"default": {"perMinute": 1, "burst": 1}, "types": {"x": {%s}}`,
			`"default": {"perMinute": 1, "burst": 1}, "overrides": [{"tenant": "acme", "user": "ann", %s}]`,
		} {
			document := `{"maximum": {"perMinute": 600, "burst": 10}, ` + fmt.Sprintf(place, rule) + `}`
			now := int64(0)
			store := memory.NewStore(memory.Options{Now: func() time.Time { return time.UnixMicro(now) }})
			limits, err := rules.New(store, mustParse(t, document))
			if err != nil {
				t.Fatal(err)
			}
			h, f := limits.Middleware(ingress.Pass), frame("acme", "ann", "", "x")
			admitted := 0
			for ; now < time.Minute.Microseconds(); now += 10_000 {
				for admitted < 100_000 && h(f) == nil {
					admitted++
				}
			}
			if want := burst + perMinute - 1; admitted != want { // the last one comes with the minute's end
				t.Errorf("%s\n\t%d admitted within a minute, want %d", document, admitted, want)
			}
		}
	}
}

// Whatever the rules say and whatever a key is made of, the maximum holds for every
// key over every span of time; and whatever they say, there is a limiter for it.
func TestMaximumHoldsWhateverTheRulesSay(t *testing.T) {
	keys := []ratelimit.KeyFunc{nil, ratelimit.PerUser, ratelimit.PerIP, func(k limit.Key, _ *ingress.Context) limit.Key { return k }}
	ended, end := context.WithCancel(t.Context())
	end()
	rapid.Check(t, func(t *rapid.T) {
		given := drawRules(t)
		now := int64(0)
		books := &ledger{Store: memory.NewStore(memory.Options{Now: func() time.Time { return time.UnixMicro(now) }})}
		limits, err := rules.New(books, given, rules.Options{
			Limiter: limit.Options{Name: "n"},
			Key:     rapid.SampledFrom(keys).Draw(t, "key"),
		})
		if e, ok := errors.AsType[*rules.Error](err); ok {
			t.Skip(e)
		}
		h := limits.Middleware(ingress.Pass)
		for range 60 {
			now += rapid.SampledFrom([]int64{0, 1, 10_000, 1_000_000, 20_000_000}).Draw(t, "pause")
			f := frame(rapid.SampledFrom(names).Draw(t, "tenant"), rapid.SampledFrom(names).Draw(t, "user"), "192.0.2.1", rapid.SampledFrom(append(names, "a.b")).Draw(t, "type"))
			f.Identity.Tier = rapid.SampledFrom(names).Draw(t, "tier")
			f.State.Ctx = ended // no pacer's wait
			for range rapid.IntRange(1, 60).Draw(t, "frames") {
				before := books.takes
				if err := h(f); err != nil && !errors.Is(err, context.Canceled) {
					break
				}
				if books.takes == before {
					t.Fatalf("%+v passed without being charged", f)
				}
			}
		}
		for key, entries := range books.entries {
			for i := range entries {
				sum := int64(0)
				for _, e := range entries[i:] {
					sum += e.cost
					if m, span := given.Maximum, e.at-entries[i].at; (sum-m.Burst)*time.Minute.Microseconds() > m.PerMinute*span {
						t.Fatalf("%s: %d within %dµs, more than the maximum %+v allows", key, sum, span, m)
					}
				}
			}
		}
	})
}

var names = []string{"", "a", "b"}

// drawRules draws rules for few names, with a maximum that is often too low for
// them.
func drawRules(t *rapid.T) rules.Rules {
	value := func(label string) int64 {
		return rapid.SampledFrom([]int64{0, 0, 3, 10, 60, 100, 6000, 30_000_000}).Draw(t, label)
	}
	rule := func(label string) rules.Rule {
		r := rules.Rule{PerMinute: value(label + ".perMinute"), Burst: value(label + ".burst"), Cost: rapid.Int64Range(0, 3).Draw(t, label+".cost")}
		switch rapid.IntRange(0, 12).Draw(t, label+".kind") {
		case 0, 1:
			r.PerMinute = rules.Unlimited
		case 2:
			r.PerMinute, r.PerHour = 0, value(label+".perHour")
		case 3:
			r.PerMinute, r.Every = 0, 90*time.Second
		case 4:
			r.PerMinute, r.Burst = 0, 0
			r.Limits = limit.All(
				limit.SlidingLog{Limit: 1 + value(label+".log")%1000, Window: time.Minute},
				limit.FixedWindow{Limit: 1000, Window: time.Second},
			)
		case 5:
			r.PerMinute, r.Burst = 0, 0
			r.Limits = limit.Pacer{Burst: 100, Refill: 1000, Per: time.Second, MaxWait: time.Second}
		}
		return r
	}
	types := func(label string) map[string]rules.Rule {
		m := map[string]rules.Rule{}
		for _, name := range append(names, "a.*") {
			if rapid.Bool().Draw(t, label+"?") {
				m[name] = rule(label + "." + name)
			}
		}
		return m
	}
	given := rules.Rules{
		Maximum: rules.Rate{PerMinute: rapid.Int64Range(1, 2000).Draw(t, "maximum.perMinute"), Burst: rapid.Int64Range(3, 50).Draw(t, "maximum.burst")},
		Default: rule("default"),
		Types:   types("types"),
		Tenants: map[string]rules.Tenant{},
		Tiers:   map[string]rules.Tier{"a": {Rule: rule("tiers.a"), Types: types("tiers.a")}},
		Overrides: []rules.Override{
			{Subject: rules.Subject{Tenant: "a", User: "a"}, Rule: rule("override")},
			{Subject: rules.Subject{IP: netip.MustParsePrefix("192.0.2.0/24")}, Rule: rule("override")},
		},
	}
	given.Default = rules.Rule{PerMinute: max(given.Default.PerMinute, 3), Burst: max(given.Default.Burst, 3), Cost: given.Default.Cost}
	for _, name := range names {
		if rapid.Bool().Draw(t, "tenant?") {
			given.Tenants[name] = rules.Tenant{Rule: rule("tenants." + name), Types: types("tenants." + name)}
		}
	}
	return given
}

// Each tenant and type may have a rate of its own: a million limits need no more than the
// rules that say them.
func TestAMillionLimits(t *testing.T) {
	given := rules.Rules{
		Default: rules.Rule{PerMinute: 1, Burst: 1},
		Tenants: map[string]rules.Tenant{},
		Types:   map[string]rules.Rule{},
	}
	for i := range int64(1000) {
		given.Tenants[fmt.Sprint(i)] = rules.Tenant{Rule: rules.Rule{PerMinute: i + 1}}
		given.Types[fmt.Sprint(i)] = rules.Rule{Cost: 1, Burst: i + 1}
	}
	limits, err := rules.New(memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }}), given)
	if err != nil {
		t.Fatal(err)
	}
	h := limits.Middleware(ingress.Pass)
	for tenant := range 1000 {
		typ := (tenant * 37) % 1000
		f := frame(fmt.Sprint(tenant), "ann", "", fmt.Sprint(typ))
		if n := admits(h, f); n != min(typ+1, 100) { // admits tries 100
			t.Errorf("tenant %d: %d frames of type %d pass, want %d", tenant, n, typ, min(typ+1, 100))
		}
	}
}

// Every rate can be kept with every burst, to the last token.
func TestExtremesAreExact(t *testing.T) {
	extremes := []int64{1, 7, 60, 59_999, 29_999_999, 30_000_000}
	for _, perMinute := range extremes {
		for _, burst := range extremes {
			given := rules.Rules{Default: rules.Rule{PerMinute: perMinute, Burst: burst, Cost: burst}}
			limits, err := rules.New(memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }}), given)
			if err != nil {
				t.Errorf("%d per minute, %d at once: %v", perMinute, burst, err)
				continue
			}
			h := limits.Middleware(ingress.Pass)
			if n := admits(h, frame("", "ann", "", "x")); n != 1 {
				t.Errorf("%d per minute: %d frames of %d pass, want 1", perMinute, n, burst)
			}
		}
	}
}
