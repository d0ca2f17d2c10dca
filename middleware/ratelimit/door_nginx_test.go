package ratelimit_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// nginxConfig has a path for each way in which nginx can name its client. It is what
// the documentation recommends.
const nginxConfig = `
daemon off; master_process off; pid %[1]s/pid; error_log stderr warn;
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;

	proxy_http_version 1.1;
	map $http_forwarded $forwarded { default "$http_forwarded, for=$remote_addr"; "" "for=$remote_addr"; }

	server {
		listen %[2]s;
		location / {
			proxy_pass http://%[3]s;
			proxy_set_header Host $http_host;
			proxy_set_header Upgrade $http_upgrade;
			proxy_set_header Connection upgrade;
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
			proxy_set_header Forwarded $forwarded;
			proxy_set_header X-Real-IP $remote_addr;
		}
		location /twice/ { # a balancer before this one
			proxy_pass http://%[2]s/two;
			proxy_set_header Host $http_host;
			proxy_set_header Upgrade $http_upgrade;
			proxy_set_header Connection upgrade;
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
		}
	}
}
`

// startNginx runs a real nginx before a backend and returns its address.
func startNginx(t *testing.T, backend string) (addr string) {
	t.Helper()
	binary, err := exec.LookPath("nginx")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("nginx is not installed: run tools/install nginx nginx")
		}
		t.Skip("nginx is not installed: run tools/install nginx nginx")
	}
	for range 5 { // the port may be taken by somebody else before nginx takes it
		if addr = tryNginx(t, binary, backend); addr != "" {
			return addr
		}
	}
	t.Fatal("nginx does not start")
	return ""
}

func tryNginx(t *testing.T, binary, backend string) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = ln.Addr().String()
	_ = ln.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, addr, backend), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-p", dir, "-c", config, "-e", "stderr")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("nginx said:\n%s", &said)
		}
	})
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-ended:
			return ""
		case <-time.After(5 * time.Millisecond):
		}
		if nc, err := net.Dial("tcp", addr); err == nil {
			_ = nc.Close()
			return addr
		}
	}
	return ""
}

// The limiter sees the real client behind a real nginx, by each setting of trust,
// whatever the client sends; and counts WebSockets that nginx proxies.
func TestBehindNginx(t *testing.T) {
	loopback := prefix("127.0.0.1/32")
	trusts := map[string]ingress.Trust{
		"/counted":   {Proxies: 1},
		"/walked":    {Prefixes: loopback},
		"/both":      {Proxies: 1, Prefixes: loopback},
		"/forwarded": {Header: ingress.Forwarded, Proxies: 1},
		"/real-ip":   {Header: "X-Real-IP", Prefixes: loopback},
		"/two":       {Proxies: 2},
	}
	mux := http.NewServeMux()
	store := memory.NewStore(memory.Options{})
	for path, trust := range trusts {
		door := ratelimit.NewDoor(store, ratelimit.DoorOptions{
			ClientIP: ingress.ClientIP(trust), PerIP: many, PerIdentity: many, MaxPerIP: 2,
			OnRefused: func(ratelimit.DoorRefusal) {},
		})
		r := router.New(router.Options{Gate: door, ClientIP: ingress.ClientIP(trust)})
		router.RPC(r, "whoami", func(c *router.Context, _ struct{}) (netip.Addr, error) { return c.IP(), nil })
		mux.Handle(path, r)
	}
	addr := startNginx(t, serve(t, &http.Server{Handler: mux}))

	dial := func(from, path string) (*websocket.Conn, int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, res, err := websocket.Dial(ctx, "ws://"+addr+path, &websocket.DialOptions{
			HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}},
			HTTPHeader: http.Header{
				"X-Forwarded-For": {"198.51.100.1", "127.0.0.1"}, "Forwarded": {`for=198.51.100.2;x="`}, "X-Real-Ip": {"198.51.100.3"},
				"Origin": {"http://" + addr},
			},
		})
		if res == nil {
			t.Fatal(err)
		}
		if err == nil {
			t.Cleanup(func() { _ = c.CloseNow() })
		}
		return c, res.StatusCode
	}
	for path := range trusts {
		t.Run(path[1:], func(t *testing.T) {
			if path == "/two" {
				path = "/twice/"
			}
			for _, client := range []string{"127.0.0.2", "127.0.0.3"} {
				for range 2 {
					c, status := dial(client, path)
					if status != 101 {
						t.Fatalf("%s is answered %d", client, status)
					}
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					_ = c.Write(ctx, websocket.MessageText, []byte(`{"type":"whoami","meta":{"correlationId":"1"}}`))
					if _, m, err := c.Read(ctx); err != nil || !strings.Contains(string(m), `"`+client+`"`) {
						t.Errorf("%s is taken for %s (%v)", client, m, err)
					}
				}
				if _, status := dial(client, path); status != 429 {
					t.Errorf("the third connection of %s is answered %d", client, status)
				}
			}
		})
	}
}

func prefix(text string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(text)} }
