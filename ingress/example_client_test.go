package ingress_test

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/wskit/wskit/ingress"
)

// Behind one proxy, only the address that the proxy has appended is believed.
func ExampleClientIP() {
	clientIP := ingress.ClientIP(ingress.Trust{Proxies: 1})
	r := &http.Request{
		RemoteAddr: "10.0.0.1:4711",
		Header:     http.Header{"X-Forwarded-For": {"1.1.1.1, 203.0.113.9"}}, // the client has sent 1.1.1.1
	}
	fmt.Println(clientIP(r))
	// Output: 203.0.113.9
}

// Behind a network of proxies that names the client in a field of its own, believed
// only from the addresses of that network.
func ExampleTrust() {
	clientIP := ingress.ClientIP(ingress.Trust{
		Header:   "CF-Connecting-IP",
		Prefixes: []netip.Prefix{netip.MustParsePrefix("173.245.48.0/20")},
	})
	header := http.Header{"Cf-Connecting-Ip": {"203.0.113.9"}}
	fmt.Println(clientIP(&http.Request{RemoteAddr: "173.245.48.5:4711", Header: header}))
	fmt.Println(clientIP(&http.Request{RemoteAddr: "198.51.100.7:4711", Header: header}))
	// Output:
	// 203.0.113.9
	// 198.51.100.7
}

// A session before a token before the address; secrets only as hashes.
func ExampleFirstOf() {
	identify := ingress.FirstOf(ingress.BySession("sid"), ingress.ByBearer, ingress.ByIP(ingress.PeerIP))
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
