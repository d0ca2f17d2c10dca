package rules_test

import (
	"fmt"
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
)

// Peek and PeekConcurrent return a limit only for clients that it applies to, and charge nothing.
func TestPeekFollowsTheRules(t *testing.T) {
	const document = `{
		%s
		"default": {"perMinute": 60, "burst": 5},
		"types": {"report": {"concurrent": 2}, "ping": {"exempt": true}},
		"allow": [{"tenant": "acme", "user": "eve"}], "deny": [{"tenant": "acme", "user": "bob"}]
	}`
	for _, c := range []struct {
		disabled, user, typ string
		remaining, places   int64
	}{
		{"", "ann", "report", 5, 2},
		{"", "ann", "chat", 5, 0},
		{"", "ann", "ping", 0, 0},
		{"", "eve", "report", 0, 0},
		{"", "bob", "report", 0, 0},
		{`"disabled": true,`, "ann", "report", 0, 0},
	} {
		given := mustParse(t, fmt.Sprintf(document, c.disabled))
		limits, err := rules.New(memory.NewStore(), given)
		if err != nil {
			t.Fatal(err)
		}
		f := frame("acme", c.user, "", c.typ)
		for range 2 { // the second one shows that the first has charged nothing
			e, d, err := limits.Peek(t.Context(), f)
			places, err2 := limits.PeekConcurrent(t.Context(), f)
			if err != nil || err2 != nil || e.Limited != (c.remaining > 0) || d.Remaining != c.remaining || places.Remaining != c.places {
				t.Errorf("%+v: limited %v, %d left, %d places free, %v, %v", c, e.Limited, d.Remaining, places.Remaining, err, err2)
			}
		}
	}
}
