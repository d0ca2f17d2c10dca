package router

import (
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

// maxLoggedOrigin bounds an origin and a host in the log, in bytes.
const maxLoggedOrigin = 200

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
