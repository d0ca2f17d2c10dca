package router_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/router"
)

// A browser opens a server of this machine as localhost, 127.0.0.1 or [::1]: its page
// may connect under any of the three names, at the same port alone.
func TestLoopbackNamesAreOneHost(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, nil)
	for _, c := range []struct {
		origin, host string
		status       int
	}{
		{"http://localhost:8080", "127.0.0.1:8080", 101},
		{"http://127.0.0.1:8080", "localhost:8080", 101},
		{"http://LocalHost:8080", "[::1]:8080", 101},
		{"http://[::1]:8080", "localhost:8080", 101},
		{"http://localhost", "127.0.0.1", 101},

		{"http://localhost:8081", "127.0.0.1:8080", 403},
		{"http://localhost", "127.0.0.1:8080", 403},
		{"http://localhost:8080", "chat.example:8080", 403},
		{"http://evil.example:8080", "localhost:8080", 403},
		{"http://localhost.evil.example:8080", "localhost:8080", 403},
		{"http://evil.localhost:8080", "localhost:8080", 403},
		{"http://127.0.0.1.evil.example:8080", "127.0.0.1:8080", 403},
		{"http://localhost:8080@evil.example", "127.0.0.1:8080", 403},
		{"http://10.0.0.1:8080", "127.0.0.1:8080", 403},
		{"http://0.0.0.0:8080", "127.0.0.1:8080", 403},
		{"null", "localhost:8080", 403},
	} {
		p := s.connect()
		p.write([]byte(strings.Replace(s.handshake("Origin: "+c.origin), s.addr, c.host, 1)))
		if got := p.response().StatusCode; got != c.status {
			t.Errorf("a page of %s that connects to %s is answered %d, want %d", c.origin, c.host, got, c.status)
		}
		p.hangUp()
	}
	s.hangUpAll()
	s.recovered()
}

// refusals returns a router, what connects a page of an origin to it, and the lines
// that it has logged so far.
func refusals(t *testing.T) (connect func(origins ...string), lines func() []string) {
	var out strings.Builder
	r := router.New(router.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	connect = func(origins ...string) {
		t.Helper()
		req := httptest.NewRequest("GET", "http://chat.example/ws", nil)
		req.Header = http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
			"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
			"Origin": origins,
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != http.StatusForbidden {
			t.Fatalf("a page of %q is answered %d", origins, w.Code)
		}
	}
	return connect, func() []string { return strings.Split(strings.TrimSpace(out.String()), "\n") }
}

// The browser shows a page no reason for a refusal, so the log of the server does:
// once for each origin, with the setting that lets it connect.
func TestRefusedOriginIsLoggedOnceWithTheSetting(t *testing.T) {
	t.Parallel()
	connect, lines := refusals(t)
	for range 3 {
		connect("http://localhost:5173")
		connect("https://app.example")
		connect("null")
	}
	got := lines()
	if len(got) != 3 {
		t.Fatalf("logged %d lines, want one for each of three origins:\n%s", len(got), strings.Join(got, "\n"))
	}
	for i, want := range [][]string{
		{"level=WARN", "http://localhost:5173", "chat.example", "add http://localhost:5173 to router.Options.Origins"},
		{"level=WARN", "https://app.example", "chat.example", "add https://app.example to router.Options.Origins"},
		{"level=WARN", "null", "chat.example", "serve the page over http"},
	} {
		for _, part := range want {
			if !strings.Contains(got[i], part) {
				t.Errorf("line %d lacks %q:\n%s", i+1, part, got[i])
			}
		}
	}
}

// Whatever origins a client makes up, they fill neither the log nor the memory, and an
// honest mistake is seen an hour later again.
func TestLoggedOriginsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		connect, lines := refusals(t)
		for i := range 1000 {
			connect(fmt.Sprintf("http://%s%d.example", strings.Repeat("a", 10_000), i), "http://b.example")
			connect(fmt.Sprintf("http://evil%d.example", i))
		}
		got := lines()
		if len(got) > 100 {
			t.Errorf("1,001 origins fill %d lines, want at most 100", len(got))
		}
		for _, line := range got {
			if len(line) > 1000 {
				t.Errorf("a line has %d bytes: %.300s", len(line), line)
			}
		}
		if last := got[len(got)-1]; !strings.Contains(last, "no more origins are logged") {
			t.Errorf("the last line does not say that it is the last:\n%s", last)
		}
		time.Sleep(time.Hour)
		connect("http://localhost:5173")
		if got := lines(); !strings.Contains(got[len(got)-1], "localhost:5173") {
			t.Errorf("an hour later the last line is\n%s", got[len(got)-1])
		}
	})
}
