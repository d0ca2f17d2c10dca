package docs_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// hangGuard only ends a test that hangs.
const hangGuard = time.Minute

// The recipes of proxies.md, behind a real nginx: the gate and the limiter see each
// client for itself, whatever the client writes into header fields.
func TestLimiterSeesTheClientBehindNginx(t *testing.T) {
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	for _, c := range []struct {
		name    string
		trust   ingress.Trust
		proxies int
	}{
		{"one proxy", ingress.Trust{Proxies: 1}, 1},
		{"one proxy at a known address", ingress.Trust{Proxies: 1, Prefixes: local}, 1},
		{"proxies at known addresses", ingress.Trust{Prefixes: local}, 2},
		{"the last of them, reached around the others", ingress.Trust{Prefixes: local}, 1},
		{"a balancer before nginx", ingress.Trust{Proxies: 2}, 2},
		{"RFC 7239", ingress.Trust{Header: "Forwarded", Proxies: 1}, 1},
		{"a field that the proxy sets", ingress.Trust{Header: "X-Real-IP", Prefixes: local}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			clientIP := ingress.ClientIP(c.trust)
			store := memory.NewStore()
			r := router.New(router.Options{
				ClientIP: clientIP,
				Gate:     gate.New(store, gate.Options{MaxPerIP: 3, OnRefused: func(gate.Refusal) {}}),
			})
			two := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Hour})
			r.Use(ratelimit.New(two, ratelimit.PerIP))
			router.RPC(r, "ip", func(c *router.Context, _ struct{}) (string, error) { return c.IP().String(), nil })
			server := httptest.NewServer(r)
			t.Cleanup(server.Close)
			addr := server.Listener.Addr().String()
			for range c.proxies {
				addr = startNginx(t, addr)
			}

			for _, client := range []string{"127.0.0.2", "127.0.0.3"} {
				for i, want := range []string{client, client, "RESOURCE_EXHAUSTED"} {
					ws, _ := dial(t, addr, client, i) // each time with another forged address
					if ws == nil {
						t.Fatalf("connection %d of %s is refused", i+1, client)
					}
					if got := ask(t, ws); !strings.Contains(got, strconv.Quote(want)) {
						t.Errorf("message %d of %s is answered %s, want %s", i+1, client, got, want)
					}
				}
				if _, status := dial(t, addr, client, 4); status != http.StatusTooManyRequests {
					t.Errorf("a connection too many of %s is answered %d", client, status)
				}
			}
		})
	}
}

// The code of proxies.md.
func behindOneProxy() *router.Router {
	r := router.New(router.Options{ClientIP: ingress.ClientIP(ingress.Trust{Proxies: 1})})
	return r
}

func identifying(store limit.Store, clientIP func(*http.Request) netip.Addr) ingress.Gate {
	identify := gate.FirstOf(
		gate.BySession("sid"),
		gate.ByBearer,
		gate.ByAPIKey("X-API-Key"),
		gate.ByIP(clientIP),
	)
	gate := gate.New(store, gate.Options{Identify: identify})
	return gate
}

// The address that the one proxy adds is the client's.
func TestProxiesPage(t *testing.T) {
	r := behindOneProxy()
	router.RPC(r, "ip", func(c *router.Context, _ struct{}) (string, error) { return c.IP().String(), nil })
	c := routertest.New(t, r).Dial(routertest.DialOptions{Header: http.Header{"X-Forwarded-For": {"203.0.113.9, 192.0.2.1"}}})
	if got := routertest.ExpectReply[string](c.Request("ip", nil)); got != "192.0.2.1" {
		t.Errorf("the client is %s", got)
	}

	gate := identifying(memory.NewStore(), ingress.PeerIP)
	s := routertest.New(t, router.New(router.Options{Gate: gate}))
	s.Dial(routertest.DialOptions{Header: http.Header{"Cookie": {"sid=a"}}})
}

// A client that reaches nginx without Cloudflare may send Cloudflare's field itself. A
// server that trusts nginx for it, by mistake, does not get it.
func TestForgedCloudflareFieldDoesNotPassNginx(t *testing.T) {
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	r := router.New(router.Options{ClientIP: ingress.ClientIP(ingress.Trust{Header: "CF-Connecting-IP", Prefixes: local})})
	router.RPC(r, "ip", func(c *router.Context, _ struct{}) (string, error) { return c.IP().String(), nil })
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	ws, status := dial(t, startNginx(t, server.Listener.Addr().String()), "127.0.0.2", 7)
	if ws == nil {
		t.Fatalf("the handshake is answered %d", status)
	}
	if got := ask(t, ws); !strings.Contains(got, `"127.0.0.1"`) {
		t.Errorf("the client is %s, want nginx's own address", got)
	}
}

// Behind nginx, and behind a balancer before it that ends TLS, a page connects to its own
// host with its own scheme alone.
func TestPagesBehindNginx(t *testing.T) {
	r := router.New(router.Options{Handshake: router.Handshake{Hosts: []string{"app.example"}}, Logger: slog.New(slog.DiscardHandler)})
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	addr := startNginx(t, server.Listener.Addr().String())
	for _, c := range []struct {
		host, origin, proto string
		status              int
	}{
		{"app.example", "http://app.example", "", 101},
		{"app.example", "https://app.example", "https", 101},
		{"app.example", "http://app.example", "https", 403},
		{"app.example", "http://evil.example", "", 403},
		{"evil.example", "http://evil.example", "", 421},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
		defer cancel()
		header := http.Header{"Origin": {c.origin}}
		if c.proto != "" { // from the balancer
			header.Set("X-Forwarded-Proto", c.proto)
		}
		ws, res, err := websocket.Dial(ctx, "ws://"+addr, &websocket.DialOptions{Host: c.host, HTTPHeader: header})
		if res == nil {
			t.Fatal(err)
		}
		if res.StatusCode != c.status {
			t.Errorf("%+v: answered %d", c, res.StatusCode)
		}
		if ws != nil {
			_ = ws.CloseNow()
		}
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// nginx ends a connection that is silent for proxy_read_timeout, and pings before that keep it open.
func TestPingsKeepConnectionsOpenBehindNginx(t *testing.T) {
	t.Parallel() // it waits 6 s
	soon := strings.NewReplacer("proxy_read_timeout 90s", "proxy_read_timeout 6s")
	connect := func(ping time.Duration) (ws *websocket.Conn) {
		r := router.New(router.Options{Liveness: router.Liveness{PingInterval: ping, PongTimeout: hangGuard}, Logger: slog.New(slog.DiscardHandler)})
		router.RPC(r, "ip", func(c *router.Context, _ struct{}) (string, error) { return c.IP().String(), nil })
		server := httptest.NewServer(r)
		t.Cleanup(server.Close)
		ws, _ = dial(t, startNginxWith(t, soon, server.Listener.Addr().String()), "127.0.0.2", 1)
		return ws
	}
	pinged := connect(time.Second)
	answered := make(chan error, 1)
	go func() { // which answers pings, too
		_, _, err := pinged.Read(t.Context())
		answered <- err
	}()
	silent := connect(-1) // later than the other
	if _, _, err := silent.Read(t.Context()); err == nil {
		t.Fatal("a message has come")
	}
	if err := pinged.Write(t.Context(), websocket.MessageText, []byte(`{"type":"ip","meta":{"correlationId":"1"}}`)); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("the connection with pings ended: %v", err)
	}
}

// dial opens a connection from an address of this machine, with forged header
// fields. It lasts as long as the test; nil means that it was refused.
func dial(t *testing.T, addr, from string, i int) (ws *websocket.Conn, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	forged := fmt.Sprintf("203.0.113.%d", i)
	ws, res, err := websocket.Dial(ctx, "ws://"+addr+"/", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport},
		HTTPHeader: http.Header{
			"X-Forwarded-For":  {forged, forged + ", 127.0.0.1"},
			"X-Real-Ip":        {forged},
			"Forwarded":        {"for=" + forged, `for=127.0.0.1;by="`},
			"Cf-Connecting-Ip": {forged},
		},
	})
	if res == nil {
		t.Fatalf("through nginx from %s: %v", from, err)
	}
	if ws != nil {
		t.Cleanup(func() { _ = ws.CloseNow() })
	}
	return ws, res.StatusCode
}

// ask sends a message and returns its answer.
func ask(t *testing.T, ws *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	if err := ws.Write(ctx, websocket.MessageText, []byte(`{"type":"ip","meta":{"correlationId":"1"}}`)); err != nil {
		t.Fatal(err)
	}
	_, answer, err := ws.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
