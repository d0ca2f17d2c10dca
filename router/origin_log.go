package router

import (
	"net/url"
	"sync"
	"time"
)

// maxRefusedOrigins is how many refused origins and hosts are logged in refusedOriginsFor. The
// origins are text of clients: this bounds the log and the memory.
const (
	maxRefusedOrigins = 100
	refusedOriginsFor = time.Hour
)

// refusedOrigins are the refused origins and hosts that have been logged.
type refusedOrigins struct {
	mu    sync.Mutex
	since time.Time
	seen  map[string]bool
}

// add reports whether an origin is to be logged, and whether it is the last for now.
func (o *refusedOrigins) add(origin string) (first, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil || time.Since(o.since) >= refusedOriginsFor {
		o.seen, o.since = make(map[string]bool), time.Now()
	}
	if o.seen[origin] || len(o.seen) >= maxRefusedOrigins {
		return false, false
	}
	o.seen[origin] = true
	return true, len(o.seen) == maxRefusedOrigins
}

// logRefusedOrigin logs a refused origin once, with the setting that allows it: the
// browser tells its page nothing but that the connection failed.
func (r *Router) logRefusedOrigin(origin, host string) {
	origin, host = cut(origin, maxLoggedOrigin), cut(host, maxLoggedOrigin)
	remedy := "to let it connect, add " + origin + " to router.Options.Origins"
	if u, err := url.Parse(origin); err != nil || u.Host == "" {
		remedy = "the page has no origin that can be allowed, as when it is opened from a file: serve the page over http or https"
	}
	r.logRefused(origin, "wskit: a page of another origin was refused", "origin", origin, "host", host, "remedy", remedy)
}

// logRefusedHost logs a host that is not in Options.Hosts once.
func (r *Router) logRefusedHost(host string) {
	host = cut(host, maxLoggedOrigin)
	r.logRefused("host "+host, "wskit: a request for another host was refused", "host", host,
		"remedy", "if this server has the name, add "+host+" to router.Options.Hosts")
}

func (r *Router) logRefused(what, message string, attrs ...any) {
	first, last := r.refused.add(what)
	if !first {
		return
	}
	if last {
		attrs = append(attrs, "note", "no more origins are logged within this hour")
	}
	r.opts.Logger.Warn(message, attrs...)
}

// maxLoggedOrigin bounds an origin and a host in the log, in bytes.
const maxLoggedOrigin = 200

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
