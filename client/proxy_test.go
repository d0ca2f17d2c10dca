package client_test

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/router"
)

// tunnels is a proxy that makes tunnels for a user, and passes nothing else on.
type tunnels struct {
	user   string // and the password, encoded
	plain  func() // is called for a request that asks for no tunnel
	opened atomic.Int64
	to     atomic.Pointer[string]
}

func (p *tunnels) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p.to.Store(&req.Host)
	switch {
	case req.Method != http.MethodConnect:
		http.Error(w, "only tunnels", http.StatusBadRequest)
		p.plain()
		return
	case req.Header.Get("Proxy-Authorization") != p.user:
		http.Error(w, "who are you?", http.StatusProxyAuthRequired)
		return
	}
	server, err := net.Dial("tcp", req.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	p.opened.Add(1)
	_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { _, _ = io.Copy(server, conn); _ = server.Close() }()
	_, _ = io.Copy(conn, server)
	_ = conn.Close()
}

// A client reaches a server without TLS by a tunnel of its proxy, over HTTP and over TLS, and says why it gets none.
func TestHTTPProxiesAreAskedForTunnels(t *testing.T) {
	s := serve(t, "127.0.0.1:0", echo(router.New()))
	for _, scheme := range []string{"http", "https"} {
		proxy := &tunnels{user: "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:secret"))}
		listening := httptest.NewUnstartedServer(proxy)
		if scheme == "http" {
			listening.Start()
		} else {
			listening.StartTLS()
		}
		t.Cleanup(listening.Close)
		at, _ := url.Parse(listening.URL)
		transport := listening.Client().Transport.(*http.Transport).Clone()
		transport.Proxy = http.ProxyURL(at)
		o := client.Options{HTTPClient: &http.Client{Transport: transport}}

		ctx, cancel := context.WithCancel(within(t))
		proxy.plain = cancel
		o.Setup = func(c *client.Client) {
			go func() {
				_, _ = c.Wait(ctx, func(s client.State) bool { return s.Err != nil })
				cancel()
			}()
		}
		if _, err := client.Dial(ctx, "ws://"+s.addr, o); err == nil || !strings.Contains(err.Error(), "407 Proxy Authentication Required") {
			t.Errorf("%s, without a password: %v", scheme, err)
		}

		at.User = url.UserPassword("ann", "secret")
		ctx, proxy.plain = context.WithCancel(within(t))
		c, err := client.Dial(ctx, "ws://"+s.addr, client.Options{HTTPClient: o.HTTPClient})
		if err != nil {
			t.Fatalf("%s: %v", scheme, err)
		}
		got, err := client.Request[text](t.Context(), c, "echo", text{"hi"})
		if err != nil || got.Text != "hi" || proxy.opened.Load() != 1 || *proxy.to.Load() != s.addr {
			t.Errorf("%s: %+v, %v; %d tunnels, the last to %s", scheme, got, err, proxy.opened.Load(), *proxy.to.Load())
		}
		if err := c.Close(within(t)); err != nil {
			t.Error(err)
		}
	}
}
