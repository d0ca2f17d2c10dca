// Package origin decides which pages may connect, and for which hosts a server is.
//
// It keeps pages of other sites from opening connections in the names of their visitors: a browser sends the origin of
// the page with the handshake, and the visitor's cookies too. Needed are the patterns of router.Options, compiled by
// [Patterns], and a log. Promised: a page of the request's own host may connect, unless it came over http and the
// request over https; others only by a pattern; what is refused is logged once with the setting that allows it, and
// both the log and the memory for that are bounded, whatever clients send.
package origin

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/wskit/wskit/errors"
)

// Policy is what is allowed. Its methods may be called from any goroutine; the fields are set before.
type Policy struct {
	Origins   []string // patterns of pages that may connect besides those of the request's host
	AnyOrigin bool     // pages of all origins may
	Hosts     []string // patterns of the hosts that are served; none: all
	Logger    *slog.Logger

	refused refused
}

// CheckOrigin refuses a handshake that comes from a page which may not connect, with PERMISSION_DENIED.
func (p *Policy) CheckOrigin(req *http.Request) error {
	if p.AnyOrigin {
		return nil
	}
	origins := req.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	if len(origins) == 1 {
		u, err := url.Parse(origins[0])
		if err == nil && u.Host != "" {
			host := strings.ToLower(u.Host)
			if (host == strings.ToLower(req.Host) || bothLoopback(u, req.Host)) && p.sameScheme(u, req) {
				return nil
			}
			full := strings.ToLower(u.Scheme) + "://" + host
			for _, pattern := range p.Origins {
				target := host
				if strings.Contains(pattern, "://") {
					target = full
				}
				if matchHost(pattern, target) {
					return nil
				}
			}
		}
	}
	origin := shownOrigin(origins)
	p.logOrigin(origin, req.Host)
	return errors.PermissionDenied.Errorf(
		"origin %.200q may not connect to host %.200q; the server allows an origin with router.Options.Origins",
		origin, req.Host)
}

// shownOrigin is the part of the Origin fields of a request that is logged and answered: scheme and
// host. What else a client sends in place of an origin may have a token in it.
func shownOrigin(origins []string) string {
	shown := make([]string, len(origins))
	for i, o := range origins {
		if u, err := url.Parse(o); err == nil && u.Host != "" {
			o = u.Scheme + "://" + u.Host
		} else if end := strings.IndexAny(o, "/?#@"); end >= 0 {
			o = o[:end] + "…"
		}
		shown[i] = o
	}
	return strings.Join(shown, ", ")
}

// bothLoopback reports whether an origin and a request's host are names of this
// machine with the same port: the browser of a developer opens the same server as
// localhost, 127.0.0.1 and [::1].
func bothLoopback(origin *url.URL, host string) bool {
	to, err := url.Parse("//" + host)
	return err == nil && origin.Port() == to.Port() && isLoopback(origin.Hostname()) && isLoopback(to.Hostname())
}

func isLoopback(name string) bool {
	switch strings.ToLower(name) {
	case "localhost", "127.0.0.1", "::1":
		return true
	}
	return false
}
