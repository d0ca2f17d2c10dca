package ingress_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/wskit/wskit/ingress"
)

func TestPeerIP(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:443":             "192.0.2.1",
		"[2001:db8::1]:443":         "2001:db8::1",
		"[::ffff:192.0.2.1]:443":    "192.0.2.1", // mapped
		"[::ffff:c000:201]:443":     "192.0.2.1",
		"[fe80::1%eth0]:443":        "fe80::1",
		"[::ffff:192.0.2.1%e0]:443": "192.0.2.1",
		"127.0.0.1:0":               "127.0.0.1",

		"":                  "", // nothing known
		"@":                 "", // a Unix socket
		"@/run/chat.sock":   "",
		"/run/chat.sock":    "",
		"192.0.2.1":         "",
		"192.0.2.1:":        "",
		"192.0.2.1:65536":   "",
		"192.0.2.01:443":    "",
		"192.0.2:443":       "",
		"2001:db8::1:443":   "",
		"[2001:db8::1]":     "",
		"unknown:443":       "",
		"_hidden:443":       "",
		"example.org:443":   "",
		"[192.0.2.1]:443":   "",
		"192.0.2.1:443\x00": "",
		" 192.0.2.1:443":    "",
	} {
		r := &http.Request{RemoteAddr: remote, Header: http.Header{
			"X-Forwarded-For": {"203.0.113.9"}, "Forwarded": {"for=203.0.113.9"}, "X-Real-Ip": {"203.0.113.9"},
		}}
		got := ""
		if ip := ingress.PeerIP(r); ip.IsValid() {
			got = ip.String()
		}
		if got != want {
			t.Errorf("PeerIP of %q = %q, want %q", remote, got, want)
		}
	}
}

func TestGroupIP(t *testing.T) {
	for ip, want := range map[string]string{
		"192.0.2.1":                     "192.0.2.1",
		"0.0.0.0":                       "0.0.0.0",
		"255.255.255.255":               "255.255.255.255",
		"::ffff:192.0.2.1":              "192.0.2.1",
		"::ffff:192.0.2.2":              "192.0.2.2", // not one group of all IPv4
		"::ffff:192.0.2.1%eth0":         "192.0.2.1",
		"2001:db8:1:2::1":               "2001:db8:1:2::",
		"2001:db8:1:2:ffff:ffff:ffff:1": "2001:db8:1:2::",
		"2001:db8:1:3::1":               "2001:db8:1:3::",
		"fe80::1%eth0":                  "fe80::",
		"fe80::2%eth1":                  "fe80::",
		"64:ff9b::192.0.2.1":            "192.0.2.1", // through NAT64
		"64:ff9b::192.0.2.2":            "192.0.2.2",
		"::ffff:0:192.0.2.1":            "192.0.2.1", // through SIIT
		"64:ff9b:0:0:1::1":              "64:ff9b::",
		"64:ff9b:1::192.0.2.1":          "64:ff9b:1::",
		"::1":                           "::",
		"::":                            "::",
	} {
		if got := ingress.GroupIP(netip.MustParseAddr(ip)); got != netip.MustParseAddr(want) {
			t.Errorf("GroupIP(%s) = %s, want %s", ip, got, want)
		}
	}
	if got := ingress.GroupIP(netip.Addr{}); got.IsValid() {
		t.Errorf("GroupIP of no address = %s", got)
	}
}

func FuzzPeerIP(f *testing.F) {
	for _, s := range []string{"192.0.2.1:443", "[fe80::1%eth0]:443", "@", "", "[::ffff:192.0.2.1]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, remote string) {
		ip := ingress.PeerIP(&http.Request{RemoteAddr: remote})
		if ip.Zone() != "" || ip.Is4In6() {
			t.Errorf("PeerIP of %q = %v", remote, ip)
		}
		if g := ingress.GroupIP(ip); g != ingress.GroupIP(g) || g.IsValid() != ip.IsValid() {
			t.Errorf("GroupIP(%v) = %v, and of that %v", ip, g, ingress.GroupIP(g))
		}
	})
}
