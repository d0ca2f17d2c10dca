package router_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/router"
)

// handshakeStatus is how a handshake is answered that has these lines besides its own.
func handshakeStatus(t *testing.T, s *httptest.Server, host string, lines ...string) int {
	t.Helper()
	nc := dialServer(t, s)
	defer nc.Close()
	_, _ = io.WriteString(nc, strings.Replace(handshakeTo(s, "GET", lines...), s.Listener.Addr().String(), host, 1))
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

// A request for a host that is not listed is refused, whatever its origin: a name that
// leads to this server's address does not make a page this server's.
func TestHosts(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	gate := new(diary)
	r := router.New(router.Options{
		Handshake: router.Handshake{Hosts: []string{"App.example", "*.wild.example", "https://secure.example", "port.example:8443", "[::1]"}, InsecureAnyOrigin: true}, Gate: gate,
		// has no part in it
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	s := httptest.NewServer(r)
	defer s.Close()
	welcome, asked := 0, 0
	for host, status := range map[string]int{
		"app.example":                 101,
		"APP.example:8080":            101,
		"a.wild.example":              101,
		"secure.example":              101,
		"port.example:8443":           101,
		"[::1]:8080":                  101,
		"evil.example":                421,
		"app.example.evil.example":    421,
		"wild.example":                421,
		"port.example":                421,
		"port.example:80":             421,
		"127.0.0.1":                   421,
		"app.example@evil.example":    400, // by net/http
		strings.Repeat("x", 1000):     421,
		s.Listener.Addr().String():    421,
		"evil.example:80.app.example": 421,
	} {
		if got := handshakeStatus(t, s, host, "Origin: http://"+host); got != status {
			t.Errorf("a request for %.50s is answered %d, want %d", host, got, status)
		}
		if status == 101 {
			welcome++
		}
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, line := range gate.read() {
		if line == "admit" {
			asked++
		}
	}
	if asked != welcome {
		t.Errorf("the gate was asked about %d requests, of which %d were for a listed host", asked, welcome)
	}
	if !strings.Contains(log.String(), "add evil.example to router.Options.Handshake.Hosts") {
		t.Errorf("the log does not say what to set:\n%s", log.String())
	}
}

// A page over http is not of the same origin as a wss of its host, whatever ends TLS.
func TestPagesOverHTTPMayNotOpenWSS(t *testing.T) {
	t.Parallel()
	const proto = "X-Forwarded-Proto: "
	for _, c := range []struct {
		name    string
		tls     bool
		hosts   []string
		lines   []string
		http    int // the answer to a page of http://app.example
		https   int
		foreign int
	}{
		{"plain", false, nil, nil, 101, 101, 403},
		{"TLS", true, nil, nil, 403, 101, 403},
		{"a proxy that ends TLS", false, nil, []string{proto + "https"}, 403, 101, 403},
		{"a proxy behind one that ends TLS", false, nil, []string{proto + "HTTPS, http"}, 403, 101, 403},
		{"two lines", false, nil, []string{proto + "http", proto + "wss"}, 403, 101, 403},
		{"a plain proxy", false, nil, []string{proto + "http"}, 101, 101, 403},
		{"a plain proxy that comes by TLS", true, nil, []string{proto + "http"}, 101, 101, 403},
		{"a proxy that says nothing, configured", false, []string{"https://app.example"}, nil, 403, 101, 403},
		{"a plain proxy that says nothing and comes by TLS, configured", true, []string{"http://app.example"}, nil, 101, 101, 403},
		{"configured without a scheme", true, []string{"app.example"}, nil, 403, 101, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := router.New(router.Options{Handshake: router.Handshake{Hosts: c.hosts}, Logger: slog.New(slog.DiscardHandler)})
			s := httptest.NewUnstartedServer(r)
			if c.tls {
				s.StartTLS()
			} else {
				s.Start()
			}
			defer s.Close()
			for origin, want := range map[string]int{
				"http://app.example": c.http, "https://app.example": c.https, "https://evil.example": c.foreign,
				"ftp://app.example": 403, "app.example": 403,
			} {
				if got := handshakeStatus(t, s, "app.example", append(c.lines, "Origin: "+origin)...); got != want {
					t.Errorf("a page of %s is answered %d, want %d", origin, got, want)
				}
			}
			if got := handshakeStatus(t, s, "app.example", c.lines...); got != 101 {
				t.Errorf("a client that is no page is answered %d", got)
			}
			if err := r.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	// Listed by its host alone, the page may.
	s := httptest.NewTLSServer(router.New(router.Options{Origins: []string{"app.example", "http://[::1]:3000"}}))
	defer s.Close()
	for _, origin := range []string{"http://app.example", "http://[::1]:3000"} {
		if got := handshakeStatus(t, s, "app.example", fmt.Sprint("Origin: ", origin)); got != 101 {
			t.Errorf("a listed page of %s is answered %d", origin, got)
		}
	}
}
