package ingress_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

// Behind one proxy, only the address that the proxy has appended is trusted.
func ExampleClientIP() {
	clientIP := ingress.ClientIP(ingress.Trust{Proxies: 1})
	r := &http.Request{
		RemoteAddr: "10.0.0.1:4711",
		Header:     http.Header{"X-Forwarded-For": {"1.1.1.1, 203.0.113.9"}}, // the client has sent 1.1.1.1
	}
	fmt.Println(clientIP(r))
	// Output: 203.0.113.9
}

// Behind a network of proxies that names the client in a field of its own, trusted
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

// A gate that refuses all connections during maintenance. It is set as
// router.Options{Gate: closed(true)}.
func ExampleGate() {
	_, err := closed(true).Admit(httptest.NewRequest("GET", "/ws", nil), netip.MustParseAddr("192.0.2.1"))
	fmt.Println(err, errors.From(err).RetryAfter)
	// Output: UNAVAILABLE: back in a minute 1m0s
}

type closed bool

func (c closed) Admit(*http.Request, netip.Addr) (ingress.Admission, error) {
	if c {
		return nil, errors.Unavailable.New("back in a minute").WithRetryAfter(time.Minute)
	}
	return visitor{}, nil
}

type visitor struct{}

func (visitor) Identify(context.Context, *ingress.Identity) error { return nil }
func (visitor) Release()                                          {}

// The three ways to send a token.
func ExampleToken() {
	// new WebSocket("wss://example.com/ws", ["chat", "bearer.3c59dc04"])
	page, _ := http.NewRequest(http.MethodGet, "/ws", nil)
	page.Header.Set("Sec-WebSocket-Protocol", "chat, bearer.3c59dc04")
	fmt.Println(ingress.Token(page))

	link, _ := http.NewRequest(http.MethodGet, "/ws?access_token=3c59dc04", nil)
	fmt.Println(ingress.Token(link))

	program, _ := http.NewRequest(http.MethodGet, "/ws", nil)
	program.Header.Set("Authorization", "Bearer 3c59dc04")
	fmt.Println(ingress.Token(program))
	// Output:
	// 3c59dc04
	// 3c59dc04
	// 3c59dc04
}
