package main

import (
	"context"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain is the chat itself where a test starts this binary as a program.
func TestMain(m *testing.M) {
	if os.Getenv("CHAT_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTakenPortIsSaid(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = serve(context.Background(), l.Addr().String(), "", "")
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "-addr") {
		t.Errorf("the error is %v; it must name the address and the remedy", err)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := serve(ctx, "127.0.0.1:0", "", ""); err != nil {
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
		page().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), content) {
			t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
			t.Errorf("%s: Content-Security-Policy %q", path, csp)
		}
	}
}

// What the program prints when its command line is wrong ends up in logs.
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
