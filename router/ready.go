package router

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/wskit/wskit/internal/outage"
)

// Ready returns a handler for the readiness probe of a load balancer or of Kubernetes. It answers 200 while the router
// takes handshakes and Backend.Check returns nil, and 503 otherwise: from the moment in which [Router.Shutdown] refuses
// handshakes. Check is called at most once in a second, however often the handler is, and for at most 2 s. It may be
// called concurrently.
func (r *Router) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if r.draining.Load() || r.checks.latest(req.Context(), r.reportCheck) != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

const (
	checkEvery   = time.Second
	checkTimeout = 2 * time.Second
)

func (r *Router) checkBackend() (err error) {
	check := r.opts.Backend.Check
	if check == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = panicError("Backend.Check", v)
			r.fault(Fault{Hook: "Backend.Check", Err: err, Stack: stack()})
		}
	}()
	ctx, cancel := context.WithTimeout(r.ctx, checkTimeout)
	defer cancel()
	return check(ctx)
}

// reportCheck logs when the backend begins to fail and when it works again.
func (r *Router) reportCheck() error {
	err := r.checkBackend()
	if err == nil {
		r.checks.outage.Works()
	} else {
		r.checks.outage.Failed(err)
	}
	return err
}

// checks makes a check at most once in checkEvery, for all that ask.
type checks struct {
	outage outage.Reporter

	mu  sync.Mutex
	now *check
}

type check struct {
	began time.Time
	done  chan struct{} // closed when err is set
	err   error
}

// latest returns the result of the latest check, or waits for it.
func (cs *checks) latest(ctx context.Context, ask func() error) error {
	c := cs.join(ask)
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join returns the latest check, and begins one if that is too old.
func (cs *checks) join(ask func() error) *check {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.now != nil && (!cs.now.over() || time.Since(cs.now.began) < checkEvery) {
		return cs.now
	}
	c := &check{began: time.Now(), done: make(chan struct{})}
	cs.now = c
	go func() {
		defer close(c.done)
		c.err = ask()
	}()
	return c
}

func (c *check) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
