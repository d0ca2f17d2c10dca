package ingress_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/wskit/wskit/ingress"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

// request is one from a peer, with header fields "Name: value".
func request(peer string, fields ...string) *http.Request {
	r := &http.Request{RemoteAddr: peer, Header: http.Header{}}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// Fields that a hostile client may send and fields that proxies write. Each row
// names its case.
func TestHostileForwardingHeaders(t *testing.T) {
	var (
		none    = ingress.Trust{}
		one     = ingress.Trust{Proxies: 1}
		two     = ingress.Trust{Proxies: 2}
		private = ingress.Trust{Prefixes: prefixes("10.0.0.0/8", "fd00::/8")}
		both    = ingress.Trust{Proxies: 2, Prefixes: prefixes("10.0.0.0/8")}
		mapped  = ingress.Trust{Prefixes: prefixes("::ffff:10.0.0.0/104")}
		rfc1    = ingress.Trust{Header: "forwarded", Proxies: 1}
		rfc2    = ingress.Trust{Header: "Forwarded", Proxies: 2}
		rfcIn   = ingress.Trust{Header: "Forwarded", Prefixes: prefixes("10.0.0.0/8", "fd00::/8")}
		cloud   = ingress.Trust{Header: "cf-connecting-ip", Prefixes: prefixes("10.0.0.0/8")}
		anyCDN  = ingress.Trust{Header: "X-Real-IP"}
	)
	const proxy, stranger = "10.0.0.1:4000", "198.51.100.7:4000"
	for _, c := range []struct {
		name  string
		trust ingress.Trust
		peer  string
		send  []string
		want  string
	}{
		{"nothing is trusted by default", none, stranger, []string{"X-Forwarded-For: 203.0.113.9", "Forwarded: for=203.0.113.9", "X-Real-IP: 203.0.113.9"}, "198.51.100.7"},

		{"leftmost is the client's invention", one, proxy, []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{"leftmost, with prefixes", private, proxy, []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{"leftmost of Forwarded", rfc1, proxy, []string{"Forwarded: for=1.1.1.1, for=203.0.113.9"}, "203.0.113.9"},
		{"a proxy's address sent by the client", private, proxy, []string{"X-Forwarded-For: 10.0.0.9, 203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		{"two proxies", two, proxy, []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		{"many proxies", private, proxy, []string{"X-Forwarded-For: 203.0.113.9, 10.0.0.3, fd00::2, 10.0.0.2"}, "203.0.113.9"},
		{"proxies only: the first of them", private, proxy, []string{"X-Forwarded-For: 10.0.0.3, 10.0.0.2"}, "10.0.0.3"},

		{"an untrusted peer's headers", private, stranger, []string{"X-Forwarded-For: 203.0.113.9"}, "198.51.100.7"},
		{"an untrusted peer's headers, counted", both, stranger, []string{"X-Forwarded-For: 203.0.113.9, 10.0.0.2"}, "198.51.100.7"},
		{"an untrusted peer's Forwarded", rfcIn, stranger, []string{"Forwarded: for=203.0.113.9"}, "198.51.100.7"},
		{"an untrusted peer's single header", cloud, stranger, []string{"CF-Connecting-IP: 203.0.113.9"}, "198.51.100.7"},
		{"a trusted peer, counted", both, proxy, []string{"X-Forwarded-For: 203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		{"a mapped peer is its IPv4 address", private, "[::ffff:10.0.0.1]:4000", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
		{"a mapped prefix is its IPv4 prefix", mapped, proxy, []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},

		{"several lines are one list", one, proxy, []string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
		{"several lines, counted across", two, proxy, []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9", "X-Forwarded-For: 10.0.0.2"}, "203.0.113.9"},
		{"several lines, walked across", private, proxy, []string{"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 10.0.0.3,10.0.0.2"}, "203.0.113.9"},
		{"several lines of Forwarded", rfc2, proxy, []string{"Forwarded: for=203.0.113.9", "Forwarded: for=10.0.0.2"}, "203.0.113.9"},

		{"fewer hops than configured", two, proxy, []string{"X-Forwarded-For: 203.0.113.9"}, "10.0.0.1"},
		{"no hops though configured", one, proxy, nil, "10.0.0.1"},
		{"fewer hops of Forwarded", rfc2, proxy, []string{"Forwarded: for=203.0.113.9"}, "10.0.0.1"},
		{"the other list is not read", one, proxy, []string{"Forwarded: for=203.0.113.9"}, "10.0.0.1"},

		{"unknown", rfc1, proxy, []string{"Forwarded: for=unknown"}, "10.0.0.1"},
		{"unknown in the other list", one, proxy, []string{"X-Forwarded-For: unknown"}, "10.0.0.1"},
		{"obfuscated", rfc1, proxy, []string{"Forwarded: for=_hidden"}, "10.0.0.1"},
		{"obfuscated, with a port", rfc1, proxy, []string{`Forwarded: for="_hidden:_p"`}, "10.0.0.1"},
		{"unknown before proxies ends the walk there", private, proxy, []string{"X-Forwarded-For: 203.0.113.9, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"unknown between counted hops", two, proxy, []string{"X-Forwarded-For: 203.0.113.9, unknown"}, "10.0.0.1"},
		{"a name", one, proxy, []string{"X-Forwarded-For: client.example"}, "10.0.0.1"},
		{"a Unix socket", one, proxy, []string{"X-Forwarded-For: unix:"}, "10.0.0.1"},
		{"empty", one, proxy, []string{"X-Forwarded-For: "}, "10.0.0.1"},
		{"empty element", one, proxy, []string{"X-Forwarded-For: 203.0.113.9,"}, "10.0.0.1"},
		{"unspecified", one, proxy, []string{"X-Forwarded-For: 0.0.0.0"}, "10.0.0.1"},
		{"unspecified IPv6", one, proxy, []string{"X-Forwarded-For: ::"}, "10.0.0.1"},
		{"unspecified, mapped", one, proxy, []string{"X-Forwarded-For: ::ffff:0.0.0.0"}, "10.0.0.1"},
		{"leading zeros", one, proxy, []string{"X-Forwarded-For: 203.0.113.010"}, "10.0.0.1"},
		{"too many bytes", one, proxy, []string{"X-Forwarded-For: 203.0.113.9.1"}, "10.0.0.1"},
		{"hexadecimal", one, proxy, []string{"X-Forwarded-For: 0xcb007109"}, "10.0.0.1"},
		{"two in one element", one, proxy, []string{"X-Forwarded-For: 203.0.113.9 203.0.113.8"}, "10.0.0.1"},
		{"semicolons", one, proxy, []string{"X-Forwarded-For: 1.1.1.1;203.0.113.9"}, "10.0.0.1"},
		{"bytes", one, proxy, []string{"X-Forwarded-For: \xff\xfe\x00"}, "10.0.0.1"},
		{"quotation marks in a list without them", one, proxy, []string{`X-Forwarded-For: "1.1.1.1, 203.0.113.9`}, "203.0.113.9"},
		{"a very long zone", one, proxy, []string{"X-Forwarded-For: fe80::1%" + strings.Repeat("x", 1000)}, "10.0.0.1"},
		{"thousands of proxies", private, proxy, []string{"X-Forwarded-For: 1.1.1.1" + strings.Repeat(",10.0.0.2", 5000)}, "10.0.0.2"},

		{"a port", one, proxy, []string{"X-Forwarded-For: 203.0.113.9:51234"}, "203.0.113.9"},
		{"a port and space", one, proxy, []string{"X-Forwarded-For: 1.1.1.1 ,\t203.0.113.9:51234 "}, "203.0.113.9"},
		{"no port after the colon", one, proxy, []string{"X-Forwarded-For: 203.0.113.9:"}, "10.0.0.1"},
		{"a port of letters", one, proxy, []string{"X-Forwarded-For: 203.0.113.9:http"}, "10.0.0.1"},
		{"IPv6", one, proxy, []string{"X-Forwarded-For: 2001:db8::1"}, "2001:db8::1"},
		{"IPv6 in brackets", one, proxy, []string{"X-Forwarded-For: [2001:db8::1]"}, "2001:db8::1"},
		{"IPv6 and a port", one, proxy, []string{"X-Forwarded-For: [2001:db8::1]:51234"}, "2001:db8::1"},
		{"IPv6 and more", one, proxy, []string{"X-Forwarded-For: [2001:db8::1]x"}, "10.0.0.1"},
		{"IPv6 without an end", one, proxy, []string{"X-Forwarded-For: [2001:db8::1"}, "10.0.0.1"},
		{"IPv4 in brackets", one, proxy, []string{"X-Forwarded-For: [203.0.113.9]"}, "10.0.0.1"},
		{"a zone", one, proxy, []string{"X-Forwarded-For: fe80::1%eth0"}, "fe80::1"},
		{"a zone, in brackets", one, proxy, []string{"X-Forwarded-For: [fe80::1%25eth0]:1"}, "fe80::1"},
		{"IPv4-mapped IPv6", one, proxy, []string{"X-Forwarded-For: ::ffff:203.0.113.9"}, "203.0.113.9"},
		{"IPv4-mapped IPv6 and a port", one, proxy, []string{"X-Forwarded-For: [::ffff:cb00:7109]:1"}, "203.0.113.9"},
		{"a mapped proxy is passed", private, proxy, []string{"X-Forwarded-For: 203.0.113.9, ::ffff:10.0.0.2"}, "203.0.113.9"},

		{"Forwarded in full", rfc1, proxy, []string{`Forwarded: by=10.0.0.1;For="203.0.113.9:51234";host="a,b;c";proto=https`}, "203.0.113.9"},
		{"Forwarded with IPv6", rfc1, proxy, []string{`Forwarded: for="[2001:db8::1]:_x";proto=http`}, "2001:db8::1"},
		{"Forwarded with IPv6 without brackets", rfc1, proxy, []string{`Forwarded: for="2001:db8::1"`}, "10.0.0.1"},
		{"Forwarded with escapes", rfc1, proxy, []string{`Forwarded: for="203\.0.113.9"`}, "203.0.113.9"},
		{"Forwarded without for", rfc1, proxy, []string{"Forwarded: proto=https"}, "10.0.0.1"},
		{"Forwarded with two", rfc1, proxy, []string{"Forwarded: for=1.1.1.1;for=203.0.113.9"}, "10.0.0.1"},
		{"Forwarded without an end of the string", rfc1, proxy, []string{`Forwarded: for="203.0.113.9`}, "10.0.0.1"},
		{"an open quotation mark swallows nothing", rfc1, proxy, []string{`Forwarded: for=1.1.1.1;x=", for=203.0.113.9`}, "203.0.113.9"},
		{"nor over lines", rfc1, proxy, []string{`Forwarded: for="`, `Forwarded: for=203.0.113.9`}, "203.0.113.9"},
		{"nor with a backslash", rfc1, proxy, []string{`Forwarded: for="1.1.1.1\, for="203.0.113.9"`}, "203.0.113.9"},
		{"walked through Forwarded", rfcIn, proxy, []string{`Forwarded: for=1.1.1.1, for=203.0.113.9, for="[fd00::2]";by=_x`}, "203.0.113.9"},

		{"a header of one address", cloud, proxy, []string{"CF-Connecting-IP: 2001:db8::1", "X-Forwarded-For: 1.1.1.1"}, "2001:db8::1"},
		{"any peer's, where that is meant", anyCDN, stranger, []string{"X-Real-IP: 203.0.113.9"}, "203.0.113.9"},
		{"one address and one more", cloud, proxy, []string{"CF-Connecting-IP: 1.1.1.1, 203.0.113.9"}, "10.0.0.1"},
		{"a second line", cloud, proxy, []string{"CF-Connecting-IP: 1.1.1.1", "CF-Connecting-IP: 203.0.113.9"}, "10.0.0.1"},
		{"one address that is none", cloud, proxy, []string{"CF-Connecting-IP: unknown"}, "10.0.0.1"},
		{"one address that is missing", cloud, proxy, nil, "10.0.0.1"},

		{"a Unix socket's peer, counted", one, "@", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
		{"a Unix socket's peer is in no prefix", private, "@", []string{"X-Forwarded-For: 203.0.113.9"}, "invalid IP"},
		{"a Unix socket's peer and garbage", one, "@", []string{"X-Forwarded-For: unknown"}, "invalid IP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ingress.ClientIP(c.trust)(request(c.peer, c.send...)); got.String() != c.want {
				t.Errorf("the client is %v, want %s", got, c.want)
			}
		})
	}
}

func TestInvalidTrustPanics(t *testing.T) {
	for want, trust := range map[string]ingress.Trust{
		"from 1 to 32":              {Proxies: -1},
		"not counted":               {Proxies: 33},
		"a single address":          {Header: "X-Real-IP", Proxies: 1},
		"no proxy is trusted":       {Header: "x-forwarded-for"},
		"set Proxies to the number": {Header: "Forwarded"},
		"MustParsePrefix":           {Prefixes: make([]netip.Prefix, 1)},
	} {
		func() {
			defer func() {
				if v, _ := recover().(string); !strings.Contains(v, want) || !strings.HasPrefix(v, "ingress: ") {
					t.Errorf("%+v: panic %q, want one about %q", trust, v, want)
				}
			}()
			ingress.ClientIP(trust)
		}()
	}
}

// The prefixes are copied.
func TestTrustIsCopied(t *testing.T) {
	list := prefixes("10.0.0.0/8")
	clientIP := ingress.ClientIP(ingress.Trust{Prefixes: list})
	list[0] = netip.MustParsePrefix("0.0.0.0/0")
	if got := clientIP(request("198.51.100.7:1", "X-Forwarded-For: 203.0.113.9")); got.String() != "198.51.100.7" {
		t.Errorf("the client is %v", got)
	}
}

// Whatever a client sends before the entry of the proxy, the result is the address in that
// entry.
func FuzzClientIP(f *testing.F) {
	for _, s := range []string{"", "1.1.1.1", "unknown", `for="`, `for=1.1.1.1;x="`, `for="\`, ",", ";", `"`, "[::1", "fe80::1%", "a\x00b"} {
		f.Add(s, s, "203.0.113.9", true)
	}
	lists := map[string]string{"X-Forwarded-For": "", "Forwarded": "for="}
	want := netip.MustParseAddr("203.0.113.9")
	f.Fuzz(func(t *testing.T, first, second, peer string, sameLine bool) {
		for header, before := range lists {
			r := &http.Request{RemoteAddr: "10.0.0.1:4000", Header: http.Header{header: {first}}}
			if sameLine {
				r.Header[header] = append(r.Header[header], second+", "+before+want.String())
			} else {
				r.Header[header] = append(r.Header[header], second, before+want.String())
			}
			for _, trust := range []ingress.Trust{{Header: header, Proxies: 1}, {Header: header, Prefixes: prefixes("10.0.0.0/8")}} {
				if got := ingress.ClientIP(trust)(r); got != want {
					t.Errorf("%s %q: the client is %v", header, r.Header[header], got)
				}
			}
			// The entry of a broken proxy.
			r.Header[header] = []string{first, peer}
			for _, trust := range []ingress.Trust{{Header: header, Proxies: 1}, {Header: header, Proxies: 3}, {Header: header, Prefixes: prefixes("10.0.0.0/8")}} {
				if got := ingress.ClientIP(trust)(r); !got.IsValid() || got.Zone() != "" || got.Is4In6() {
					t.Errorf("%s %q: the client is %v", header, r.Header[header], got)
				}
			}
		}
		r := &http.Request{RemoteAddr: "10.0.0.1:4000", Header: http.Header{"X-Real-Ip": {first}}}
		if got := ingress.ClientIP(ingress.Trust{Header: "X-Real-IP"})(r); !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Errorf("X-Real-IP %q: the client is %v", first, got)
		}
	})
}
