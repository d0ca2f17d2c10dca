package webhook_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/webhook"
)

// outcome is why events cannot be sent.
func outcome(t *testing.T, o webhook.Options) string {
	t.Helper()
	outages := make(chan errors.Outage, 10)
	o.Secrets, o.OnOutage = []string{secret}, func(out errors.Outage) { outages <- out }
	ctx, cancel := context.WithCancel(t.Context())
	w, err := webhook.New(ctx, router.New(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Wait()
	defer cancel()
	return poll.Receive(t, outages, "an outage").Err.Error()
}

// Nothing is sent to an address of this machine, a private network or the link, unless that is allowed: not under a name
// that leads there either.
func TestPrivateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"127.0.0.1", "localhost", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
		"[::1]", "[fc00::1]", "[fe80::1]", "[::ffff:127.0.0.1]", "2130706433",
	} {
		got := outcome(t, webhook.Options{URL: "https://" + host + ":9"})
		if !strings.Contains(got, "is an address of a private network") && !strings.Contains(got, "no such host") {
			t.Errorf("%s: %s", host, got)
		}
	}
}

// A redirect is a failure, and is not followed.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("a redirect is followed")
		http.Error(w, "", http.StatusTeapot)
	}))
	defer away.Close()
	service := httptest.NewServer(http.RedirectHandler(away.URL, http.StatusTemporaryRedirect))
	defer service.Close()
	if got := outcome(t, webhook.Options{URL: service.URL, Private: true}); !strings.Contains(got, "307") {
		t.Error(got)
	}
}

// No log has a secret, nor what a URL has as a password.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), nil))
	for _, service := range []string{"https://ann:hunter2@127.0.0.1:9", "https://ann:hunter2@[::1]:9/?key=hunter2"} {
		_ = outcome(t, webhook.Options{URL: service, Logger: logger})
	}
	text := func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	poll.Until(t, "both failures to be logged", func() bool { return strings.Count(text(), "private network") == 2 })
	_, err := webhook.New(t.Context(), router.New(), webhook.Options{URL: "ftp://ann:hunter2@127.0.0.1", Secrets: []string{secret}})
	if all := text() + err.Error(); strings.Contains(all, "hunter2") || strings.Contains(all, secret[6:]) {
		t.Error(all)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
