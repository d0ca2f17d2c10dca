package router

import (
	"context"

	"github.com/wskit/wskit/router/internal/life"
)

// drainEvents is called by the reader when the client has closed. Requests cannot be
// answered any more, but events that came before are handled: a fast close must not lose
// events that were sent before it.
func (c *Conn) drainEvents() {
	c.to(life.Closing)
	c.stream.Close() // the client waits for that
	if !c.turn.HasEvents() {
		return
	}
	for _, k := range c.turn.Open() {
		if k.route.request {
			k.cancel(context.Canceled)
		}
	}
	c.enterPhase(life.AwaitEvents)
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
		c.enterPhase(life.Over)
	} else {
		c.enterPhase(life.Flush)
	}
	c.leave()
	if c.peer.Traced.Load() {
		c.router.traceEnded(c)
	}
	c.countEnd()
	if c.router.directory.on.Load() {
		c.router.directory.remove(c)
	}
	if c.admission != nil {
		c.admission.Release()
	}
	return true
}

// countEnd counts the connection as one that has ended.
func (c *Conn) countEnd() {
	s, info := &c.router.stats, c.info.Load()
	if info.ByServer {
		s.closedByServer.Add(info.Code)
	} else {
		s.closedByClient.Add(info.Code)
	}
	s.lasted.Add(c.router.now() - c.opened)
}

// endContext moves the connection to its last state, and cancels its context.
func (c *Conn) endContext() bool {
	c.peer.Close() // before a handler can see the end
	if !c.to(life.Ended) {
		return false
	}
	if x := c.ctx.Load(); x != nil {
		x.end()
	}
	return true
}

// leave ends all memberships, and records for OnClose what they were.
func (c *Conn) leave() {
	topics := c.peer.End(c.info.Load().mayComeBack())
	if len(topics) > 0 && c.router.hooks.Load().closes {
		info := *c.info.Load()
		info.Topics = topics
		c.info.Store(&info)
	}
}

// afterEnd reports the end of a connection that has been taken apart.
func (c *Conn) afterEnd() {
	defer c.router.conns.Remove(c) // also if a hook calls runtime.Goexit
	if c.life.Announced() {
		c.onClose()
	}
}
