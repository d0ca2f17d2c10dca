package ingress

import (
	"net/http"
	"net/netip"
)

// PeerIP returns the address of the peer of the request's TCP connection,
// without port and zone; IPv4-mapped IPv6 is unmapped. It reads no header: behind a
// proxy it is the address of the proxy. It is the zero Addr when the request has no
// such address (a Unix socket).
func PeerIP(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// GroupIP returns the address by which limits count a client: an IPv4 address unchanged, an
// IPv6 address cut to its /64, because one host has all 2⁶⁴ addresses of its network.
// IPv4-mapped IPv6 is unmapped first. An address that a NAT64 or SIIT gateway has made of an IPv4
// address (64:ff9b::/96, ::ffff:0:0:0/96, RFC 6052 and 7915) is that one: all of them share a /64.
func GroupIP(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if !ip.Is6() {
		return ip
	}
	for _, translated := range translations {
		if translated.Contains(ip) {
			b := ip.As16()
			return netip.AddrFrom4([4]byte(b[12:]))
		}
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return ip
	}
	return p.Addr()
}

// translations are the prefixes of IPv6 addresses whose last 32 bits are an IPv4 address.
var translations = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("::ffff:0:0:0/96")}
