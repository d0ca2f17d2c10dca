package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/wskit/wskit/middleware/ratelimit/rules"
)

func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(rules.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("rules.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("rules.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// beyond are the problems that a schema cannot describe: they compare values with each other, or
// look into a text.
var beyond = regexp.MustCompile(strings.Join([]string{
	"it must be an address or a network", "do not write IPv4 as IPv6", "which has bits set beyond its length",
	"counted by their /64", "is the same as", "would never pass", "cannot be counted exactly", "cannot be enforced",
	"also in the rules that apply otherwise", // a burst
}, "|"))

// What the parser accepts is valid, and what is valid the parser refuses only for what a schema
// cannot say: over generated documents of which about half have an error in names, types, ranges
// or in what is there together.
func TestSchemaAndParserAgree(t *testing.T) {
	s := schema(t)
	accepted, refused, found := 0, 0, map[string]bool{}
	for seed := range uint64(60_000) {
		g := &generator{rand.New(rand.NewPCG(seed, 1))}
		document := g.document()
		if g.one(2) {
			g.mutate(document)
		}
		text, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		invalid := s.Validate(value)
		_, wrong := rules.Parse(text)
		switch {
		case wrong == nil && invalid == nil:
			accepted++
		case wrong == nil:
			t.Fatalf("%s\n\tthe parser accepts it; the schema: %v", text, invalid)
		case invalid == nil && !beyond.MatchString(wrong.Error()):
			t.Fatalf("%s\n\tthe schema accepts it; the parser: %v", text, wrong)
		case invalid != nil:
			refused++
			found[regexp.MustCompile(`^.*?(is|has|must|names|tries|cannot) `).ReplaceAllString(wrong.Error(), "")] = true
		}
	}
	if accepted < 10_000 || refused < 10_000 || len(found) < 60 {
		t.Errorf("%d documents are accepted, %d refused, for %d reasons: the generator is too narrow", accepted, refused, len(found))
	}
	t.Logf("%d accepted, %d refused by both, for %d reasons", accepted, refused, len(found))
}

// What the documentation shows is valid.
func TestSchemaAcceptsWhatTheDocumentationShows(t *testing.T) {
	s := schema(t)
	page, err := os.ReadFile("../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(string(page))
	if block == nil {
		t.Fatal("docs/limits.md shows no rules")
	}
	for _, text := range []string{
		block[1],
		`{"disabled": true}`,
		`{"$schema": "rules.schema.json", "default": {"perMinute": 600, "burst": 20}}`,
		`{"default": {"unlimited": true}, "types": {"": {"limits": [{"kind": "slidingWindow", "limit": 600, "window": "1m", "buckets": 6, "name": "x"}]}}}`,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = s.Validate(value)
		}
		if _, wrong := rules.Parse([]byte(text)); err != nil || wrong != nil {
			t.Errorf("%s: %v, %v", text, err, wrong)
		}
	}
}

type object = map[string]any

// generator makes documents.
type generator struct{ *rand.Rand }

func (g *generator) one(in int) bool { return g.IntN(in) == 0 }

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

func (g *generator) number() int { return pick(g, 1, 2, 30, 60, 600, 6000) }
func (g *generator) time() string {
	return fmt.Sprint(pick(g, 1, 7, 90, 9999), pick(g, "ms", "s", "m", "h", "d"))
}

// rate adds a rate.
func (g *generator) rate(o object) {
	if name := pick(g, "perSecond", "perMinute", "perHour", "perDay", "every"); name == "every" {
		o[name] = g.time()
	} else {
		o[name] = g.number()
	}
}

func (g *generator) limit() object {
	o := object{"kind": pick(g, "bucket", "pacer", "fixedWindow", "calendar", "slidingWindow", "log")}
	switch o["kind"] {
	case "bucket", "pacer":
		g.rate(o)
		if o["burst"] = g.number(); o["kind"] == "pacer" {
			o["maxWait"] = g.time()
		}
	case "calendar":
		o["limit"], o["period"] = pick(g, 1, 5, 1000), pick(g, "day", "week", "month")
		if g.one(2) {
			o["location"] = pick(g, "UTC", "Europe/Berlin")
		}
	default:
		if o["limit"], o["window"] = pick(g, 1, 5, 1000), g.time(); o["kind"] == "slidingWindow" && g.one(2) {
			o["buckets"] = pick(g, 1, 6, 60)
		}
	}
	if g.one(3) {
		o["name"] = "n"
	}
	return o
}

func (g *generator) rule(o object) object {
	switch g.IntN(8) {
	case 0:
		o["unlimited"] = true
	case 1:
		o["exempt"] = true
	case 2:
		limits := []any{}
		for range 1 + g.IntN(3) {
			limits = append(limits, g.limit())
		}
		o["limits"] = limits
	case 3:
	default:
		g.rate(o)
		if g.one(4) {
			o["shadow"] = true
		}
	}
	if o["exempt"] == nil && o["limits"] == nil && g.one(2) {
		o["burst"] = g.number()
	}
	if g.one(4) {
		o["cost"] = 1
	}
	if g.one(4) {
		o["silent"] = true
	}
	return o
}

func (g *generator) types() object {
	o := object{}
	for range g.IntN(3) {
		o[pick(g, "", "a", "a.b", "a.*", "a.b.*", "limits", "7")] = g.rule(object{})
	}
	return o
}

func (g *generator) classes() object {
	o := object{}
	for range g.IntN(3) {
		class := g.rule(object{})
		if g.one(2) {
			class["types"] = g.types()
		}
		o[pick(g, "", "acme", "free*", "7")] = class
	}
	return o
}

func (g *generator) subject(list bool) object {
	switch {
	case g.one(3):
		return object{"ip": pick(g, "192.0.2.1", "192.0.2.0/24", "2001:db8::/64")}
	case list && g.one(2):
		return object{"tenant": "acme"}
	case g.one(2):
		return object{"tenant": pick(g, "", "acme"), "user": "ann"}
	}
	return object{"user": pick(g, "ann", "bob")}
}

func (g *generator) list(make func() object) []any {
	all := []any{}
	for range g.IntN(3) {
		all = append(all, make())
	}
	return all
}

func (g *generator) document() object {
	d := object{"default": object{"perMinute": 600, "burst": 6000}}
	if g.one(3) {
		d["default"] = g.rule(object{})
	}
	if g.one(2) {
		m := object{"burst": 6000}
		g.rate(m)
		d["maximum"] = m
	}
	members := map[string]func() any{
		"types": func() any { return g.types() }, "tenants": func() any { return g.classes() }, "tiers": func() any { return g.classes() },
		"overrides": func() any { return g.list(func() object { return g.rule(g.subject(false)) }) },
		"allow":     func() any { return g.list(func() object { return g.subject(true) }) },
		"deny":      func() any { return g.list(func() object { return g.subject(true) }) },
		"disabled":  func() any { return g.one(2) }, "$schema": func() any { return "x" },
	}
	for _, name := range slices.Sorted(maps.Keys(members)) { // so that a seed has the same document each time
		if g.one(3) {
			d[name] = members[name]()
		}
	}
	return d
}

// mutate changes one member anywhere in the document: it takes it away, renames it, or gives it
// another value; or it adds a member that may not be there.
func (g *generator) mutate(o object) {
	at := []object{}
	var collect func(any)
	collect = func(v any) {
		switch v := v.(type) {
		case object:
			at = append(at, v)
			for _, name := range slices.Sorted(maps.Keys(v)) {
				collect(v[name])
			}
		case []any:
			for _, e := range v {
				collect(e)
			}
		}
	}
	collect(o)
	in := pick(g, at...)
	values := []any{0, 1, -1, 1.5, 500_001, 30_000_001, 1001, 1441, "", "90s", "0s", "1.5s", "10000s", "1w", "log", "x", true, false, nil, []any{}, object{}, []any{object{}}}
	others := []string{
		"perSecond", "perMinute", "perHour", "perDay", "every", "unlimited", "limits", "exempt", "silent", "shadow", "burst", "cost",
		"kind", "name", "limit", "window", "buckets", "maxWait", "tenant", "user", "ip", "types", "tiers", "a*", "*", ".*", "a.*.*", "zzz",
	}
	names := slices.Sorted(maps.Keys(in))
	if len(names) == 0 || g.one(3) {
		in[pick(g, others...)] = pick(g, values...)
		return
	}
	name := pick(g, names...)
	value := in[name]
	switch g.IntN(4) {
	case 0:
		delete(in, name)
	case 1:
		delete(in, name)
		in[pick(g, others...)] = value
	default:
		in[name] = pick(g, values...)
	}
}
