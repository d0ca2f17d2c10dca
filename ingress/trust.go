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

// Trust says which proxies stand before the server and so what of a request's
// header fields may be believed. Anybody can send such a field: without a Trust
// none is believed. Set Proxies or Prefixes for a list, which is read from its end,
// where the proxies write, and never further than they vouch for:
//
//	ingress.Trust{Proxies: 1}                               // nginx before the server
//	ingress.Trust{Prefixes: balancers}                      // balancers at known addresses
//	ingress.Trust{Header: "Forwarded", Proxies: 2}    // RFC 7239, through two proxies
//
// or name the field in which a network of proxies writes one address:
//
//	ingress.Trust{Header: "CF-Connecting-IP", Prefixes: cloudflare}
type Trust struct {
	// Header is the field to read: X-Forwarded-For and Forwarded are lists, any
	// other holds a single address, in place of whatever the client sent in it.
	//
	// Default: X-Forwarded-For.
	Header string

	// Proxies is the number of proxies that a request comes through, at most 32;
	// each has appended one address, so the client's is that far from the end. A
	// list that is shorter did not come that way, and is not believed.
	//
	// It is of no use with a header of a single address. Default: 0, not counted.
	Proxies int

	// Prefixes are the addresses of the proxies. Only a request whose TCP peer is
	// in one of them is believed at all. If Proxies is 0, the client is the last
	// address of the list that is in none of them.
	//
	// Default: any peer is believed. That is right only where nothing but the
	// proxies can reach the server.
	Prefixes []netip.Prefix
}

// maxHops bounds how much of a list is read: no real one is longer, and a client
// may send whatever the server's limit on header bytes lets through.
const maxHops = 32

// ClientIP returns a function that finds a request's client by what t trusts, for
// the options of a router or a connection gate. Its result is without port and zone,
// and IPv4-mapped IPv6 is unmapped. It is not grouped: see [GroupIP].
//
// Where the fields do not say what they should, because they are missing, too
// short or hold no address (garbage, "unknown", an obfuscated name), it is the last
// address that can be vouched for: that of the TCP peer, or with Prefixes that of
// the proxy which reported something else. Such requests share that address's
// limits, so that nothing is gained by sending them. It is the zero Addr only where
// [PeerIP] is, and then counts as one client.
//
// The zero Trust is [PeerIP]. ClientIP panics if t makes no sense, saying what to
// change.
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
		panic(fmt.Sprintf("ingress: Trust.Header is %q and nothing says whom to believe in it: set Proxies to the number of proxies, or Prefixes to their addresses", t.Header))
	}
	for _, p := range t.Prefixes {
		if !p.IsValid() {
			panic("ingress: Trust.Prefixes holds an invalid prefix; make it with netip.MustParsePrefix")
		}
	}
}

// believes reports whether a peer's header fields count.
func (t Trust) believes(peer netip.Addr) bool {
	return len(t.Prefixes) == 0 || t.proxy(peer)
}

func (t Trust) proxy(ip netip.Addr) bool {
	return ip.IsValid() && slices.ContainsFunc(t.Prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// single reads a field that must hold exactly one address: a second line means
// that the proxy has not replaced what the client sent.
func (t Trust) single(r *http.Request) netip.Addr {
	peer := PeerIP(r)
	if lines := r.Header[t.Header]; len(lines) == 1 && t.believes(peer) {
		if ip, ok := forwardedFor(lines[0]); ok {
			return ip
		}
	}
	return peer
}

// counted takes the address a fixed number of places from the end.
func (t Trust) counted(r *http.Request) netip.Addr {
	peer := PeerIP(r)
	if !t.believes(peer) {
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
