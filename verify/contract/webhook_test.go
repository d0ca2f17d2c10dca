package contract_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/webhook"
)

// The library of Standard Webhooks verifies requests of package webhook, with each of their secrets.
func TestStandardWebhooks(t *testing.T) {
	type request struct {
		Secret  string            `json:"secret"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	}
	got := make(chan request, 1)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		headers := make(map[string]string)
		for name, values := range req.Header {
			headers[name] = values[0]
		}
		select {
		case got <- request{Headers: headers, Body: string(body)}:
		default:
		}
	}))
	defer service.Close()
	secrets := []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}
	ctx, cancel := context.WithCancel(t.Context())
	hook, err := webhook.New(ctx, router.New(), webhook.Options{URL: service.URL, Secrets: secrets, Private: true})
	if err != nil {
		t.Fatal(err)
	}
	defer hook.Wait()
	defer cancel()
	r := poll.Receive(t, got, "a request")
	for _, r.Secret = range secrets {
		in, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var body struct{ Events []webhook.Event }
		if err := json.Unmarshal(node(t, in, "webhook.mjs"), &body); err != nil || len(body.Events) != 1 || body.Events[0].Type != "reset" {
			t.Errorf("%v: %+v", err, body)
		}
	}
}
