package router

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/wskit/wskit/errors"
)

// checkOrigin keeps pages of foreign sites from opening connections in their
// visitors' names. A browser sends the Origin of the page with the handshake, and
// the visitor's cookies too.
func (r *Router) checkOrigin(req *http.Request) error {
	if r.opts.InsecureAnyOrigin {
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
			if host == strings.ToLower(req.Host) {
				return nil
			}
			full := strings.ToLower(u.Scheme) + "://" + host
			for _, pattern := range r.opts.Origins {
				target := host
				if strings.Contains(pattern, "://") {
					target = full
				}
				if ok, _ := path.Match(pattern, target); ok {
					return nil
				}
			}
		}
	}
	return errors.PermissionDenied.Errorf(
		"origin %.200q may not connect to host %.200q; the server allows an origin with router.Options.Origins",
		strings.Join(origins, ", "), req.Host)
}
