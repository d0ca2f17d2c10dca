package origin

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

// request is a handshake for a host, from a page of an origin if it is not empty.
func request(host, origin string) *http.Request {
	req := httptest.NewRequest(http.MethodGet, "/ws", nil)
	req.Host = host
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	return req
}

func mustPatterns(t *testing.T, option string, list ...string) []string {
	t.Helper()
	all, err := Patterns(option, list, "")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What can match no page, or every page, is refused with what to write.
func TestEntriesThatCannotMatch(t *testing.T) {
	for _, c := range []struct{ option, entry, says string }{
		{"Origins", "null", "serve the page over https"},
		{"Origins", "https://app.example:443", "leave out the port"},
		{"Origins", "http://app.example:80", "leave out the port"},
		{"Origins", "https://bücher.example", "xn--"},
		{"Handshake.Hosts", "bücher.example", "xn--"},
		{"Origins", "wss://app.example", "https or http"},
		{"Origins", "https://user@app.example", "an entry is a host"},
		{"Handshake.Hosts", "app.example other.example", "an entry is a host"},
		{"Origins", "https://app.example/chat", "no path"},
		{"Origins", "*", "remedy"},
	} {
		if _, err := Patterns(c.option, []string{c.entry}, "remedy"); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %q: %v; want an error that says %q", c.option, c.entry, err, c.says)
		}
	}
	mustPatterns(t, "Origins", "https://app.example:8443", "http://app.example:443", "xn--bcher-kva.example", "capacitor://localhost", "a?.example")
	mustPatterns(t, "Handshake.Hosts", "null", "app.example:443", "https://app.example:443")
}

func TestPagesThatMayConnect(t *testing.T) {
	p := Policy{
		Origins: mustPatterns(t, "Origins", "Friend.example", "*.wild.example", "https://secure.example", "[::1]:3000"),
		Logger:  slog.New(slog.DiscardHandler),
	}
	for origin, may := range map[string]bool{
		"":                                true, // no page
		"http://chat.example":             true, // of the request's host
		"http://chat.example:8080":        false,
		"https://friend.example":          true,
		"http://friend.example":           true,
		"http://friend.example:81":        false,
		"http://a.wild.example":           true,
		"http://wild.example":             false,
		"http://secure.example":           false,
		"https://secure.example":          true,
		"http://[::1]:3000":               true,
		"null":                            false,
		"http://chat.example@evil.test":   false,
		"http://friend.example.evil.test": false,
	} {
		if err := p.CheckOrigin(request("chat.example", origin)); (err == nil) != may {
			t.Errorf("%q: %v, want allowed: %v", origin, err, may)
		} else if err != nil && errors.CodeOf(err) != errors.PermissionDenied {
			t.Errorf("%q is refused with %v", origin, err)
		}
	}
	if p.AnyOrigin = true; p.CheckOrigin(request("chat.example", "https://evil.test")) != nil {
		t.Error("a page is refused although all may connect")
	}
}

// Two Origin fields are none that a browser sends.
func TestTwoOriginsAreRefused(t *testing.T) {
	p := Policy{Logger: slog.New(slog.DiscardHandler)}
	req := request("chat.example", "http://chat.example")
	req.Header.Add("Origin", "http://chat.example")
	if p.CheckOrigin(req) == nil {
		t.Error("two origins are allowed")
	}
}

// A page that came over http must not open a connection over TLS, by whatever is known of that.
func TestPlainPagesMayNotOpenTLS(t *testing.T) {
	for what, secure := range map[string]func(*Policy, *http.Request){
		"the connection":          func(_ *Policy, req *http.Request) { req.TLS = new(tls.ConnectionState) },
		"a proxy":                 func(_ *Policy, req *http.Request) { req.Header.Set("X-Forwarded-Proto", "http, HTTPS") },
		"Options.Handshake.Hosts": func(p *Policy, _ *http.Request) { p.Hosts = mustPatterns(t, "Handshake.Hosts", "https://chat.example") },
	} {
		p := Policy{Logger: slog.New(slog.DiscardHandler)}
		plain, tls := request("chat.example", "http://chat.example"), request("chat.example", "https://chat.example")
		if p.CheckOrigin(plain) != nil {
			t.Errorf("%s: a page over http may not connect without TLS", what)
		}
		secure(&p, plain)
		secure(&p, tls)
		if p.CheckOrigin(plain) == nil || p.CheckOrigin(tls) != nil {
			t.Errorf("%s says that TLS is used: only a page over https may connect", what)
		}
	}
}

func TestHostsThatAreServed(t *testing.T) {
	p := Policy{Hosts: mustPatterns(t, "Handshake.Hosts", "chat.example", "*.chat.example:8443"), Logger: slog.New(slog.DiscardHandler)}
	for host, served := range map[string]bool{
		"Chat.Example": true, "chat.example:9999": true, "a.chat.example:8443": true, "a.chat.example": false, "evil.test": false,
	} {
		err := p.CheckHost(request(host, ""))
		if refusal, ok := errors.AsType[*ingress.Refusal](err); served != (err == nil) || !served && (!ok || refusal.Status != 421) {
			t.Errorf("%s: %v, want served: %v", host, err, served)
		}
	}
}

// An origin is logged once within an hour, with the remedy, and at most a hundred are.
func TestTheLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := Policy{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		refuse := func(origins int) (lines int) {
			log.Reset()
			for range 2 {
				for i := range origins {
					_ = p.CheckOrigin(request("chat.example", fmt.Sprintf("http://%d.test", i)))
				}
			}
			return strings.Count(log.String(), "\n")
		}
		if n := refuse(1); n != 1 || !strings.Contains(log.String(), "add http://0.test to router.Options.Origins") {
			t.Errorf("%d lines:\n%s", n, &log)
		}
		if n := refuse(1000); n != 99 {
			t.Errorf("%d more lines, want 99", n)
		}
		time.Sleep(time.Hour)
		if n := refuse(1); n != 1 {
			t.Errorf("%d lines after an hour", n)
		}
	})
}
