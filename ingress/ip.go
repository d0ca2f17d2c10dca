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
// IPv4-mapped IPv6 is unmapped first.
func GroupIP(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if !ip.Is6() {
		return ip
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return ip
	}
	return p.Addr()
}
