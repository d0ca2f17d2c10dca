package router_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
)

// bodyless are handshakes that announce a body which never comes.
var bodyless = map[string][]string{
	"a few bytes":         {"Content-Length: 9"},
	"many bytes":          {"Content-Length: 1000000"},
	"chunks":              {"Transfer-Encoding: chunked"},
	"bytes after a nod":   {"Content-Length: 9", "Expect: 100-continue"},
	"chunks after a nod":  {"Transfer-Encoding: chunked", "Expect: 100-continue"},
	"after a foreign one": {"Content-Length: 9", "Origin: http://evil.example"},
}

// answeredAndClosed reads the answer to a request, and then the end of the stream.
func answeredAndClosed(t *testing.T, nc net.Conn) (status int) {
	t.Helper()
	_ = nc.SetReadDeadline(time.Now().Add(poll.Guard))
	br := bufio.NewReader(nc)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatalf("there is no answer: %v", err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatalf("the answer breaks off: %v", err)
	}
	var timeout net.Error
	if _, err := br.ReadByte(); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("after the answer the connection is not closed: %v", err)
	}
	return res.StatusCode
}

// A handshake with a body is refused before the gate is asked; neither the answer, nor the
// end of the connection, nor the server's shutdown waits for the body. The server has no
// timeouts here.
func TestBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		for name, lines := range bodyless {
			t.Run(fmt.Sprintf("%s, TLS: %t", name, secure), func(t *testing.T) {
				gate := new(diary)
				r := router.New(router.Options{Gate: gate})
				s := httptest.NewUnstartedServer(r)
				if secure {
					s.StartTLS()
				} else {
					s.Start()
				}
				nc := dialServer(t, s)
				_, _ = io.WriteString(nc, handshakeTo(s, "GET", lines...))
				if status := answeredAndClosed(t, nc); status != http.StatusBadRequest {
					t.Errorf("answered %d", status)
				}
				ctx, cancel := context.WithTimeout(t.Context(), poll.Guard)
				defer cancel()
				if err := errors.Join(r.Shutdown(ctx), s.Config.Shutdown(ctx)); err != nil {
					t.Errorf("shutting down: %v", err)
				}
				s.Close()
				if asked := gate.read(); len(asked) > 0 {
					t.Errorf("the gate was asked: %q", asked)
				}
			})
		}
	}
}

// Other requests with a body are refused in the same way, while the router drains, too.
func TestRefusedRequestsDoNotWaitForTheirBody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		drain  bool
		status int
	}{
		"not a handshake": {"POST", false, http.StatusUpgradeRequired},
		"while it drains": {"GET", true, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			r := router.New()
			s := httptest.NewServer(r)
			defer s.Close()
			if c.drain {
				if err := r.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			nc := dialServer(t, s)
			_, _ = io.WriteString(nc, handshakeTo(s, c.method, "Content-Length: 9"))
			if status := answeredAndClosed(t, nc); status != c.status {
				t.Errorf("answered %d, want %d", status, c.status)
			}
		})
	}
}

// Over HTTP/2 a refusal does not wait either, and the connection goes on.
func TestRefusalOverHTTP2(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(router.New())
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	client := s.Client()
	client.Timeout = poll.Guard
	for range 2 {
		body, w := io.Pipe()
		req, err := http.NewRequest("POST", s.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusUpgradeRequired || res.ProtoMajor != 2 {
			t.Errorf("answered %s over %s", res.Status, res.Proto)
		}
		_ = res.Body.Close()
		_ = w.Close()
	}
}

func dialServer(t *testing.T, s *httptest.Server) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if s.TLS != nil {
		return tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
	}
	return nc
}

func handshakeTo(s *httptest.Server, method string, lines ...string) string {
	return method + " /ws HTTP/1.1\r\nHost: " + s.Listener.Addr().String() + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
		strings.Join(append(lines, ""), "\r\n") + "\r\n"
}
