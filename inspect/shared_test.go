package inspect_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/inspect"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/middleware/sharedrules"
	"github.com/wskit/wskit/router"
)

// Rules that are replaced on the page are those of all processes that share them, and of one that starts later.
func TestReplacingSharedRules(t *testing.T) {
	broker := memory.NewBroker()
	start := func() (*rules.Limiter, http.Handler) {
		given, err := rules.Parse([]byte(`{"default": {"perMinute": 60, "burst": 5}}`))
		if err != nil {
			t.Fatal(err)
		}
		limiter, err := rules.New(memory.NewStore(), given)
		if err != nil {
			t.Fatal(err)
		}
		shared, err := sharedrules.Follow(t.Context(), broker, limiter)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { shared.Close() })
		return limiter, inspect.Handler(router.New(router.Options{Backend: adapters.Backend{Broker: broker}}), inspect.Options{
			Authorize: func(*http.Request) (inspect.Viewer, error) { return inspect.Viewer{Name: "ann", Actions: true}, nil },
			Rules:     limiter, Shared: shared,
		})
	}
	one, page := start()
	two, _ := start()
	replace := func(body string) string {
		req := httptest.NewRequest(http.MethodPost, "/api/rules", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		page.ServeHTTP(w, req)
		return w.Body.String()
	}
	if got := replace(`{"rules": "{\"default\": {\"perMinute\": 60, \"burst\": 7}}"}`); strings.Contains(got, "error") {
		t.Fatal(got)
	}
	if got := replace(`{"rules": "{\"default\": {\"perMinute\": -60}}"}`); !strings.Contains(got, "perMinute") {
		t.Errorf("rules that make no sense: %s", got)
	}
	three, _ := start()
	for _, l := range []*rules.Limiter{one, two, three} {
		poll.Until(t, "a process has the rules", func() bool { return l.Rules().Default.Burst == 7 })
	}
}
