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
	"strconv"
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

// The recipes of proxies.md, behind a real nginx: the door and the limiter see each
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
		{"a balancer before nginx", ingress.Trust{Proxies: 2}, 2},
		{"RFC 7239", ingress.Trust{Header: ingress.Forwarded, Proxies: 1}, 1},
		{"a field that the proxy sets", ingress.Trust{Header: "X-Real-IP", Prefixes: local}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			clientIP := ingress.ClientIP(c.trust)
			store := memory.NewStore(memory.Options{})
			r := router.New(router.Options{
				ClientIP: clientIP,
				Gate:     ratelimit.NewDoor(store, ratelimit.DoorOptions{ClientIP: clientIP, MaxPerIP: 3, OnRefused: func(ratelimit.DoorRefusal) {}}),
			})
			two := limit.New(store, limit.TokenBucket{Capacity: 2, Refill: 1, Per: time.Hour})
			r.Use(ratelimit.New(two, ratelimit.Options{Key: ratelimit.PerIP}))
			router.RPC(r, "ip", func(c *router.Context, _ struct{}) (string, error) { return c.IP().String(), nil })
			server := httptest.NewServer(r)
			t.Cleanup(server.Close)
			addr := server.Listener.Addr().String()
			for range c.proxies {
				addr = startNginx(t, addr)
			}

			for _, client := range []string{"127.0.0.2", "127.0.0.3"} {
				for i, want := range []string{client, client, "RESOURCE_EXHAUSTED"} {
					ws, _ := dial(t, addr, client, i) // each time as somebody else, it says
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

// dial opens a connection from an address of this machine, with forged header
// fields. It lasts as long as the test; nil means that it was refused.
func dial(t *testing.T, addr, from string, i int) (ws *websocket.Conn, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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
	for range 5 { // somebody else may take the port before nginx does
		if addr = tryNginx(t, string(conf), upstream); addr != "" {
			return addr
		}
	}
	t.Fatal("nginx does not start")
	return ""
}

// tryNginx returns "" when nginx has ended instead of listening.
func tryNginx(t *testing.T, conf, upstream string) (addr string) {
	t.Helper()
	addr = freeAddr(t)
	dir := t.TempDir()
	http := "http {\naccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		http += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	text := strings.NewReplacer("127.0.0.1:80;", addr+";", "127.0.0.1:8080;", upstream+";", "http {\n", http).Replace(conf)
	text += fmt.Sprintf("pid %s;\ndaemon off;\nmaster_process off;\nerror_log stderr;\n", filepath.Join(dir, "pid"))
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	nginx := exec.Command("nginx", "-p", dir, "-c", file, "-e", "stderr")
	nginx.Stderr = &said
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = nginx.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = nginx.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("nginx said:\n%s", &said)
		}
	})
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp); {
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

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
