package batch

import (
	"context"
	"sync"
	"time"
)

// A callerContext is the context of a caller with an earlier deadline and a timeout for round trips, during a single
// call on the caller's goroutine. With Options.ReuseContext it is used for one call after the other, and its timer,
// once set, is left running between them: so most calls neither make a context nor set a timer. Until a call has taken
// cancelAfter, it does not wait for the end of the caller's context either. All its methods may be called concurrently;
// after the call it has a deadline and no values.
type callerContext struct {
	mu       sync.Mutex
	caller   context.Context // nil between calls
	timeout  time.Duration
	began    time.Time
	deadline time.Time
	done     chan struct{}
	err      error
	timer    *time.Timer
	fires    time.Time   // the timer; zero if it does not run
	stop     func() bool // ends the waiting for the end of the caller's context; nil before that
}

// cancelAfter is how long a single call may take before it notices that its caller's context has ended.
const cancelAfter = 20 * time.Millisecond

func newCallerContext() *callerContext { return &callerContext{done: make(chan struct{})} }

// begin makes it the context of a call that may take so long. It is not in use.
func (c *callerContext) begin(caller context.Context, timeout, most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.caller, c.timeout, c.began = caller, timeout, time.Now()
	c.deadline = c.began.Add(most)
	if caller.Done() != nil {
		most = min(most, cancelAfter)
	}
	if next := c.began.Add(most); c.fires.IsZero() || next.Before(c.fires) {
		c.setTimer(most, next)
	}
}

// setTimer has the timer fire after a while, which is at next. c.mu is held.
func (c *callerContext) setTimer(after time.Duration, next time.Time) {
	if c.fires = next; c.timer == nil {
		c.timer = time.AfterFunc(after, c.expire)
	} else {
		c.timer.Reset(after)
	}
}

// end is called after the call. It reports whether the context can be used for another one.
func (c *callerContext) end() bool {
	c.mu.Lock()
	stop := c.stop
	c.caller, c.timeout, c.stop = nil, 0, nil
	over := c.err != nil
	c.mu.Unlock()
	if (stop == nil || stop()) && !over {
		return true
	}
	c.timer.Stop()
	return false
}

// expire is called by the timer, which may have been set for an earlier call.
func (c *callerContext) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fires = time.Time{}
	if c.caller == nil {
		return
	}
	now := time.Now()
	next := c.deadline
	if c.stop == nil && c.caller.Done() != nil {
		if now.Sub(c.began) >= cancelAfter {
			c.stop = context.AfterFunc(c.caller, c.cancelled)
		} else if until := c.began.Add(cancelAfter); until.Before(next) {
			next = until
		}
	}
	if left := next.Sub(now); left > 0 {
		c.setTimer(left, next)
		return
	}
	c.finish(context.DeadlineExceeded)
}

// cancelled is called when the context of the caller has ended.
func (c *callerContext) cancelled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.caller != nil {
		c.finish(c.caller.Err())
	}
}

// finish ends the context. c.mu is held.
func (c *callerContext) finish(err error) {
	if c.err == nil {
		c.err = err
		close(c.done)
	}
}

// Deadline implements [context.Context].
func (c *callerContext) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadline, true
}

// Done implements [context.Context].
func (c *callerContext) Done() <-chan struct{} { return c.done }

// Err implements [context.Context].
func (c *callerContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value implements [context.Context].
func (c *callerContext) Value(key any) any {
	c.mu.Lock()
	caller, timeout := c.caller, c.timeout
	c.mu.Unlock()
	switch {
	case key == (timeoutKey{}) && timeout > 0:
		return timeout
	case caller == nil:
		return nil
	}
	return caller.Value(key)
}
