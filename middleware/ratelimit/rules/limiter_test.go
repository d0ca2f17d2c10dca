package rules_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
)

// countingStore counts the calls.
type countingStore struct {
	limit.Store
	calls int
}

func (s *countingStore) Take(ctx context.Context, key []byte, policy limit.Policy, cost int64) (limit.Decision, error) {
	s.calls++
	return s.Store.Take(ctx, []byte(key), policy, cost)
}

// newLimits makes limits over a store whose clock stands still.
func newLimits(t testing.TB, document string, options ...rules.Options) *rules.Limiter {
	t.Helper()
	o := rules.Options{}
	if len(options) > 0 {
		o = options[0]
	}
	limits, err := rules.New(memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }}), mustParse(t, document), o)
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// admits counts how many of a hundred frames pass.
func admits(h ingress.Handler, c *ingress.Context) (n int) {
	for range 100 {
		if h(c) == nil {
			n++
		}
	}
	return n
}

func TestLimitsEnforceTheRules(t *testing.T) {
	limits := newLimits(t, `{
		"default": {"perMinute": 60, "burst": 10},
		"tenants": {"acme": {"burst": 20}},
		"types": {"export": {"cost": 5}, "ping": {"unlimited": true}, "": {"burst": 2}},
		"overrides": [{"tenant": "acme", "user": "ann", "burst": 40}, {"ip": "192.0.2.0/24", "burst": 3}]
	}`)
	h := limits.Middleware(ingress.Pass)
	for _, c := range []struct {
		tenant, user, ip, typ string
		want                  int
	}{
		{"", "ann", "", "chat", 10},
		{"", "ann", "", "chat", 0}, // used up
		{"", "ann", "", "other", 10},
		{"", "ann", "", "export", 2},
		{"", "ann", "", "ping", 100},
		{"", "ann", "", "", 2},
		{"acme", "bob", "", "chat", 20},
		{"acme", "bob", "", "export", 4},
		{"acme", "ann", "", "chat", 40},
		{"", "", "198.51.100.1", "chat", 10},
		{"", "", "192.0.2.1", "chat", 3},
		{"", "", "192.0.2.2", "chat", 3}, // each address by itself
		{"acme", "", "198.51.100.1", "chat", 20},
	} {
		if got := admits(h, frame(c.tenant, c.user, c.ip, c.typ)); got != c.want {
			t.Errorf("%+v: %d pass", c, got)
		}
	}
	err := h(frame("acme", "bob", "", "export"))
	e, ok := errors.AsType[*errors.LimitExceeded](err)
	if !ok || e.Kind != errors.LimitRate || e.Observed != 5 || e.Limit != 20 || e.RetryAfter != 5*time.Second {
		t.Errorf("%+v", err)
	}
}

// A cost of the rules goes before the one of the options.
func TestCostOfTheRulesAndOfTheOptions(t *testing.T) {
	limits := newLimits(t, `{"default": {"perMinute": 1, "burst": 100}, "types": {"export": {"cost": 50}}}`, rules.Options{
		Options: ratelimit.Options{Cost: func(c *ingress.Context) int { return c.Size }},
	})
	h := limits.Middleware(ingress.Pass)
	for typ, want := range map[string]int{"export": 2, "upload": 5} {
		c := frame("", "ann", "", typ)
		c.Size = 20
		if got := admits(h, c); got != want {
			t.Errorf("%s: %d pass, want %d", typ, got, want)
		}
	}
	if err := h(frame("", "ann", "", "upload")); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("a cost of 0: %v", err)
	}
}

func TestLists(t *testing.T) {
	var reported []rules.Subject
	store := &countingStore{Store: memory.NewStore()}
	limits, err := rules.New(store, mustParse(t, `{
		"default": {"perMinute": 1, "burst": 1},
		"allow": [{"tenant": "acme", "user": "probe"}, {"ip": "10.0.0.0/8"}],
		"deny": [{"tenant": "acme", "user": "bob"}, {"ip": "10.6.6.6"}, {"tenant": "initech"}]
	}`), rules.Options{
		Limiter:  limit.Options{Name: "n"},
		OnDenied: func(_ *ingress.Context, entry rules.Subject) { reported = append(reported, entry) },
	})
	if err != nil {
		t.Fatal(err)
	}
	h := limits.Middleware(ingress.Pass)
	for _, c := range []*ingress.Context{frame("acme", "probe", "", "x"), frame("", "", "10.0.0.1", "x"), frame("acme", "ann", "10.0.0.1", "x")} {
		if n := admits(h, c); n != 100 {
			t.Errorf("%d pass of a client that is allowed", n)
		}
	}
	if s := limits.Stats(); len(reported) != 0 || s != (rules.Stats{}) {
		t.Errorf("reported %v, stats %+v", reported, s)
	}
	for _, c := range []*ingress.Context{frame("acme", "bob", "10.0.0.1", "x"), frame("", "", "10.6.6.6", "x"), frame("initech", "", "", "x")} {
		err := h(c)
		if e := errors.From(err); e.Code != errors.PermissionDenied || e.Retryable() || c.State.Passed {
			t.Errorf("a client that is denied: %v", err)
		}
	}
	if fmt.Sprint(reported) != "[{acme bob invalid Prefix} {  10.6.6.6/32} {initech  invalid Prefix}]" || limits.Stats().Barred != 3 {
		t.Errorf("reported %v, stats %+v", reported, limits.Stats())
	}
	if store.calls != 0 {
		t.Errorf("the store was asked %d times for clients that are on a list", store.calls)
	}
	if h(frame("acme", "ann", "", "x")); store.calls != 1 {
		t.Errorf("the store was asked %d times for a client that is on none", store.calls)
	}
}

// In shadow mode nothing is refused, whichever way it is turned on.
func TestShadowRules(t *testing.T) {
	for name, o := range map[string]rules.Options{
		"middleware": {Options: ratelimit.Options{Shadow: true}},
		"limiter":    {Limiter: limit.Options{Shadow: true}},
	} {
		limited, denied := 0, 0
		o.OnLimited = func(*ingress.Context, ratelimit.Limited) { limited++ }
		o.OnDenied = func(*ingress.Context, rules.Subject) { denied++ }
		h := newLimits(t, `{"default": {"perMinute": 1, "burst": 1}, "deny": [{"user": "bob"}]}`, o).Middleware(ingress.Pass)
		for _, user := range []string{"ann", "bob"} {
			if n := admits(h, frame("", user, "", "x")); n != 100 {
				t.Errorf("%s: %d of %s pass", name, n, user)
			}
		}
		if limited != 99 || denied != 100 {
			t.Errorf("%s: reported %d and %d", name, limited, denied)
		}
	}
}

// Rules that are disabled cost nothing: no call of the store, no memory, and no look
// at the frame.
func TestDisabledIsNoOp(t *testing.T) {
	store := &countingStore{Store: memory.NewStore()}
	given := mustParse(t, `{"disabled": true, "default": {"perMinute": 1, "burst": 1}, "deny": [{"user": "ann"}]}`)
	limits, err := rules.New(store, given, rules.Options{
		Limiter:  limit.Options{Name: "n"},
		Key:      func(k limit.Key, _ *ingress.Context) limit.Key { t.Error("asked for a key"); return k },
		OnDenied: func(*ingress.Context, rules.Subject) { t.Error("denied") },
	})
	if err != nil {
		t.Fatal(err)
	}
	h, c := limits.Middleware(ingress.Pass), frame("", "ann", "", "x")
	if n := testing.AllocsPerRun(100, func() {
		if !passes(h, c) {
			t.Fatal("refused")
		}
	}); n != 0 || store.calls != 0 {
		t.Errorf("%v allocations, the store was asked %d times", n, store.calls)
	}
	if s := limits.Stats(); s != (rules.Stats{}) {
		t.Errorf("%+v", s)
	}
	if e := effective(t, limits, c); e.Limited {
		t.Errorf("%+v", e)
	}
}

// Nothing is allocated for a frame, whichever way it goes.
func TestRulesAllocateNothing(t *testing.T) {
	limits := newLimits(t, `{
		"maximum": {"perMinute": 30000000, "burst": 30000000},
		"default": {"perMinute": 1, "burst": 1},
		"tenants": {"acme": {"unlimited": true, "types": {"x": {"burst": 7}}}},
		"types": {"x": {"cost": 1}, "all.*": {"limits": [{"kind": "bucket", "perHour": 9, "burst": 9}, {"kind": "fixedWindow", "limit": 50, "window": "1d"}]}},
		"tiers": {"free": {"types": {"report.*": {"perHour": 3}}}},
		"overrides": [{"tenant": "acme", "user": "eve", "burst": 2}, {"ip": "2001:db8::/32", "burst": 2}, {"ip": "192.0.2.0/24", "burst": 2}],
		"allow": [{"tenant": "acme", "user": "probe"}, {"ip": "10.0.0.0/8"}, {"ip": "2001:db9::/48"}],
		"deny": [{"tenant": "acme", "user": "bob"}, {"ip": "10.6.6.6"}]
	}`, rules.Options{OnDenied: func(*ingress.Context, rules.Subject) {}})
	h := limits.Middleware(ingress.Pass)
	for _, c := range []*ingress.Context{
		tierFrame("free", "report.a"), tierFrame("", "all.a.b"),
		frame("acme", "ann", "198.51.100.1", "x"), frame("acme", "eve", "", "x"), frame("", "ann", "", "y"),
		frame("", "", "2001:db8::1", "x"), frame("", "", "192.0.2.1", "x"),
		frame("acme", "probe", "", "x"), frame("", "", "2001:db9::1", "x"), frame("acme", "bob", "", "x"), frame("", "", "10.6.6.6", "x"),
	} {
		h(c)
		if n := testing.AllocsPerRun(1000, func() { h(c) }); n != 0 {
			t.Errorf("%+v: %v allocations", c, n)
		}
	}
}

// What has been used stays used under other rules, and rules that are wrong change
// nothing.
func TestReplaceKeepsState(t *testing.T) {
	limits := newLimits(t, `{"default": {"perMinute": 60, "burst": 10}}`)
	h := limits.Middleware(ingress.Pass)
	ann, bob := frame("acme", "ann", "", "x"), frame("acme", "bob", "", "x")
	if n := admits(h, ann); n != 10 {
		t.Fatalf("%d pass", n)
	}
	for _, step := range []struct {
		document string
		want     int
	}{
		{`{"default": {"perMinute": 60, "burst": 10}, "maximum": {"perMinute": 6000, "burst": 99}}`, 0},
		{`{"default": {"perMinute": 60, "burst": 12}}`, 2},
		{`{"default": {"perMinute": 1, "burst": 1}, "tenants": {"acme": {"perMinute": 60, "burst": 15}}}`, 3},
		{`{"default": {"perMinute": 60, "burst": 15}, "types": {"x": {"burst": 14}}}`, 0},
		{`{"default": {"perMinute": 60, "burst": 16}, "overrides": [{"tenant": "acme", "user": "ann", "burst": 17}]}`, 2},
		{`{"disabled": true}`, 100},
		{`{"default": {"perMinute": 60, "burst": 17}}`, 0},
		{`{"default": {"perMinute": 30, "burst": 17}}`, 8}, // 17 s are 8.5 at half the rate
	} {
		if err := limits.Replace(mustParse(t, step.document)); err != nil {
			t.Fatal(err)
		}
		if n := admits(h, ann); n != step.want {
			t.Errorf("%s\n\t%d pass, want %d", step.document, n, step.want)
		}
	}
	if n := admits(h, bob); n != 17 {
		t.Errorf("%d pass for a client without earlier frames", n)
	}
	if s := limits.Stats(); s.Allowed != 10+2+3+2+8+17 {
		t.Errorf("%+v", s)
	}

	given := limits.Rules()
	if err := limits.Replace(rules.Rules{}); err == nil {
		t.Error("the zero Rules are in force")
	}
	if e := effective(t, limits, bob); e.Burst.Value != given.Default.Burst || limits.Rules().Default != given.Default {
		t.Errorf("rules that are wrong changed something: %+v", e)
	}
}

// The limiter has its own copy of the rules: neither what the caller does with them later
// nor what is done with a copy changes what is in force.
func TestRulesAreCopied(t *testing.T) {
	given := mustParse(t, everything)
	limits, err := rules.New(memory.NewStore(), given)
	if err != nil {
		t.Fatal(err)
	}
	f := frame("acme", "ann", "", "file.put")
	before := effective(t, limits, f)
	for _, r := range []rules.Rules{given, limits.Rules()} {
		r.Types["file.put"] = rules.Rule{PerMinute: 1}
		r.Tenants["acme"].Types["file.put"] = rules.Rule{Burst: 1}
		delete(r.Tenants, "acme")
		r.Overrides[0].Subject, r.Overrides[0].Burst = rules.Subject{User: "x"}, 1
		r.Deny[0] = rules.Subject{Tenant: "acme"}
	}
	if after := effective(t, limits, f); after != before {
		t.Errorf("%+v, and it was %+v", after, before)
	}
	if err := limits.Replace(limits.Rules()); err != nil || effective(t, limits, f) != before {
		t.Errorf("the rules in force, put in force again: %v, %+v", err, effective(t, limits, f))
	}
}

// Under load, frames see one set of rules or the other as a whole, and together
// exactly as much is charged as the larger burst allows: nothing that was used is
// forgotten, whatever the interleaving.
func TestReplaceUnderLoad(t *testing.T) {
	const small, large = 20_000, 25_000
	sets := []rules.Rules{
		mustParse(t, `{"default": {"perMinute": 6000, "burst": 20000, "cost": 1}}`),
		mustParse(t, `{"default": {"perMinute": 6000, "burst": 25000, "cost": 5}}`),
	}
	books := &ledger{Store: memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }})}
	var denied atomic.Int64 // under the larger burst
	limits, err := rules.New(books, sets[0], rules.Options{
		Limiter: limit.Options{Name: "n", Timeout: -1},
		Options: ratelimit.Options{OnLimited: func(_ *ingress.Context, l ratelimit.Limited) {
			switch d := l.Decision; {
			case l.Cost == 5 && d.Limit == large:
				denied.Add(1)
			case l.Cost != 1 || d.Limit != small:
				t.Errorf("a frame of cost %d met a limit of %d", l.Cost, d.Limit)
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := limits.Middleware(ingress.Pass)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for c := frame("", "ann", "", "x"); denied.Load() == 0 && ctx.Err() == nil; {
				_ = h(c)
			}
		})
	}
	for i := 0; denied.Load() == 0 && ctx.Err() == nil; i++ {
		if err := limits.Replace(sets[i%2]); err != nil {
			t.Error(err)
		}
	}
	clients.Wait()
	if denied.Load() == 0 {
		t.Fatal("the larger burst was not used up within a minute")
	}
	if charged := books.charged(); charged <= large-5 || charged > large {
		t.Errorf("%d were charged, want %d but for what five do not fit", charged, large)
	}
}

// ledger is a store that writes down what is charged, by key.
type ledger struct {
	limit.Store
	mu      sync.Mutex
	takes   int
	entries map[string][]entry
}

type entry struct{ at, cost int64 }

func (l *ledger) Take(ctx context.Context, key []byte, policy limit.Policy, cost int64) (limit.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takes++
	d, err := l.Store.Take(ctx, key, policy, cost)
	if d.Charged > 0 {
		if l.entries == nil {
			l.entries = map[string][]entry{}
		}
		l.entries[string(key)] = append(l.entries[string(key)], entry{d.At, d.Charged})
	}
	return d, err
}

// charged is the sum of all entries.
func (l *ledger) charged() (sum int64) {
	for _, entries := range l.entries {
		for _, e := range entries {
			sum += e.cost
		}
	}
	return sum
}

// With a key that leaves out the type, a type with a rate of its own is counted
// apart, and types that differ in their cost alone share. Frames of both in turn get
// no more than each by itself.
func TestTypesUnderOneKey(t *testing.T) {
	limits := newLimits(t, `{
		"default": {"perMinute": 1, "burst": 20},
		"types": {"heavy": {"cost": 2}, "apart": {"burst": 3}},
		"overrides": [{"user": "eve", "burst": 7}]
	}`, rules.Options{Key: ratelimit.PerUser})
	h := limits.Middleware(ingress.Pass)
	passed := map[string]int{}
	for range 100 {
		for _, typ := range []string{"light", "heavy", "apart"} {
			if h(frame("", "ann", "", typ)) == nil {
				passed[typ]++
			}
		}
	}
	// 7 of each are 21, so the last heavy one does not fit and a light one does.
	if passed["light"] != 8 || passed["heavy"] != 6 || passed["apart"] != 3 {
		t.Errorf("%v pass", passed)
	}
	for _, c := range []struct {
		typ  string
		want int
	}{{"light", 7}, {"heavy", 0}, {"apart", 0}} { // the override decides for every type
		if got := admits(h, frame("", "eve", "", c.typ)); got != c.want {
			t.Errorf("eve, %s: %d pass, want %d", c.typ, got, c.want)
		}
	}
}

// With a key of one's own, state is kept as long as the same rules give the rate, in
// whatever order they stand.
func TestReplaceKeepsStateUnderOneKey(t *testing.T) {
	limits := newLimits(t, `{
		"default": {"perMinute": 60, "burst": 10},
		"overrides": [{"user": "ann", "burst": 20}, {"user": "bob", "perMinute": 30}],
		"types": {"x": {"perMinute": 20}}
	}`, rules.Options{Key: ratelimit.PerUser})
	h := limits.Middleware(ingress.Pass)
	frames := []*ingress.Context{frame("", "ann", "", "x"), frame("", "ann", "", "y"), frame("", "bob", "", "x"), frame("", "eve", "", "x"), frame("", "eve", "", "y")}
	for i, f := range frames {
		if n, want := admits(h, f), []int{20, 20, 10, 10, 10}[i]; n != want {
			t.Errorf("frame %d: %d pass, want %d", i, n, want)
		}
	}
	if err := limits.Replace(mustParse(t, `{
		"default": {"perMinute": 60, "burst": 11},
		"overrides": [{"user": "bob", "perMinute": 30}, {"user": "ann", "burst": 21}],
		"types": {"x": {"perMinute": 20}}
	}`)); err != nil {
		t.Fatal(err)
	}
	for i, f := range frames {
		if n := admits(h, f); n != 1 {
			t.Errorf("frame %d: %d pass of one more", i, n)
		}
	}
}

// A store that fails is left to the failure policy, whatever the rule.
func TestRulesOverAFailingStore(t *testing.T) {
	limits, err := rules.New(brokenStore{}, mustParse(t, `{"default": {"perMinute": 1, "burst": 3}, "types": {"x": {"burst": 2}}}`),
		rules.Options{Limiter: limit.Options{Name: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	h := limits.Middleware(ingress.Pass)
	if n, m := admits(h, frame("", "ann", "", "x")), admits(h, frame("", "ann", "", "y")); n != 2 || m != 3 {
		t.Errorf("%d and %d pass", n, m)
	}
	if s := limits.Stats(); !s.Degraded || s.Switches != 1 {
		t.Errorf("%+v", s)
	}
}

func TestLimitsWiringMistakesPanic(t *testing.T) {
	given := mustParse(t, everything)
	for says, f := range map[string]func(){
		"nil store":              func() { _, _ = rules.New(nil, given) },
		"set Options.Limiter to": func() { _, _ = rules.New(brokenStore{}, given) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, says) {
					t.Errorf("panic %q, want one that says %q", text, says)
				}
			}()
			f()
		}()
	}
}

// BenchmarkLimits is the time of a frame under rules, to be compared with
// BenchmarkMiddleware.
func BenchmarkLimits(b *testing.B) {
	const most = `{"perMinute": 30000000, "burst": 30000000}`
	for name, document := range map[string]string{
		"disabled": `{"disabled": true}`,
		"default":  `{"default": ` + most + `}`,
		"all": `{"default": ` + most + `, "maximum": ` + most + `, "tenants": {"acme": {"cost": 1, "types": {"chat.send": {"cost": 1}}}}, "types": {"chat.send": {"cost": 1}},
			"overrides": [{"tenant": "acme", "user": "eve", "cost": 1}, {"ip": "192.0.2.0/24", "cost": 1}],
			"allow": [{"tenant": "acme", "user": "probe"}, {"ip": "10.0.0.0/8"}], "deny": [{"tenant": "acme", "user": "bob"}, {"ip": "10.6.6.6"}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			limits, err := rules.New(memory.NewStore(), mustParse(b, document))
			if err != nil {
				b.Fatal(err)
			}
			h, c := limits.Middleware(ingress.Pass), ann("chat.send")
			b.ReportAllocs()
			for b.Loop() {
				h(c)
			}
		})
	}
}

func effective(t *testing.T, limits *rules.Limiter, c *ingress.Context) rules.Effective {
	t.Helper()
	e, err := limits.Rules().Effective(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
