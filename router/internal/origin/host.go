package origin

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

// A page of evil.example whose name leads to this server's address (DNS rebinding) sends
// evil.example as its origin and as the request's host: the two are equal, and only
// Options.Handshake.Hosts tells that the name is not this server's.

// CheckHost refuses requests for hosts that are not in Options.Handshake.Hosts, with status 421.
func (p *Policy) CheckHost(req *http.Request) error {
	if len(p.Hosts) == 0 {
		return nil
	}
	if _, ok := p.configuredHost(req); ok {
		return nil
	}
	p.logHost(req.Host)
	return &ingress.Refusal{
		Status: http.StatusMisdirectedRequest,
		Err: errors.PermissionDenied.Errorf(
			"this server does not serve the host %.200q; it serves those of router.Options.Handshake.Hosts", req.Host),
	}
}

// configuredHost finds the entry of Options.Handshake.Hosts that a request is for, and the scheme
// that it has, if any. An entry without a port is for all ports.
func (p *Policy) configuredHost(req *http.Request) (scheme string, ok bool) {
	host := strings.ToLower(req.Host)
	name := host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name = host[:i]
	}
	for _, pattern := range p.Hosts {
		scheme, pattern := cutScheme(pattern)
		target := name
		if strings.LastIndexByte(pattern, ':') > strings.LastIndexByte(pattern, ']') {
			target = host
		}
		if matchHost(pattern, target) {
			return scheme, true
		}
	}
	return "", false
}

// matchHost also matches an IPv6 address, whose brackets are a set of characters in a
// pattern.
func matchHost(pattern, host string) bool {
	ok, _ := path.Match(pattern, host)
	return ok || pattern == host
}

// sameScheme reports whether a page of the request's own host has its scheme, too. A page
// over http can be changed on its way to the browser, so it must not open a wss in the name
// of its visitor. A page over https cannot open a plain ws: browsers refuse it, so such a
// request has come by a proxy that ends TLS.
func (p *Policy) sameScheme(origin *url.URL, req *http.Request) bool {
	switch strings.ToLower(origin.Scheme) {
	case "https":
		return true
	case "http":
		return !p.secure(req)
	default:
		return false
	}
}

// secure reports whether the browser's side of a request is known to be TLS: by the
// entry of Options.Handshake.Hosts, by what proxies say, or by the connection itself.
//
// What proxies say needs no ingress.Trust: it decides about pages alone, and a page cannot
// set a header field of its handshake. Other clients can, and send any Origin anyway.
func (p *Policy) secure(req *http.Request) bool {
	if scheme, _ := p.configuredHost(req); scheme != "" {
		return scheme == "https"
	}
	said := false
	for _, line := range req.Header.Values("X-Forwarded-Proto") {
		for scheme := range strings.SplitSeq(line, ",") {
			said = true
			if scheme = strings.TrimSpace(scheme); strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "wss") {
				return true
			}
		}
	}
	return !said && req.TLS != nil
}
