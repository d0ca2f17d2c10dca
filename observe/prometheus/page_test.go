package prometheus_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/router"
)

import wsprom "github.com/wskit/wskit/observe/prometheus"

// The code of docs/observability.md, with a store and a broker in memory.
func TestObservabilityPage(t *testing.T) {
	store := memory.NewStore()
	broker := memory.NewBroker()
	perUser := limit.New(store, limit.TokenBucket{Capacity: 20, Refill: 10, Per: time.Second}, limit.Options{Name: "user"})
	gate := gate.New(store)
	r := router.New(router.Options{Gate: gate, Backend: adapters.Backend{Broker: broker}})
	registry := client.NewRegistry()
	mux := http.NewServeMux()

	registry.MustRegister(wsprom.NewCollector(r, wsprom.Options{
		Components: map[string]any{"user": perUser, "gate": gate, "redis": store, "broker": broker},
	}))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) // on a port that is not public

	server := httptest.NewServer(mux)
	defer server.Close()
	res, err := http.Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(text), "wskit_server_active_connections 0") {
		t.Errorf("%s\n%v", text, err)
	}
}
