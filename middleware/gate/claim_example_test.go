package gate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/middleware/gate"
)

// A session before a token before the address; secrets only as hashes.
func ExampleFirstOf() {
	identify := gate.FirstOf(gate.BySession("sid"), gate.ByBearer, gate.ByIP(ingress.PeerIP))
	r := &http.Request{RemoteAddr: "203.0.113.9:4711", Header: http.Header{}}
	subject, _ := identify(r)
	fmt.Println(subject)
	r.Header.Set("Authorization", "Bearer secret")
	subject, _ = identify(r)
	fmt.Println(subject)
	// Output:
	// ip:203.0.113.9
	// bearer:2bb80d537b1da3e38bd30361aa855686
}

// What names a client of the application's own: a secret is kept as a hash, a public
// name as it is.
func ExampleBySecret() {
	device := gate.BySecret("device", func(r *http.Request) string { return r.URL.Query().Get("device_key") })
	app := gate.ByName("app", func(r *http.Request) string { return r.Header.Get("X-App-Id") })

	r := httptest.NewRequest("GET", "/ws?device_key=secret", nil)
	r.Header.Set("X-App-Id", "kiosk")
	for _, identify := range []gate.Identifier{device, app, gate.ByAPIKey("X-API-Key")} {
		subject, ok := identify(r)
		fmt.Println(subject, ok)
	}
	// Output:
	// device:2bb80d537b1da3e38bd30361aa855686 true
	// app:kiosk true
	// : false
}
