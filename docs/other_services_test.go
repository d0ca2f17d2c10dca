package docs_test

import (
	"bufio"
	"context"
	"net"
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
	"github.com/wskit/wskit/webhook"
)

// The service of other-services.md takes the events of a server.
func TestWebhookService(t *testing.T) {
	page, err := os.ReadFile("other-services.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```python\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d programs in Python, want 2", len(blocks))
	}
	if _, err := exec.LookPath("python3"); err != nil {
		programs.Missing(t, "python3 is not installed; make python, or apt-get, installs it")
	}
	t.Setenv("WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	addr := programs.FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	service := exec.CommandContext(t.Context(), "python3", "-c", string(blocks[1][1]))
	service.Env = append(os.Environ(), "PORT="+port)
	programs.DieWithParent(service)
	said, err := service.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Process.Kill(); _ = service.Wait() })

	ctx, cancel := context.WithCancel(t.Context())
	r := router.New()
	hook, err := webhook.New(ctx, r, webhook.Options{
		URL: "http://" + addr, Secrets: []string{os.Getenv("WEBHOOK_SECRET")}, Topics: []string{"orders:*"}, Private: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer hook.Wait()
	defer cancel()
	router.RPC(r, "join", func(c *router.Context, topic string) (bool, error) { return true, c.Subscribe(topic) })
	ann := routertest.New(t, r).Dial()
	routertest.ExpectReply[bool](ann.Request("join", "orders:7"))
	if err := hook.Send(ctx, "order.viewed", "orders:7", map[string]string{"by": "ann"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"occupied: orders:7": true, "orders:7 is looked at by ann": true}
	for lines := bufio.NewScanner(said); len(want) > 0 && lines.Scan(); {
		delete(want, lines.Text())
	}
	if len(want) > 0 {
		t.Errorf("the service does not say %v", want)
	}
}

// The options of webhooks in other-services.md.
func webhookOptions(ctx context.Context, r *router.Router) (*webhook.Webhook, error) {
	hook, err := webhook.New(ctx, r, webhook.Options{
		URL:     "https://shop.example/realtime",
		Secrets: []string{os.Getenv("WEBHOOK_SECRET")}, // "whsec_" and 32 random bytes in base64
		Topics:  []string{"orders:*"},
		Members: true,
	})
	return hook, err
}

var _ = webhookOptions

// The code of other-services.md. Its programs run against the server.
func TestOtherServices(t *testing.T) {
	type paid struct {
		ID    int    `json:"id"`
		Buyer string `json:"buyer" validate:"required"`
	}
	t.Setenv("BILLING_SECRET", "3f9a0c52d1b84e67")
	t.Setenv("BACKOFFICE_SECRET", "77c1e20b94ad5f38")
	backend := adapters.Backend{Idempotency: memory.NewIdempotency()}
	bans := ratelimit.NewBans(memory.NewStore())
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
