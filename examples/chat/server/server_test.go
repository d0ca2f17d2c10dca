package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/examples/internal/page"
	"github.com/wskit/wskit/internal/process"
)

// TestMain runs the chat if a test has started this binary as a program.
func TestMain(m *testing.M) {
	if os.Getenv("CHAT_TEST_MAIN") != "" {
		Main()
		return
	}
	os.Exit(m.Run())
}

func TestErrorNamesThePortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = serve(context.Background(), l.Addr().String(), nil, "", false, false)
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "another port") {
		t.Errorf("the error is %v; it must name the address and the remedy", err)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := serve(ctx, "127.0.0.1:0", nil, "", false, false); err != nil {
		t.Error(err)
	}
}

// The server closes the connection of a client that stops at any point: before a request, in
// the header, before the body, or after an answer.
func TestSilentClientsAreDisconnected(t *testing.T) {
	server := newServer("", page.Handler(static))
	for _, limit := range []*time.Duration{&server.ReadHeaderTimeout, &server.ReadTimeout, &server.WriteTimeout, &server.IdleTimeout} {
		if *limit <= 0 {
			t.Fatalf("a timeout of the server is not set: %+v", server)
		}
		*limit /= 50 // the test should not take a minute
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	request := "GET / HTTP/1.1\r\nHost: " + listener.Addr().String() + "\r\n"
	for name, sent := range map[string]string{
		"nothing":       "",
		"half a header": request + "Accept:",
		"no body":       "POST" + strings.TrimPrefix(request, "GET") + "Content-Length: 9\r\n\r\n",
		"one request":   request + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			_, _ = io.WriteString(nc, sent)
			_ = nc.SetReadDeadline(time.Now().Add(time.Minute)) // only against hanging
			var timeout net.Error
			if _, err := io.Copy(io.Discard, nc); errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("the connection stays open")
			}
		})
	}
}

// A shutdown does not wait for a body that never comes.
func TestServeEndsWithABodyUnderWay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addr := process.FreeAddr(t)
	done := make(chan error)
	go func() { done <- serve(ctx, addr, nil, "", false, false) }()
	for path, answered := range map[string]string{"/ws": "HTTP/1.1 400", "/": "HTTP/1.1 "} {
		var nc net.Conn
		for nc == nil {
			nc, _ = net.Dial("tcp", addr)
		}
		defer nc.Close()
		_, _ = io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: "+addr+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: 9\r\n\r\n")
		if path == "/ws" {
			line := make([]byte, len(answered))
			if _, err := io.ReadFull(nc, line); err != nil || string(line) != answered {
				t.Errorf("%s is answered %q (%v)", path, line, err)
			}
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPage(t *testing.T) {
	for path, content := range map[string]string{
		"/":          "text/html",
		"/app.js":    "text/javascript",
		"/style.css": "text/css",
	} {
		w := httptest.NewRecorder()
		page.Handler(static).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), content) {
			t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
			t.Errorf("%s: Content-Security-Policy %q", path, csp)
		}
	}
}

// The error about a wrong command line may be logged, so it must not contain a URL.
func TestWrongCommandLineIsNotRepeated(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-cfdo", "https://user:PASSWORD@limits.example:bad"},
		{"-cfdo", "https://limits.example?token=PASSWORD"},
		{"-cfdo=https://user:PASSWORD@"},
		{"-redis", "http://user:PASSWORD@localhost"},
		{"-redis", "redis://user:PASSWORD@localhost:bad"},
		{"redis://user:PASSWORD@localhost"},
		{"-cfdoo=https://user:PASSWORD@limits.example"},
	} {
		chat := exec.Command(program, args...)
		chat.Env = append(os.Environ(), "CHAT_TEST_MAIN=1", "LIMITS_SECRET=sesame")
		out, err := chat.CombinedOutput()
		if err == nil || len(out) == 0 {
			t.Errorf("%q ends with %v and says %q", args, err, out)
		}
		if strings.Contains(string(out), "PASSWORD") {
			t.Errorf("%q prints the password:\n%s", args, out)
		}
	}
}
