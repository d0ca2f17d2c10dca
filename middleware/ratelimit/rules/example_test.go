package rules_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
)

func ExampleParse() {
	given, err := rules.Parse([]byte(`{
		"maximum": {"perMinute": 6000, "burst": 200},
		"default": {"perMinute": 600, "burst": 20},
		"types":   {"file.put": {"perSecond": 1, "cost": 5}},
		"tenants": {"acme": {"perMinute": 9000}}
	}`))
	fmt.Println(given.Types["file.put"].PerMinute, err)

	_, err = rules.Parse([]byte(`{
		"default": {"perMinute": 600, "burst": 20},
		"tenants": {"acme": {"perMinute": 0}}
	}`))
	fmt.Println(err)
	// Output:
	// 60 <nil>
	// rules: not valid: tenants.acme.perMinute is 0; it must be a whole number from 1 to 30000000
}

// In an application, r.Use(limits.Middleware) puts the limits before a router; here
// frames are sent through it by hand.
func ExampleNew() {
	given := rules.Rules{
		Default: rules.Rule{PerMinute: 60, Burst: 2},
		Types:   map[string]rules.Rule{"file.put": {Cost: 2}},
		Tenants: map[string]rules.Tenant{"acme": {Rule: rules.Rule{Burst: 3}}},
	}
	limits, err := rules.New(memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }}), given)
	if err != nil {
		fmt.Println(err)
		return
	}
	handle := limits.Middleware(ingress.Pass)
	for _, typ := range []string{"chat.send", "file.put"} {
		for _, tenant := range []string{"acme", "initech"} {
			frame := &ingress.Context{Type: typ, Identity: ingress.Identity{Tenant: tenant, User: "ann"}}
			n := 0
			for handle(frame) == nil {
				n++
			}
			fmt.Println(tenant, typ, n)
		}
	}
	// Output:
	// acme chat.send 3
	// initech chat.send 2
	// acme file.put 1
	// initech file.put 1
}

// Tokens that were used stay used under new rules.
func ExampleLimiter_Replace() {
	given := rules.Rules{Default: rules.Rule{PerMinute: 60, Burst: 2}}
	limits, _ := rules.New(memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }}), given)
	handle := limits.Middleware(ingress.Pass)
	frame := &ingress.Context{Type: "chat.send", Identity: ingress.Identity{User: "ann"}}
	fmt.Println(handle(frame) == nil, handle(frame) == nil, handle(frame) == nil)

	given.Default.Burst = 3
	fmt.Println(limits.Replace(given))
	fmt.Println(handle(frame) == nil, handle(frame) == nil)
	// Output:
	// true true false
	// <nil>
	// true false
}

// The values that a page for operators would show.
func ExampleLimiter_Rules() {
	given := rules.Rules{
		Maximum: rules.Rate{PerMinute: 6000, Burst: 200},
		Default: rules.Rule{PerMinute: 600, Burst: 20},
		Tenants: map[string]rules.Tenant{"acme": {Rule: rules.Rule{PerMinute: 9000}}},
	}
	limits, _ := rules.New(memory.NewStore(), given)
	e, _ := limits.Rules().Effective(&ingress.Context{Type: "chat.send", Identity: ingress.Identity{Tenant: "acme", User: "ann"}})
	fmt.Println(e.Rate)
	fmt.Println(e.Burst)
	page, _ := json.Marshal(e)
	fmt.Printf("%s\n", page)
	// Output:
	// 6000 (tenants.acme.perMinute: 9000, capped by the maximum)
	// 20 (default.burst)
	// {"limited":true,"policy":"token_bucket(20,6000/1m0s)","from":"tenants.acme.perMinute","rate":{"value":6000,"from":"tenants.acme.perMinute","rule":9000},"burst":{"value":20,"from":"default.burst","rule":20},"cost":{"value":0,"rule":0}}
}

// Rules can be tried before they are put in force.
func ExampleRules_Effective() {
	given := rules.Rules{Default: rules.Rule{PerMinute: 600, Burst: 20}}
	given.Overrides = append(given.Overrides, rules.Override{
		Subject: rules.Subject{Tenant: "acme", User: "ann"},
		Rule:    rules.Rule{PerMinute: rules.Unlimited},
	})
	e, err := given.Effective(&ingress.Context{Identity: ingress.Identity{Tenant: "acme", User: "ann"}})
	fmt.Println(e.Limited, e.Rate, err)
	// Output: false unlimited (overrides[0].perMinute) <nil>
}

func ExampleSubject() {
	given := rules.Rules{
		Default: rules.Rule{PerMinute: 600, Burst: 20},
		Allow:   []rules.Subject{{IP: netip.MustParsePrefix("10.0.0.0/8")}},
		Deny:    []rules.Subject{{Tenant: "acme", User: "bob"}, {Tenant: "initech"}},
	}
	limits, _ := rules.New(memory.NewStore(), given)
	err := limits.Middleware(ingress.Pass)(&ingress.Context{Identity: ingress.Identity{Tenant: "acme", User: "bob"}})
	fmt.Println(err, errors.From(err).Retryable())
	// Output: PERMISSION_DENIED: you may not send messages false
}

func ExampleError() {
	_, err := rules.Parse([]byte(`{"default": {"perMinute": 600, "burst": 20}, "deny": [{"name": "bob"}]}`))
	if e, ok := errors.AsType[*rules.Error](err); ok {
		fmt.Println(e.Path)
		fmt.Println(e.Problem)
	}
	// Output:
	// deny[0].name
	// is not a name of the rules; the names are tenant, user, ip
}

// An operator edits the rules with an editor that has their schema.
func ExampleSchema() {
	mux := http.NewServeMux()
	mux.HandleFunc("/rules.schema.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		_, _ = w.Write(rules.Schema())
	})

	var schema struct {
		Schema     string         `json:"$schema"`
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(rules.Schema(), &schema); err != nil {
		fmt.Println(err)
	}
	fmt.Println(schema.Schema, slices.Sorted(maps.Keys(schema.Properties)))
	// Output:
	// https://json-schema.org/draft/2020-12/schema [$schema allow default deny disabled maximum overrides tenants tiers types]
}
