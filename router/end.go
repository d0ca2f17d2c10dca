package router

import (
	"context"

	"github.com/wskit/wskit/router/internal/life"
)

// drainEvents is called by the reader when the client has closed. Requests cannot be
// answered any more, but events that came before are handled: a fast close must not lose
// events that were sent before it.
func (c *Conn) drainEvents() {
	c.life.To(life.Closing)
	c.stream.Close() // the client waits for that
	if !c.turn.HasEvents() {
		return
	}
	for _, k := range c.turn.Open() {
		if k.route.request {
			k.cancel(context.Canceled)
		}
	}
	c.router.wheel.enter(c, life.AwaitEvents)
	c.turn.AwaitEvents()
}

// end takes the connection apart, once, and calls OnClose. err is what ended the
// reading.
func (c *Conn) end(err error) {
	if c.takeApart(err) {
		c.afterEnd()
	}
}

// takeApart is end without OnClose, which may wait for anything; this waits for nothing.
// It returns false for a connection that has been taken apart before.
func (c *Conn) takeApart(err error) bool {
	c.note(CloseInfo{Code: closeAbnormal, Err: err})
	if !c.endContext() {
		return false
	}
	// The socket is closed when what is queued has left.
	c.stream.Close()
	for _, k := range c.turn.Stop() {
		k.cancel(context.Canceled)
	}
	if c.stream.Out.Gone() {
		c.router.wheel.enter(c, life.Over)
	} else {
		c.router.wheel.enter(c, life.Flush)
	}
	c.leaveAll()
	if c.admission != nil {
		c.admission.Release()
	}
	return true
}

// endContext moves the connection to its last state, and cancels its context.
func (c *Conn) endContext() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.life.To(life.Ended) {
		return false
	}
	if c.ctx != nil {
		close(c.ctx.done)
	}
	return true
}

// afterEnd reports the end of a connection that has been taken apart.
func (c *Conn) afterEnd() {
	if c.life.Announced() {
		c.onClose()
	}
	c.router.remove(c)
}

func (c *Conn) onClose() {
	if c.router.opts.OnClose == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			c.router.fault(Fault{Conn: c, Err: panicError("OnClose", v), Stack: stack()})
		}
	}()
	c.router.opts.OnClose(c, *c.info.Load())
}
