package origin

import (
	"net/url"
	"sync"
	"time"
)

// maxLogged is how many refused origins and hosts are logged in loggedFor. They are text of clients: this bounds the
// log and the memory.
const (
	maxLogged = 100
	loggedFor = time.Hour
)

// refused are the refused origins and hosts that have been logged.
type refused struct {
	mu    sync.Mutex
	since time.Time
	seen  map[string]bool
}

// add reports whether an origin is to be logged, and whether it is the last for now.
func (o *refused) add(origin string) (first, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil || time.Since(o.since) >= loggedFor {
		o.seen, o.since = make(map[string]bool), time.Now()
	}
	if o.seen[origin] || len(o.seen) >= maxLogged {
		return false, false
	}
	o.seen[origin] = true
	return true, len(o.seen) == maxLogged
}

// maxText bounds an origin and a host in the log, in bytes.
const maxText = 200

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// logOrigin logs a refused origin once, with the setting that allows it: the
// browser shows its page only that the connection failed.
func (p *Policy) logOrigin(origin, host string) {
	origin, host = cut(origin, maxText), cut(host, maxText)
	remedy := "to let it connect, add " + origin + " to router.Options.Origins"
	if u, err := url.Parse(origin); err != nil || u.Host == "" {
		remedy = "the page has no origin that can be allowed, as when it is opened from a file: serve the page over http or https"
	}
	p.logRefused(origin, "wskit: a page of another origin was refused", "origin", origin, "host", host, "remedy", remedy)
}

// logHost logs a host that is not in Options.Handshake.Hosts once.
func (p *Policy) logHost(host string) {
	host = cut(host, maxText)
	p.logRefused("host "+host, "wskit: a request for another host was refused", "host", host,
		"remedy", "if this server has the name, add "+host+" to router.Options.Handshake.Hosts")
}

func (p *Policy) logRefused(what, message string, attrs ...any) {
	first, last := p.refused.add(what)
	if !first {
		return
	}
	if last {
		attrs = append(attrs, "note", "no more origins are logged within this hour")
	}
	p.Logger.Warn(message, attrs...)
}
