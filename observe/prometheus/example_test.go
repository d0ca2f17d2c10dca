package prometheus_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/observe/prometheus"
	"github.com/wskit/wskit/router"
)

func ExampleNewCollector() {
	perUser := limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 20, Refill: 10, Per: time.Second}, limit.Options{Name: "user"})
	r := router.New()
	r.Use(ratelimit.New(perUser, ratelimit.PerUserOrIP))

	registry := client.NewRegistry()
	registry.MustRegister(prometheus.NewCollector(r, prometheus.Options{Components: map[string]any{"user": perUser}}))
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})

	answer := httptest.NewRecorder()
	metrics.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "wskit_server_active_connections") || strings.HasPrefix(line, "wskit_limiter_decisions") {
			fmt.Print(line)
		}
	}
	// Output:
	// wskit_limiter_decisions_total{limiter="user",result="allowed"} 0
	// wskit_limiter_decisions_total{limiter="user",result="denied"} 0
	// wskit_server_active_connections 0
}
