package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
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
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// patience bounds a test that would hang; it measures nothing.
const patience = time.Minute

// The recipes of proxies.md, behind a real nginx: the limiter sees each client for
// itself, whatever the client writes into header fields.
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
		{"a balancer before nginx", ingress.Trust{Proxies: 2}, 2},
		{"a field that the proxy sets", ingress.Trust{Header: "X-Real-IP", Prefixes: local}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := router.New(router.Options{ClientIP: ingress.ClientIP(c.trust)})
			three := limit.New(memory.NewStore(memory.Options{}), limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Hour})
			r.Use(ratelimit.New(three, ratelimit.Options{Key: ratelimit.PerIP}))
			router.RPC(r, "ip", func(c *router.Context, _ struct{}) (string, error) { return c.Conn().IP().String(), nil })
			server := httptest.NewServer(r)
			t.Cleanup(server.Close)
			addr := server.Listener.Addr().String()
			for range c.proxies {
				addr = startNginx(t, addr)
			}

			for _, client := range []string{"127.0.0.2", "127.0.0.3"} {
				for i := range 3 { // each time as somebody else, it says
					if got, want := ask(t, addr, client, i), fmt.Sprintf("%q", client); !strings.Contains(got, want) {
						t.Errorf("message %d of %s is answered %s, want %s", i+1, client, got, want)
					}
				}
				if got := ask(t, addr, client, 3); !strings.Contains(got, "RESOURCE_EXHAUSTED") {
					t.Errorf("message 4 of %s is answered %s", client, got)
				}
			}
		})
	}
}

// ask sends one message from an address of this machine, through a connection of
// its own, with forged header fields.
func ask(t *testing.T, addr, from string, i int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	forged := fmt.Sprintf("203.0.113.%d", i)
	ws, _, err := websocket.Dial(ctx, "ws://"+addr+"/", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport},
		HTTPHeader: http.Header{
			"X-Forwarded-For":  {forged, forged + ", 127.0.0.1"},
			"X-Real-Ip":        {forged},
			"Forwarded":        {"for=" + forged},
			"Cf-Connecting-Ip": {forged},
		},
	})
	if err != nil {
		t.Fatalf("through nginx from %s: %v", from, err)
	}
	defer ws.CloseNow()
	if err := ws.Write(ctx, websocket.MessageText, []byte(`{"type":"ip","meta":{"correlationId":"1"}}`)); err != nil {
		t.Fatal(err)
	}
	_, answer, err := ws.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// startNginx starts nginx with nginx.conf, before the upstream, on a port of its
// own, and returns its address.
func startNginx(t *testing.T, upstream string) (addr string) {
	t.Helper()
	if _, err := exec.LookPath("nginx"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("nginx is not on the PATH; tools/install nginx-light nginx")
		}
		t.Skip("nginx is not on the PATH; make nginx installs it")
	}
	conf, err := os.ReadFile("nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	addr = freeAddr(t)
	dir := t.TempDir()
	text := strings.NewReplacer("127.0.0.1:80;", addr+";", "127.0.0.1:8080;", upstream+";").Replace(string(conf))
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text = strings.Replace(text, "http {", fmt.Sprintf("http {\n%s_temp_path %s;", kind, filepath.Join(dir, kind)), 1)
	}
	text += fmt.Sprintf("pid %s;\ndaemon off;\nerror_log stderr;\n", filepath.Join(dir, "pid"))
	text = strings.Replace(text, "http {", "http {\naccess_log off;", 1)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	nginx := exec.Command("nginx", "-p", dir, "-c", file, "-e", "stderr", "-g", "master_process off;")
	nginx.Stderr = &said
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = nginx.Process.Kill()
		_ = nginx.Wait()
		if t.Failed() {
			t.Logf("nginx said:\n%s", &said)
		}
	})
	for giveUp := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			_ = nc.Close()
			return addr
		}
		if time.Now().After(giveUp) {
			t.Fatalf("nginx does not listen on %s: %v", addr, err)
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
