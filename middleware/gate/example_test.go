package gate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/router"
)

// In an application, the router asks the gate: router.Options{Gate: gate}.
func ExampleNew() {
	store := memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }})
	gate := gate.New(store, gate.Options{
		MaxPerUser: 4,
		OnRefused: func(r gate.Refusal) {
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
	door := gate.New(memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }}), gate.Options{
		PerIP:     limit.TokenBucket{Capacity: 1, Refill: 1, Per: time.Second},
		OnRefused: func(gate.Refusal) {}, // nothing is logged
	})
	handler := door.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ann := ingress.Identity{User: "ann"} // the user of the request
		if err := gate.Identify(r, ann); err != nil {
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
	fmt.Printf("%+v\n", door.Stats())
	// Output:
	// upgrade, and serve until the connection ends
	// 200
	// 429
	// {Admitted:1 Refused:1 Open:0}
}
