package router

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/ceil"
	"github.com/wskit/wskit/router/internal/life"
)

// A drain closes connections in batches, so that neither this process nor those
// that take the clients over are hit by all at once.
const (
	drainBatch = 500
	drainPause = 20 * time.Millisecond
)

// The default of Options.Liveness.DrainWindow. While 500 clients a second come to another server on two
// cores, the p99 latency of its own clients is twice as long as before, while 1,000 come four times
// (bench/RESULTS.md, Reconnects). Within the minimum come 500 at most. The maximum bounds for how
// long a client is away: its requests wait, and a history keeps so many messages
// only.
const (
	drainPerConn   = 2 * time.Millisecond
	minDrainWindow = time.Second
	maxDrainWindow = time.Minute
)

// maxRefusedWait bounds the wait that is advised for what a server refuses while it drains.
const maxRefusedWait = 5 * time.Second

// drainWindow is the time over which clients reconnect if so many connections are open.
func (o *Options) drainWindow(open int64) time.Duration {
	if o.Liveness.DrainWindow != 0 {
		return max(0, o.Liveness.DrainWindow)
	}
	return min(max(minDrainWindow, time.Duration(open)*drainPerConn), maxDrainWindow)
}

// Shutdown drains the router: handshakes are refused with 503; messages that are
// being handled, or wait for their turn, are handled and answered, while others
// that still come are answered UNAVAILABLE; and each connection that has none
// left is closed with 1001. The reason {"retryAfterMs":n} says when to reconnect,
// at random within Options.Liveness.DrainWindow, for which Shutdown does not wait.
//
// It returns nil when all connections have ended and OnClose has returned for
// each, what they held of Options.Gate is released, and the hooks OnShutdown have returned; or, when ctx is done, its
// error, having cut off those that were left and cancelled their handlers' contexts:
// it waits neither for these nor for OnClose then. Where the gate has something to
// release, see [ingress.Gate], connections are cut off before the deadline of ctx: by a
// tenth of the time, a second at most.
//
// Handshakes that are under way are waited for as well. http.Server.Shutdown does nothing for
// connections that have been upgraded: call this before it, and close presence, broker and stores
// after it. A Router that has been shut down cannot be used again.
func (r *Router) Shutdown(ctx context.Context) (err error) {
	// Before draining is set: whatever sees that reads the window. A second call finds fewer
	// connections, and leaves the window as it is.
	r.drainWindow.CompareAndSwap(0, int64(r.opts.drainWindow(r.conns.Len())))
	r.draining.Store(true)
	awaitHooks := r.callOnShutdown(ctx)
	defer func() {
		err = cmp.Or(err, awaitHooks())
		r.cancel()
		r.rights.Close()
		r.away.End()
		if r.cluster != nil {
			r.cluster.Leave(ctx)
		}
	}()
	gate, ok := r.opts.Gate.(interface{ Flush(context.Context) error })
	if !ok {
		return r.drain(ctx)
	}
	within, cancel := beforeDeadline(ctx)
	defer cancel()
	err = r.drain(within)
	_ = r.awaitEmpty(ctx) // what was cut off ends on its own goroutine
	if failed := gate.Flush(ctx); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// callOnShutdown calls the OnShutdown hooks. await returns when all have returned, or the error of ctx.
func (r *Router) callOnShutdown(ctx context.Context) (await func() error) {
	hooks := r.hooks.Load().shutdowns
	if len(hooks) == 0 {
		return func() error { return nil }
	}
	within, cancel := beforeDeadline(ctx)
	var running sync.WaitGroup
	for _, hook := range hooks {
		running.Go(func() {
			defer r.containPanic("OnShutdown", nil, "")
			hook(within)
		})
	}
	returned := make(chan struct{})
	go func() {
		running.Wait()
		close(returned)
	}()
	return func() error {
		defer cancel()
		select {
		case <-returned:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// beforeDeadline leaves time until the deadline of a context.
func beforeDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline.Add(-min(max(0, time.Until(deadline)/10), time.Second)))
}

// drain ends all connections, and cuts off those that are left when ctx is done.
func (r *Router) drain(ctx context.Context) error {
	for i, c := range r.conns.All() {
		if i > 0 && i%drainBatch == 0 {
			select {
			case <-time.After(drainPause):
			case <-ctx.Done():
			}
		}
		c.beginDrain()
	}
	if err := r.awaitEmpty(ctx); err != nil {
		for _, c := range r.conns.All() {
			c.note(CloseInfo{Code: closeAbnormal, ByServer: true, Err: err})
			c.stream.Abort()
			if c.takeApart(err) {
				go c.afterEnd()
			}
		}
		return err
	}
	// Handlers of connections that ended before them.
	return r.handlers.Wait(ctx)
}

// awaitEmpty waits until there is no connection, and no handshake that may become one.
func (r *Router) awaitEmpty(ctx context.Context) error {
	if err := r.handshakes.Wait(ctx); err != nil {
		return err
	}
	return r.conns.AwaitEmpty(ctx)
}

// drainHint is a moment of the drain's window, at random.
func (r *Router) drainHint() time.Duration { return atRandom(time.Duration(r.drainWindow.Load())) }

// drainReason says when to reconnect.
func drainReason(d time.Duration) string {
	return `{"retryAfterMs":` + strconv.FormatInt(ceil.Div(d, time.Millisecond), 10) + `}`
}

// drainError refuses a handshake or a message. Those are few, and another server may take them.
func (r *Router) drainError() error {
	within := min(time.Duration(r.drainWindow.Load()), maxRefusedWait)
	return errors.Unavailable.New("the server is shutting down").WithRetryAfter(atRandom(within))
}

func atRandom(within time.Duration) time.Duration {
	if within <= 0 {
		return 0
	}
	return rand.N(within)
}

func (c *Conn) beginDrain() {
	c.life.To(life.Draining)
	c.drained()
}

// drained closes the connection if it is draining and nothing of it is being handled.
func (c *Conn) drained() {
	if c.life.State() == life.Draining && c.turn.Idle() {
		c.Close(errors.CloseGoingAway, drainReason(c.router.drainHint()))
	}
}
