package rules_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
)

func memoryAt(now func() time.Time) limit.Store { return memory.NewStore(memory.Options{Now: now}) }

func ExampleDryRun() {
	given, _ := rules.Parse([]byte(`{
		"default": {"perMinute": 60, "burst": 2},
		"tiers":   {"free": {"types": {"report.*": {"perHour": 1, "burst": 1}}}},
		"deny":    [{"user": "bob"}]
	}`))
	log := strings.NewReader(`
{"time": "2026-11-22T15:00:00Z", "user": "ann", "tier": "free", "type": "report.daily"}
{"time": "2026-11-22T15:00:01Z", "user": "bob", "type": "chat.send"}
{"time": "2026-11-22T15:30:00Z", "user": "ann", "tier": "free", "type": "report.daily"}
{"time": "2026-11-22T16:00:00Z", "user": "ann", "tier": "free", "type": "report.daily"}
{"time": "2026-11-22T16:00:00Z", "ip": "192.0.2.7", "type": "upload", "cost": 3}
`)
	store := func(now func() time.Time) limit.Store { return memory.NewStore(memory.Options{Now: now}) }
	report, err := rules.DryRun(given, store, rules.Options{}, log)
	fmt.Println(report.Messages, report.Refused, err)
	for _, c := range report.Clients {
		fmt.Println(c.Refused, c.Subject.User, c.Subject.IP, c.Type, c.Rule, c.First.Format(time.TimeOnly))
	}
	// Output:
	// 5 3 <nil>
	// 1 bob invalid Prefix chat.send deny[0] 15:00:01
	// 1 ann invalid Prefix report.daily tiers.free.types["report.*"].perHour 15:30:00
	// 1  192.0.2.7/32 upload default.perMinute 16:00:00
}

func TestDryRunErrors(t *testing.T) {
	given := mustParse(t, `{"default": {"perMinute": 60, "burst": 2}}`)
	const fine = `{"time": "2026-11-22T15:00:00Z", "type": "x"}` + "\n"
	for _, c := range []struct{ log, says string }{
		{fine + `{"type": "x"}`, `line 2 of the log: "time" is missing; write it as`},
		{fine + `{"time": "yesterday"}`, "line 2 of the log cannot be read"},
		{fine + `{"time": "2026-11-22T14:59:59Z"}`, `line 2 of the log: "time" is 2026-11-22T14:59:59Z, before that of an earlier line; sort`},
		{fine + `{"time": "2026-11-22T15:00:00Z", "cost": 0}`, `"cost" is 0; it must be at least 1`},
		{fine + `{"time": "2026-11-22T15:00:00Z", "kind": "x"}`, "a line has time, tenant, user, ip, tier, type and cost"},
		{`{"time": "1969-11-22T15:00:00Z"}`, "before 1970"},
		{fine + "\n" + `{"time"`, "line 3 of the log cannot be read"},
	} {
		if _, err := rules.DryRun(given, memoryAt, rules.Options{}, strings.NewReader(c.log)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s\n\tgot  %v\n\twant %s", c.log, err, c.says)
		}
	}
	if _, err := rules.DryRun(rules.Rules{}, memoryAt, rules.Options{}, strings.NewReader(fine)); err == nil {
		t.Error("the zero Rules are accepted")
	}
}

// A dry run refuses what a server with the rules has refused, message by message.
func TestDryRunEqualsTheServer(t *testing.T) {
	const document = `{
		"maximum": {"perMinute": 600, "burst": 30},
		"default": {"perMinute": 60, "burst": 5},
		"tiers": {"paid": {"perMinute": 300, "burst": 20}},
		"types": {
			"report.*": {"perHour": 20, "burst": 2}, "ping": {"exempt": true},
			"login": {"limits": [{"kind": "log", "limit": 3, "window": "1m"}, {"kind": "fixedWindow", "limit": 20, "window": "1h"}]},
			"search": {"perMinute": 10, "burst": 1, "shadow": true}
		},
		"deny": [{"user": "bob"}], "allow": [{"user": "probe"}]
	}`
	type key struct{ user, typ, rule string }
	want, shadowed, refused := map[key]int64{}, int64(0), int64(0)
	var reported ratelimit.Limited
	s := newTimed(t, document, rules.Options{Options: ratelimit.Options{
		Cost:      func(c *ingress.Context) int { return c.Size },
		OnLimited: func(_ *ingress.Context, l ratelimit.Limited) { reported = l },
	}})
	var log bytes.Buffer
	random := rand.New(rand.NewPCG(7, 7))
	began := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)
	s.now = time.Duration(began.UnixNano())
	for range 3000 {
		s.now += time.Duration(random.Int64N(int64(2 * time.Second))).Round(time.Microsecond)
		pick := func(of ...string) string { return of[random.IntN(len(of))] }
		c := frame("", pick("ann", "eve", "bob", "probe", ""), "192.0.2.1", pick("chat", "report.a", "report.b", "ping", "login", "search"))
		c.Identity.Tier, c.Size = pick("", "paid"), 1+random.IntN(2)
		line, _ := json.Marshal(map[string]any{
			"time": time.Unix(0, int64(s.now)).UTC(), "user": c.Identity.User, "ip": "192.0.2.1", "tier": c.Identity.Tier, "type": c.Type, "cost": c.Size,
		})
		log.Write(append(line, '\n'))
		reported = ratelimit.Limited{}
		err := s.handle(c)
		if rule := reported.Rule; err != nil || reported.Shadow {
			if rule == "" {
				rule = "deny[0]"
			}
			want[key{c.Identity.User, c.Type, rule}]++
			if reported.Shadow {
				shadowed++
			} else {
				refused++
			}
		}
	}
	report, err := rules.DryRun(mustParse(t, document), memoryAt, rules.Options{}, &log)
	if err != nil {
		t.Fatal(err)
	}
	if report.Messages != 3000 || report.Refused != refused || report.Shadowed != shadowed || refused < 300 || shadowed < 50 {
		t.Errorf("%d messages, %d refused, %d shadowed; the server has refused %d and shadowed %d", report.Messages, report.Refused, report.Shadowed, refused, shadowed)
	}
	got := map[key]int64{}
	for _, c := range report.Clients {
		got[key{c.Subject.User, c.Type, c.Rule}] += c.Refused
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// Messages that a pacer delays are counted, and cost no time.
func TestDryRunOfAPacer(t *testing.T) {
	given := mustParse(t, `{"default": {"limits": [{"kind": "pacer", "perHour": 1, "burst": 1, "maxWait": "2h"}]}}`)
	line := `{"time": "2026-11-22T15:00:00Z", "user": "ann", "type": "x"}` + "\n"
	report, err := rules.DryRun(given, memoryAt, rules.Options{}, strings.NewReader(strings.Repeat(line, 5)))
	if err != nil || report.Delayed != 2 || report.Refused != 2 {
		t.Errorf("%+v, %v", report, err)
	}
}
