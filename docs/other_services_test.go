package docs_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/api"
	"github.com/wskit/wskit/ingress"
	programs "github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The code of other-services.md. Its programs run against the server.
func TestOtherServices(t *testing.T) {
	type paid struct {
		ID    int    `json:"id"`
		Buyer string `json:"buyer" validate:"required"`
	}
	t.Setenv("BILLING_SECRET", "3f9a0c52d1b84e67")
	t.Setenv("BACKOFFICE_SECRET", "77c1e20b94ad5f38")
	backend := adapters.Backend{Idempotency: memory.NewIdempotency(memory.IdempotencyOptions{})}
	bans := ratelimit.NewBans(memory.NewStore(memory.Options{}), ratelimit.BanOptions{})
	r := router.New(router.Options{
		Backend: backend,
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			return ingress.Identity{User: ingress.Token(req)}, nil
		},
	})
	r.Use(bans.Middleware)
	router.Declare[paid](r, "order.paid")
	router.RPC(r, "join", func(c *router.Context, topic string) (bool, error) { return true, c.Subscribe(topic) })
	mux := http.NewServeMux()
	mux.Handle("/v1/", api.Handler(r, api.Options{
		Authorize: api.Secrets(map[string]api.Grant{
			os.Getenv("BILLING_SECRET"):    {Name: "billing", Calls: []string{"publish", "send", "count"}, Topics: []string{"orders:*"}},
			os.Getenv("BACKOFFICE_SECRET"): {Name: "back office"},
		}),
		Bans:        bans,
		Idempotency: backend.Idempotency,
	}))
	server := httptest.NewServer(mux)
	defer server.Close()
	ann := routertest.New(t, r).Dial(routertest.DialOptions{Token: "ann"})
	for _, topic := range []string{"orders:7", "orders:8"} {
		routertest.ExpectReply[bool](ann.Request("join", topic))
	}
	page, err := os.ReadFile("other-services.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		language string
		command  []string
		want     string
		id       int
	}{
		{"sh", []string{"sh", "-c"}, "{}", 7},
		{"python", []string{"python3", "-c"}, "1 devices of ann are connected\nINVALID_ARGUMENT: payload is not valid: buyer does not pass required", 8},
	} {
		block := regexp.MustCompile("(?s)\n```" + p.language + "\n(.*?)```").FindSubmatch(page)
		if block == nil {
			t.Fatalf("the page has no program in %s", p.language)
		}
		tool := strings.Fields(string(block[1]))[0]
		if p.language != "sh" {
			tool = p.command[0]
		}
		if _, err := exec.LookPath(tool); err != nil {
			programs.Missing(t, tool+" is not installed; make python, or apt-get, installs it")
		}
		cmd := exec.CommandContext(t.Context(), p.command[0], append(p.command[1:], string(block[1]))...)
		cmd.Env = append(os.Environ(), "SERVER="+server.URL, "SECRET="+os.Getenv("BILLING_SECRET"))
		output, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(output), p.want) {
			t.Fatalf("%s: %v\n%s", p.language, err, output)
		}
		if got := routertest.ExpectEvent[paid](ann, "order.paid"); got.ID != p.id {
			t.Errorf("%s has published %+v", p.language, got)
		}
	}
}
