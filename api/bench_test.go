package api_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wskit/wskit/api"
	"github.com/wskit/wskit/router"
)

// BenchmarkBatch is the cost of a message in a batch of 50, without the network.
func BenchmarkBatch(b *testing.B) {
	r := router.New()
	router.Declare[paid](r, "order.paid")
	h := api.Handler(r, api.Options{
		Authorize: api.Secrets(map[string]api.Grant{everything: {Name: "ops"}}), Logger: slog.New(slog.DiscardHandler),
	})
	const call = `{"call":"publish","params":{"topic":"orders","event":"order.paid","data":{"id":7,"buyer":"ann"}}}`
	body := `{"calls":[` + strings.Repeat(call+",", 49) + call + `]}`
	b.ReportAllocs()
	for range b.N/50 + 1 {
		req := httptest.NewRequest(http.MethodPost, "/v1/batch", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+everything)
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, req); w.Code != http.StatusOK {
			b.Fatal(w.Code, w.Body)
		}
	}
}
