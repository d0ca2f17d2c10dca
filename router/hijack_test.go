package router_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/router"
)

// closed is a ResponseWriter of middleware that lets nothing else through.
type closed struct{ http.ResponseWriter }

// claims is one that claims to be able to hijack.
type claims struct{ closed }

func (claims) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("the server behind me cannot")
}

// open is one as it should be.
type open struct{ closed }

func (o open) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// Behind middleware through which the connection cannot be taken over, the client is
// answered 500 and nothing before it; the fault says what to change.
func TestMiddlewareThatHidesTheConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		wrap   func(http.Handler) http.Handler
		status int
		says   []string
	}{
		{"without Unwrap", wrapping(func(w http.ResponseWriter) http.ResponseWriter { return closed{w} }), 500, []string{"router_test.closed", "Unwrap() http.ResponseWriter"}},
		{"claiming to hijack", wrapping(func(w http.ResponseWriter) http.ResponseWriter { return claims{closed{w}} }), 500, []string{"router_test.claims", "the server behind me cannot"}},
		{"Unwrap leads to one without", wrapping(func(w http.ResponseWriter) http.ResponseWriter { return open{closed{closed{w}}} }), 500, []string{"router_test.open", "Unwrap() http.ResponseWriter"}},
		{"http.TimeoutHandler", func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute, "") }, 500, []string{"http.TimeoutHandler"}},
		{"with Unwrap", wrapping(func(w http.ResponseWriter) http.ResponseWriter { return open{closed{w}} }), 101, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults := make(chan router.Fault, 2)
			gate := new(diary)
			r := router.New(router.Options{Gate: gate, OnError: func(f router.Fault) { faults <- f }})
			s := httptest.NewServer(c.wrap(r))
			defer s.Close()
			nc := dialServer(t, s)
			_, _ = io.WriteString(nc, handshakeTo(s, "GET"))
			_ = nc.SetReadDeadline(time.Now().Add(patience))
			res, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != c.status {
				t.Fatalf("answered %s, want %d", res.Status, c.status)
			}
			if c.status == 101 {
				_ = nc.Close()
				_ = r.Shutdown(t.Context())
				return
			}
			for _, field := range []string{"Upgrade", "Sec-WebSocket-Accept", "X-Client-Id"} {
				if v := res.Header.Get(field); v != "" {
					t.Errorf("the refusal has %s: %s", field, v)
				}
			}
			f := <-faults
			for _, want := range c.says {
				if !strings.Contains(f.Err.Error(), want) {
					t.Errorf("the fault %q does not say %q", f.Err, want)
				}
			}
			if len(faults) > 0 || r.Stats().Connections != 0 {
				t.Errorf("%d more faults, %d connections", len(faults), r.Stats().Connections)
			}
			if got := gate.read(); got[len(got)-1] != "release" {
				t.Errorf("the gate saw %q", got)
			}
		})
	}
}

func wrapping(wrap func(http.ResponseWriter) http.ResponseWriter) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(wrap(w), r) })
	}
}
