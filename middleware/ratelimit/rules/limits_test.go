package rules_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
)

// timed is a Limiter over a store whose clock the test sets.
type timed struct {
	*rules.Limiter
	handle ingress.Handler
	now    time.Duration
}

func newTimed(t testing.TB, document string, o rules.Options) *timed {
	t.Helper()
	s := &timed{now: 1000 * 24 * time.Hour} // midnight
	store := memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0).Add(s.now) }})
	var err error
	if s.Limiter, err = rules.New(store, mustParse(t, document), o); err != nil {
		t.Fatal(err)
	}
	s.handle = s.Middleware(ingress.Pass)
	return s
}

func tierFrame(tier, typ string) *ingress.Context {
	return &ingress.Context{Type: typ, Identity: ingress.Identity{Tenant: "acme", User: "ann", Tier: tier}}
}

// Rates below one per minute, and each kind of limit: how many pass at once, and how many after
// a time.
func TestKindsOfLimits(t *testing.T) {
	for _, c := range []struct {
		rule   string
		first  int
		after  time.Duration
		second int
	}{
		{`"perHour": 10, "burst": 2`, 2, 6 * time.Minute, 1},
		{`"perHour": 10, "burst": 2`, 2, 6*time.Minute - time.Microsecond, 0},
		{`"perDay": 3, "burst": 1`, 1, 8 * time.Hour, 1},
		{`"perDay": 3, "burst": 1`, 1, 8*time.Hour - time.Microsecond, 0},
		{`"every": "90s", "burst": 3`, 3, 180 * time.Second, 2},
		{`"every": "90s", "burst": 3`, 3, 179 * time.Second, 1},
		{`"limits": [{"kind": "bucket", "perSecond": 2, "burst": 5}]`, 5, time.Second, 2},
		{`"limits": [{"kind": "fixedWindow", "limit": 7, "window": "1d"}]`, 7, 24 * time.Hour, 7},
		{`"limits": [{"kind": "fixedWindow", "limit": 7, "window": "1d"}]`, 7, 24*time.Hour - time.Microsecond, 0},
		{`"limits": [{"kind": "calendar", "limit": 7, "period": "week", "location": "Asia/Tokyo"}]`, 7, 7 * 24 * time.Hour, 7},
		{`"limits": [{"kind": "slidingWindow", "limit": 10, "window": "1m"}]`, 10, 90 * time.Second, 5},
		{`"limits": [{"kind": "log", "limit": 5, "window": "15m"}]`, 5, 15*time.Minute - time.Microsecond, 0},
		{`"limits": [{"kind": "log", "limit": 5, "window": "15m"}]`, 5, 15 * time.Minute, 5},
		{`"limits": [{"kind": "log", "limit": 5, "window": "1m"}, {"kind": "fixedWindow", "limit": 7, "window": "1d"}]`, 5, time.Minute, 2},
	} {
		s := newTimed(t, `{"default": {"perMinute": 1, "burst": 1}, "types": {"x": {`+c.rule+`}}}`, rules.Options{})
		first := admits(s.handle, tierFrame("", "x"))
		s.now += c.after
		if second := admits(s.handle, tierFrame("", "x")); first != c.first || second != c.second {
			t.Errorf("%s: %d pass, and %d after %v; want %d and %d", c.rule, first, second, c.after, c.first, c.second)
		}
	}
}

// A pacer in the rules delays frames.
func TestRulesWithAPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, err := rules.New(memory.NewStore(), mustParse(t,
			`{"default": {"limits": [{"kind": "pacer", "perSecond": 10, "burst": 1, "maxWait": "250ms"}]}}`), rules.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h, began := limits.Middleware(ingress.Pass), time.Now()
		for range 5 {
			if err := h(tierFrame("", "x")); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 400*time.Millisecond {
			t.Errorf("five frames took %v, want 400ms", took)
		}
	})
}

// The values of a rule come from the first rule that has them: the type in the tenant, in the
// tier, the type, the tenant, the tier; and a type goes before its groups, a long group before a
// short one.
func TestTiersAndGroups(t *testing.T) {
	given := mustParse(t, `{
		"default": {"perMinute": 600, "burst": 20},
		"tiers": {
			"free": {"perMinute": 60, "types": {"report.*": {"perDay": 3}, "chat.send": {"burst": 4}}},
			"paid": {"burst": 90}
		},
		"tenants": {"acme": {"burst": 50, "types": {"report.sales.*": {"cost": 7}}}},
		"types": {
			"report.*": {"perHour": 10, "burst": 9, "cost": 2},
			"report.sales.*": {"burst": 8},
			"report.sales.total": {"cost": 3},
			"chat.send": {"burst": 6}
		}
	}`)
	for _, c := range []struct{ tenant, tier, typ, rate, burst, cost string }{
		{"", "", "x", "600 (default.perMinute)", "20 (default.burst)", "0"},
		{"", "free", "x", "60 (tiers.free.perMinute)", "20 (default.burst)", "0"},
		{"", "paid", "x", "600 (default.perMinute)", "90 (tiers.paid.burst)", "0"},
		{"acme", "paid", "x", "600 (default.perMinute)", "50 (tenants.acme.burst)", "0"},
		{"", "free", "chat.send", "60 (tiers.free.perMinute)", `4 (tiers.free.types["chat.send"].burst)`, "0"},
		{"", "paid", "chat.send", "600 (default.perMinute)", `6 (types["chat.send"].burst)`, "0"},
		{"", "", "report.a", `10 per 1h0m0s (types["report.*"].perHour)`, `9 (types["report.*"].burst)`, `2 (types["report.*"].cost)`},
		{"", "", "report.a.b", `10 per 1h0m0s (types["report.*"].perHour)`, `9 (types["report.*"].burst)`, `2 (types["report.*"].cost)`},
		{"", "", "report", "600 (default.perMinute)", "20 (default.burst)", "0"},
		{"", "", "reports.a", "600 (default.perMinute)", "20 (default.burst)", "0"},
		{"", "", "report.sales.a", `10 per 1h0m0s (types["report.*"].perHour)`, `8 (types["report.sales.*"].burst)`, `2 (types["report.*"].cost)`},
		{"", "", "report.sales.total", `10 per 1h0m0s (types["report.*"].perHour)`, `8 (types["report.sales.*"].burst)`, `3 (types["report.sales.total"].cost)`},
		{"", "free", "report.a", `3 per 24h0m0s (tiers.free.types["report.*"].perDay)`, `9 (types["report.*"].burst)`, `2 (types["report.*"].cost)`},
		{"acme", "free", "report.sales.total", `3 per 24h0m0s (tiers.free.types["report.*"].perDay)`, `8 (types["report.sales.*"].burst)`, `7 (tenants.acme.types["report.sales.*"].cost)`},
	} {
		e, err := given.Effective(&ingress.Context{Type: c.typ, Identity: ingress.Identity{Tenant: c.tenant, Tier: c.tier}})
		if err != nil {
			t.Fatal(err)
		}
		if e.Rate.String() != c.rate || e.Burst.String() != c.burst || e.Cost.String() != c.cost {
			t.Errorf("%s/%s %s\n\tgot  %v, %v, %v\n\twant %s, %s, %s", c.tenant, c.tier, c.typ, e.Rate, e.Burst, e.Cost, c.rate, c.burst, c.cost)
		}
	}
}

// A user with connections of two tiers gets what each allows, and no more, whatever the order.
func TestTiersAreCountedSeparately(t *testing.T) {
	s := newTimed(t, `{"default": {"perMinute": 1, "burst": 3}, "tiers": {"free": {"burst": 5}, "paid": {"perMinute": 2, "burst": 50}}}`, rules.Options{})
	passed := map[string]int{}
	for range 100 {
		for _, tier := range []string{"", "free", "paid"} {
			if s.handle(tierFrame(tier, "x")) == nil {
				passed[tier]++
			}
		}
	}
	if passed[""] != 3 || passed["free"] != 5 || passed["paid"] != 50 {
		t.Errorf("%v pass", passed)
	}
}

// What is exempt is not charged, also under a maximum, and a rule for a user goes before it.
func TestExemptTypes(t *testing.T) {
	s := newTimed(t, `{
		"maximum": {"perMinute": 60, "burst": 5}, "default": {"perMinute": 60, "burst": 2},
		"types": {"ping": {"exempt": true}, "log.*": {"unlimited": true}},
		"overrides": [{"user": "bob", "perMinute": 1, "burst": 1}]
	}`, rules.Options{})
	if n := admits(s.handle, frame("", "ann", "", "ping")); n != 100 || s.Stats().Allowed != 0 {
		t.Errorf("%d pass, %+v", n, s.Stats())
	}
	if n := admits(s.handle, frame("", "ann", "", "log.a")); n != 5 {
		t.Errorf("%d of an unlimited type pass a maximum of 5", n)
	}
	if n := admits(s.handle, frame("", "bob", "", "ping")); n != 1 {
		t.Errorf("%d of a user with a rule pass", n)
	}
	if e := effective(t, s.Limiter, frame("", "ann", "", "ping")); e.Limited || e.From != "types.ping.exempt" {
		t.Errorf("%+v", e)
	}
}

// Silent frames are rejected without an answer, by any rule for them.
func TestSilentRules(t *testing.T) {
	s := newTimed(t, `{"default": {"perMinute": 1, "burst": 1}, "types": {"cursor.*": {"silent": true}}}`, rules.Options{})
	for typ, want := range map[string]bool{"cursor.move": true, "chat": false} {
		_ = s.handle(tierFrame("", typ))
		e, ok := errors.AsType[*errors.LimitExceeded](s.handle(tierFrame("", typ)))
		if !ok || e.Silent != want {
			t.Errorf("%s: %+v", typ, e)
		}
	}
}

// A limit in shadow mode is charged, counted and reported, and refuses nothing, also when the
// store fails. Other limits are enforced.
func TestShadowOfARule(t *testing.T) {
	var reports []string
	s := newTimed(t, `{"default": {"perMinute": 1, "burst": 2}, "tiers": {"free": {"types": {"report.*": {"perHour": 10, "burst": 3, "shadow": true}}}}}`,
		rules.Options{Options: ratelimit.Options{OnLimited: func(_ *ingress.Context, l ratelimit.Limited) {
			reports = append(reports, fmt.Sprint(l.Rule, l.Shadow, l.Decision.Limit))
		}}})
	if n := admits(s.handle, tierFrame("free", "report.a")); n != 100 {
		t.Errorf("%d pass", n)
	}
	if len(reports) != 97 || reports[0] != `tiers.free.types["report.*"].perHourtrue 3` || s.Stats().Shadowed != 97 || s.Stats().Denied != 97 {
		t.Errorf("%d reports, the first %q; %+v", len(reports), reports[0], s.Stats())
	}
	if n := admits(s.handle, tierFrame("free", "x")); n != 2 {
		t.Errorf("%d pass a limit that is enforced", n)
	}
	if got := reports[len(reports)-1]; got != "default.perMinutefalse 2" {
		t.Errorf("%q", got)
	}

	failing, err := rules.New(erroringStore{}, mustParse(t, `{"default": {"perMinute": 1, "burst": 2, "shadow": true}}`),
		rules.Options{Limiter: limit.Options{Name: "n", OnFailure: limit.FailClosed}})
	if err != nil {
		t.Fatal(err)
	}
	if n := admits(failing.Middleware(ingress.Pass), tierFrame("", "x")); n != 100 {
		t.Errorf("%d pass while the store fails", n)
	}
}

type erroringStore struct{}

func (erroringStore) Take(context.Context, []byte, limit.Policy, int64) (limit.Decision, error) {
	return limit.Decision{}, errors.New("broken")
}

// What was used counts after a change to the numbers of limits; a limit whose policy did not
// change keeps its state whatever else changes.
func TestReplaceKeepsTheStateOfLimits(t *testing.T) {
	const kept = `"login": {"limits": [{"kind": "log", "limit": 5, "window": "15m"}, {"kind": "fixedWindow", "limit": 9, "window": "1d"}]}`
	s := newTimed(t, `{"default": {"perMinute": 1, "burst": 1}, "types": {`+kept+`, "quota": {"limits": [{"kind": "fixedWindow", "limit": 10, "window": "1d"}]}}}`, rules.Options{})
	if a, b := admits(s.handle, tierFrame("", "login")), admits(s.handle, tierFrame("", "quota")); a != 5 || b != 10 {
		t.Fatalf("%d and %d pass", a, b)
	}
	if err := s.Replace(mustParse(t, `{"default": {"perHour": 3, "burst": 7}, "tiers": {"x": {"exempt": true}},
		"types": {`+kept+`, "quota": {"limits": [{"kind": "fixedWindow", "limit": 12, "window": "1d"}]}}}`)); err != nil {
		t.Fatal(err)
	}
	if a, b := admits(s.handle, tierFrame("", "login")), admits(s.handle, tierFrame("", "quota")); a != 0 || b != 2 {
		t.Errorf("%d and %d pass after the change", a, b)
	}
	s.now += 15 * time.Minute
	if n := admits(s.handle, tierFrame("", "login")); n != 4 {
		t.Errorf("%d pass after 15 minutes, want what is left of the day", n)
	}
}

func TestErrorsOfLimits(t *testing.T) {
	rule := func(inner string) string {
		return `{"default": {"perMinute": 600, "burst": 20}, "types": {"x": {` + inner + `}}}`
	}
	one := func(inner string) string { return rule(`"limits": [{` + inner + `}]`) }
	for _, c := range []struct{ document, path, says string }{
		{rule(`"perHour": 0`), "types.x.perHour", "is 0; it must be a whole number from 1 to 30000000"},
		{rule(`"every": "1.5s"`), "types.x.every", `such as "90s"`},
		{rule(`"every": "10000s"`), "types.x.every", "from 1 to 9999"},
		{rule(`"every": "0s"`), "types.x.every", "from 1 to 9999"},
		{rule(`"every": ""`), "types.x.every", "from 1 to 9999"},
		{rule(`"every": 90`), "types.x.every", "is 90; it must be"},
		{rule(`"perHour": 1, "perDay": 9`), "types.x", "has perHour and perDay; write one of them"},
		{rule(`"perHour": 1, "perSecond": 9`), "types.x", "write one of them"},
		{rule(`"perHour": 1, "unlimited": true`), "types.x", "write one of them"},
		{rule(`"every": "1s", "exempt": true`), "types.x", "has every and exempt; write one of them"},
		{rule(`"limits": [], "burst": 2`), "types.x.limits", "is empty"},
		{rule(`"exempt": true, "burst": 2`), "types.x.burst", "has no effect on exempt"},
		{rule(`"limits": [{"kind": "log", "limit": 5, "window": "1m"}], "burst": 2`), "types.x.burst", "has no effect on limits"},
		{rule(`"exempt": false`), "types.x.exempt", "must be true, or left out"},
		{rule(`"silent": 1`), "types.x.silent", "must be true, or left out"},
		{rule(`"shadow": true`), "types.x.shadow", "write a rate or limits next to it"},
		{rule(`"shadow": true, "unlimited": true`), "types.x.shadow", "write a rate or limits next to it"},
		{rule(`"limits": {}`), "types.x.limits", "must be an array"},
		{rule(`"limits": [{"kind": "log", "limit": 5, "window": "1m"}, {"kind": "log", "limit": 0}]`), "types.x.limits[1].limit", "is 0;"},
		{one(``), "types.x.limits[0].kind", "is missing; it must be bucket, pacer, fixedWindow, calendar, slidingWindow or log"},
		{one(`"kind": "leaky"`), "types.x.limits[0].kind", `is "leaky"; it must be bucket`},
		{one(`"kind": "log", "limit": 5`), "types.x.limits[0].window", "is missing; a log has limit and window"},
		{one(`"kind": "log", "limit": 5, "window": "1m", "burst": 2`), "types.x.limits[0].burst", "is not for the kind log"},
		{one(`"kind": "log", "limit": 1001, "window": "1m"`), "types.x.limits[0]", "Limit must be at most 1000"},
		{one(`"kind": "bucket", "burst": 5`), "types.x.limits[0].perMinute", "is missing; a bucket has one of perSecond"},
		{one(`"kind": "bucket", "burst": 5, "perHour": 2, "every": "1m"`), "types.x.limits[0]", "has several rates"},
		{one(`"kind": "pacer", "burst": 5, "perHour": 2`), "types.x.limits[0].maxWait", "is missing"},
		{one(`"kind": "calendar", "limit": 5`), "types.x.limits[0].period", "is missing; a calendar has limit and period"},
		{one(`"kind": "calendar", "limit": 5, "period": "year"`), "types.x.limits[0].period", "is \"year\"; it must be day, week or month"},
		{one(`"kind": "calendar", "limit": 5, "period": "day", "location": "Mars/Base"`), "types.x.limits[0].location", "is not known here"},
		{one(`"kind": "calendar", "limit": 5, "period": "day", "location": "Local"`), "types.x.limits[0]", "time.Local differs between machines"},
		{one(`"kind": "fixedWindow", "limit": 5, "window": "1m", "period": "day"`), "types.x.limits[0].period", "is not for the kind fixedWindow"},
		{one(`"kind": "fixedWindow", "limit": 5, "window": "1m", "name": ""`), "types.x.limits[0].name", "is empty"},
		{one(`"kind": "fixedWindow", "limit": 5, "window": "1m", "max": 1`), "types.x.limits[0].max", "the names are kind, name,"},
		{one(`"kind": "slidingWindow", "limit": 30000000, "window": "9999d"`), "types.x.limits[0]", "cannot be enforced: limit:"},
		{rule(`"cost": 6, "limits": [{"kind": "log", "limit": 5, "window": "1m"}]`), "types.x", "a frame would never pass"},
		{rule(`"limits": [` + strings.Repeat(`{"kind": "log", "limit": 5, "window": "1m"},`, 8) + `{"kind": "log", "limit": 5, "window": "1m"}]`), "types.x.limits", "at most 8"},
		{`{"maximum": {"perMinute": 9, "burst": 9}, "default": {"limits": [` + strings.Repeat(`{"kind": "log", "limit": 5, "window": "1m"},`, 7) + `{"kind": "log", "limit": 5, "window": "1m"}]}}`, "default.limits", "at most 8"},
		{rule(`"perDay": 1, "burst": 30000000`), "types.x.perDay", "cannot be counted exactly with a burst of 30000000"},
		{`{"default": {"perMinute": 600, "burst": 20}, "types": {"x": {"perDay": 1}}, "overrides": [{"user": "ann", "burst": 90000}]}`, "types.x.perDay", "cannot be counted exactly with a burst of 90000"},
		{`{"default": {"perMinute": 600, "burst": 20}, "types": {"a.*": {"perDay": 1, "burst": 1}, "a.b": {"burst": 90000}}}`, `types["a.*"].perDay`, "cannot be counted exactly with a burst of 90000"},
		{`{"maximum": {"perDay": 1, "burst": 90000}, "default": {"perMinute": 600, "burst": 20}}`, "maximum", "cannot be counted exactly"},
		{`{"maximum": {"perDay": 1, "perHour": 1, "burst": 9}, "default": {"perMinute": 600, "burst": 20}}`, "maximum", "write one of them"},
		{`{"default": {"perMinute": 600, "burst": 20}, "types": {"*": {"burst": 1}}}`, `types["*"]`, `such as "report.*"`},
		{`{"default": {"perMinute": 600, "burst": 20}, "types": {".*": {"burst": 1}}}`, `types[".*"]`, "is no name of a type or a group"},
		{`{"default": {"perMinute": 600, "burst": 20}, "types": {"a*": {"burst": 1}}}`, `types["a*"]`, "is no name of a type or a group"},
		{`{"default": {"perMinute": 600, "burst": 20}, "tiers": {"free": {"types": {"a.*.b": {"burst": 1}}}}}`, `tiers.free.types["a.*.b"]`, "is no name of a type or a group"},
		{`{"default": {"perMinute": 600, "burst": 20}, "tiers": {"free": {"perMonth": 1}}}`, "tiers.free.perMonth", "is not a name of the rules"},
		{`{"default": {"exempt": true}, "types": {"x": {"perHour": 2}}}`, "types.x.burst", "is missing"},
	} {
		_, err := rules.Parse([]byte(c.document))
		e, ok := errors.AsType[*rules.Error](err)
		if !ok || e.Path != c.path || !strings.Contains(e.Problem, c.says) {
			t.Errorf("%s\n\tgot  %v\n\twant %q … %s", c.document, err, c.path, c.says)
		}
	}
}

// A slow rate may stand beside a large burst of a rule that does not apply with it.
func TestSlowRateBesideALargeBurst(t *testing.T) {
	mustParse(t, `{"default": {"perMinute": 600, "burst": 100000}, "types": {"x": {"perDay": 3, "burst": 1}}}`)
}
