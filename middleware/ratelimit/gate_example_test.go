package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// In an application, the router asks the gate: router.Options{Gate: gate}.
func ExampleNewGate() {
	store := memory.NewStore(memory.Options{Now: func() int64 { return 0 }})
	gate := ratelimit.NewGate(store, ratelimit.GateOptions{
		MaxPerUser: 4,
		OnRefused: func(r ratelimit.GateRefusal) {
			fmt.Println("refused by", r.Policy, "for", r.RetryAfter)
		},
	})
	server := router.New(router.Options{Gate: gate, ClientIP: ingress.ClientIP(ingress.Trust{Proxies: 1})})

	for range 6 {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/ws", nil)
		r.Header.Set("Upgrade", "websocket")
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		r.Header.Set("Authorization", "Bearer of Ann")
		server.ServeHTTP(w, r)
		if w.Code == 429 {
			fmt.Println(w.Code, "Retry-After:", w.Header().Get("Retry-After"))
		}
	}
	// Output:
	// refused by connections-per-identity for 6s
	// 429 Retry-After: 6
}

// The gate before the WebSocket handler of another library.
func ExampleGate_Handler() {
	gate := ratelimit.NewGate(memory.NewStore(memory.Options{Now: func() int64 { return 0 }}), ratelimit.GateOptions{
		PerIP:     limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second},
		OnRefused: func(ratelimit.GateRefusal) {}, // nothing is logged
	})
	handler := gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ann := ingress.Identity{User: "ann"} // the user of the request
		if err := ratelimit.Identify(r, ann); err != nil {
			ingress.Refuse(w, r, err)
			return
		}
		fmt.Println("upgrade, and serve until the connection ends")
	}))

	for range 2 {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/ws", nil)
		r.Header.Set("Upgrade", "websocket")
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	fmt.Printf("%+v\n", gate.Stats())
	// Output:
	// upgrade, and serve until the connection ends
	// 200
	// 429
	// {Admitted:1 Refused:1 Open:0}
}
