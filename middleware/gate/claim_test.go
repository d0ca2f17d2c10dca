package gate_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/middleware/gate"
)

func request(peer string, fields ...string) *http.Request {
	r := &http.Request{RemoteAddr: peer, Header: http.Header{}}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func everyone() gate.Identifier {
	return gate.FirstOf(gate.BySession("sid"), gate.ByBearer, gate.ByAPIKey("X-API-Key"), gate.ByIP(ingress.PeerIP))
}

func TestFirstIdentifierWithAClaimWins(t *testing.T) {
	for _, c := range []struct {
		name, peer, kind string
		send             []string
	}{
		{"all at once", "192.0.2.1:1", "session", []string{"Cookie: sid=secret-value", "Authorization: Bearer secret-value", "X-API-Key: secret-value"}},
		{"another cookie", "192.0.2.1:1", "bearer", []string{"Cookie: other=secret-value", "Authorization: bearer secret-value", "X-API-Key: secret-value"}},
		{"a token as a subprotocol", "192.0.2.1:1", "bearer", []string{"Sec-WebSocket-Protocol: chat, bearer.secret-value"}},
		{"an API key", "192.0.2.1:1", "apikey", []string{"X-API-Key: secret-value"}},
		{"an empty cookie", "192.0.2.1:1", "ip", []string{"Cookie: sid="}},
		{"a cookie no client needs", "192.0.2.1:1", "ip", []string{"Cookie: sid=" + strings.Repeat("x", 9000)}},
		{"nothing", "192.0.2.1:1", "ip", nil},
		{"no claim", "@", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(c.peer, c.send...)
			s, ok := everyone()(r)
			if s.Kind != c.kind || ok != (c.kind != "") {
				t.Errorf("identified as %v, want a %s", s, c.kind)
			}
		})
	}
}

// A secret is in no subject, and so in no key and no log.
func TestSecretsAreHashed(t *testing.T) {
	kinds := map[string]bool{}
	for _, send := range []string{"Cookie: sid=secret-value", "Authorization: Bearer secret-value", "X-API-Key: secret-value"} {
		s, ok := everyone()(request("192.0.2.1:1", send))
		if !ok || strings.Contains(s.String(), "secret") || len(s.ID) != 32 {
			t.Errorf("%s: %v", send, s)
		}
		kinds[s.Kind] = true
		other, _ := everyone()(request("192.0.2.1:1", send+"2"))
		again, _ := everyone()(request("198.51.100.7:1", send))
		if s == other || s != again {
			t.Errorf("%s: %v, another %v, the same %v", send, s, other, again)
		}
	}
	if len(kinds) != 3 {
		t.Errorf("the kinds are %v", kinds)
	}
}

// The same text as a cookie, a token, a key and a name gives four subjects.
func TestSubjectsOfDifferentKindsNeverCollide(t *testing.T) {
	value := "192.0.2.1"
	all := map[string]bool{}
	for _, identify := range []gate.Identifier{
		gate.BySession("sid"), gate.ByBearer, gate.ByAPIKey("X-API-Key"), gate.ByIP(ingress.PeerIP),
		gate.ByName("device", func(*http.Request) string { return value }),
		gate.ByName("tenant", func(*http.Request) string { return value }),
	} {
		s, ok := identify(request("192.0.2.1:1", "Cookie: sid="+value, "Authorization: Bearer "+value, "X-API-Key: "+value))
		if !ok {
			t.Error("not identified")
		}
		all[s.String()] = true
	}
	if len(all) != 6 {
		t.Errorf("six subjects became %v", all)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a kind with a colon could make two subjects one")
			}
		}()
		gate.ByName("a:b", func(*http.Request) string { return "c" })
	}()
}

func TestIPv6SubjectsAreNetworks(t *testing.T) {
	identify := gate.ByIP(ingress.PeerIP)
	a, _ := identify(request("[2001:db8:1:2::1]:1"))
	b, _ := identify(request("[2001:db8:1:2:ffff::9]:1"))
	c, _ := identify(request("[2001:db8:1:3::1]:1"))
	if a != b || a == c {
		t.Errorf("%v %v %v", a, b, c)
	}
}

func TestToken(t *testing.T) {
	for _, c := range []struct {
		want, query string
		send        []string
	}{
		{"a", "access_token=c", []string{"Authorization: Bearer a", "Sec-WebSocket-Protocol: bearer.b"}},
		{"b", "access_token=c", []string{"Authorization: Basic a", "Sec-WebSocket-Protocol: chat, Bearer.b, bearer.x"}},
		{"c", "access_token=c", []string{"Sec-WebSocket-Protocol: chat"}},
		{"", "access_token=%zz", nil},
		{"", "", nil},
	} {
		r := request("192.0.2.1:1", c.send...)
		r.URL = &url.URL{RawQuery: c.query}
		if got := ingress.Token(r); got != c.want {
			t.Errorf("%v ?%s: %q, want %q", c.send, c.query, got, c.want)
		}
	}
	if got := ingress.Token(&http.Request{}); got != "" {
		t.Errorf("a request without a URL has the token %q", got)
	}
}
