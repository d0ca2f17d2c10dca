package gate_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/router"
)

// What a refused handshake costs besides what net/http takes for any request.
func BenchmarkRefusedHandshake(b *testing.B) {
	gate := gate.New(memory.NewStore(), gate.Options{
		PerIP: limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Hour}, OnRefused: func(gate.Refusal) {},
	})
	r := router.New(router.Options{Gate: gate})
	req := httptest.NewRequest("GET", "/ws", nil)
	req.Header = http.Header{"Upgrade": {"websocket"}, "Authorization": {"Bearer made-up"}}
	w := discard{}
	b.ReportAllocs()
	for b.Loop() {
		clear(w)
		r.ServeHTTP(w, req)
	}
}

// discard is an http.ResponseWriter that keeps its header alone.
type discard http.Header

func (w discard) Header() http.Header       { return http.Header(w) }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
