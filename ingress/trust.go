package ingress

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
)

// The header fields that hold a list of addresses, to which every proxy appends
// the address of its own peer.
const (
	xForwardedFor = "X-Forwarded-For"
	forwarded     = "Forwarded" // RFC 7239
)

// Trust configures the proxies in front of the server, and so the part of the forwarding header
// fields that can be trusted. Any client can send such a field: without a Trust none is read. Set
// Proxies or Prefixes for a list. It is read from its end, where the proxies write, and only as
// far as trusted proxies have written:
//
//	ingress.Trust{Proxies: 1}                               // nginx before the server
//	ingress.Trust{Prefixes: balancers}                      // balancers at known addresses
//	ingress.Trust{Header: "Forwarded", Proxies: 2}    // RFC 7239, through two proxies
//
// Or name the field in which a network of proxies writes one address:
//
//	ingress.Trust{Header: "CF-Connecting-IP", Prefixes: cloudflare}
type Trust struct {
	// Header is the field to read: X-Forwarded-For and Forwarded are lists, any
	// other contains a single address, which the proxy has to replace.
	//
	// Default: X-Forwarded-For.
	Header string

	// Proxies is the number of proxies that a request passes, at most 32. Each appends
	// one address, so the client's address is that far from the end. A shorter list is
	// not trusted.
	//
	// It cannot be used with a header of a single address. Default: 0, not counted.
	Proxies int

	// Prefixes are the addresses of the proxies. The fields of a request are read only if
	// its TCP peer is in one of them. If Proxies is 0, the client is the last address of
	// the list that is in none of them.
	//
	// Default: every peer is trusted. That is right only if nothing but the proxies can
	// reach the server.
	Prefixes []netip.Prefix
}

// maxHops bounds how much of a list is read. No real list is longer, and a client may send as
// much as the server's limit on header bytes allows.
const maxHops = 32

// ClientIP returns a function that finds the address of a request's client, for the options of
// a router or a connection gate. The address is without port and zone, and IPv4-mapped IPv6 is
// unmapped. It is not grouped: see [GroupIP]. The function may be called by any number of
// goroutines.
//
// If the fields are missing, too short or contain no address (garbage, "unknown", an obfuscated
// name), the result is the last address that is certain: that of the TCP peer, or with Prefixes
// that of the proxy which reported something else. Such requests share the limits of that
// address, so that a client gains nothing by sending them. The result is the zero Addr only if
// that of [PeerIP] is, and then counts as one client.
//
// The zero Trust is [PeerIP]. ClientIP panics if t is not valid, with a message
// that says what to change.
func ClientIP(t Trust) func(*http.Request) netip.Addr {
	t.check()
	switch {
	case t.Header == "":
		t.Header = xForwardedFor
	default:
		t.Header = http.CanonicalHeaderKey(t.Header)
	}
	t.Prefixes = slices.Clone(t.Prefixes)
	for i, p := range t.Prefixes {
		if p.Addr().Is4In6() && p.Bits() >= 96 { // peers are unmapped, too
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		t.Prefixes[i] = p.Masked()
	}
	switch {
	case t.Header != xForwardedFor && t.Header != forwarded:
		return t.single
	case t.Proxies > 0:
		return t.counted
	case len(t.Prefixes) > 0:
		return t.walked
	default:
		return PeerIP
	}
}

func (t Trust) check() {
	list := t.Header == "" || http.CanonicalHeaderKey(t.Header) == xForwardedFor || http.CanonicalHeaderKey(t.Header) == forwarded
	switch {
	case t.Proxies < 0 || t.Proxies > maxHops:
		panic(fmt.Sprintf("ingress: Trust.Proxies is %d; it is the number of proxies before the server, from 1 to %d (0: not counted)", t.Proxies, maxHops))
	case !list && t.Proxies > 0:
		panic(fmt.Sprintf("ingress: Trust.Header %q holds a single address: leave Proxies 0, or read a list such as X-Forwarded-For", t.Header))
	case list && t.Header != "" && t.Proxies == 0 && len(t.Prefixes) == 0:
		panic(fmt.Sprintf("ingress: Trust.Header is %q and no proxy is trusted to set it: set Proxies to the number of proxies, or Prefixes to their addresses", t.Header))
	}
	for _, p := range t.Prefixes {
		if !p.IsValid() {
			panic("ingress: Trust.Prefixes holds an invalid prefix; make it with netip.MustParsePrefix")
		}
	}
}

// trusts reports whether the header fields of a peer are read.
func (t Trust) trusts(peer netip.Addr) bool {
	return len(t.Prefixes) == 0 || t.proxy(peer)
}

func (t Trust) proxy(ip netip.Addr) bool {
	return ip.IsValid() && slices.ContainsFunc(t.Prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// single reads a field that must hold exactly one address: a second line means
// that the proxy has not replaced what the client sent.
func (t Trust) single(r *http.Request) netip.Addr {
	peer := PeerIP(r)
	if lines := r.Header[t.Header]; len(lines) == 1 && t.trusts(peer) {
		if ip, ok := forwardedFor(lines[0]); ok {
			return ip
		}
	}
	return peer
}

// counted takes the address a fixed number of places from the end.
func (t Trust) counted(r *http.Request) netip.Addr {
	peer := PeerIP(r)
	if !t.trusts(peer) {
		return peer
	}
	place := 0
	for ip := range t.hops(r) {
		if place++; !ip.IsValid() {
			break
		}
		if place == t.Proxies {
			return ip
		}
	}
	return peer
}

// walked goes from the end for as long as the addresses are proxies'.
func (t Trust) walked(r *http.Request) netip.Addr {
	last := PeerIP(r)
	if !t.proxy(last) {
		return last
	}
	place := 0
	for ip := range t.hops(r) {
		if place++; !ip.IsValid() || place > maxHops {
			break
		}
		if last = ip; !t.proxy(ip) {
			break
		}
	}
	return last
}
