package router

import (
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/internal/life"
)

// check closes a connection that counts as dead, pings one that is silent, and
// returns when to check again, or -1. It does not block.
func (c *Conn) check(now time.Duration) time.Duration {
	if c.life.State() >= life.Closing {
		return c.checkClosing(now)
	}
	c.checkIdentity(now)
	l := &c.router.opts.Liveness
	heard := c.stream.Heard()
	if heard >= c.timer.pingAt {
		c.timer.pingAt, c.timer.readBlocked = 0, false
	}
	readBlocked := c.timer.pingAt > 0 && c.readBlocked()
	unfinished := c.stream.Unfinished()
	switch {
	case l.MessageTimeout > 0 && unfinished > 0 && now-unfinished >= l.MessageTimeout:
		c.Close(errors.ClosePolicy, "message not complete in time")
	case c.timer.maxAge > 0 && now-c.opened >= c.timer.maxAge:
		c.Close(errors.CloseGoingAway, "maximum age reached")
	case l.IdleTimeout > 0 && now-time.Duration(c.message.Load()) >= l.IdleTimeout:
		c.Close(errors.CloseNormal, "idle")
	case readBlocked && c.stream.Out.Gone():
		go c.end(nil) // the reader, which would notice, is held up
		return -1
	case readBlocked:
		// A write fails if the client is gone.
		c.timer.pingAt = now
		c.stream.Out.Ping()
		c.stream.Out.Flush()
	case c.timer.pingAt > 0 && now-c.timer.pingAt >= l.PongTimeout:
		c.Close(errors.CloseNoHeartbeat, "no heartbeat")
		go c.end(nil) // without waiting for an answer to the close frame
		return -1
	case l.PingInterval > 0 && now-heard >= l.PingInterval && c.timer.pingAt == 0:
		c.timer.pingAt = now
		c.stream.Out.Ping()
		c.stream.Out.Flush()
	}
	if c.life.State() >= life.Closing {
		return c.checkClosing(now)
	}
	return c.nextCheck(now)
}

// readBlocked reports whether a pong may have come that has not been read, because the
// reader has, or had until just now, a frame that middleware delays.
func (c *Conn) readBlocked() bool {
	before := c.timer.readBlocked
	c.timer.readBlocked = c.turn.FrameInHand()
	return before || c.timer.readBlocked
}

// checkClosing ends the phase of a connection that is closing when its time is over,
// whatever its reader is doing.
func (c *Conn) checkClosing(now time.Duration) time.Duration {
	phase, until := c.router.wheel.phase(c)
	switch {
	case phase == life.None: // about to enter one
		return now
	case c.ended() && c.stream.Out.Gone():
		c.router.wheel.enter(c, life.Over)
		return -1
	case now < until && phase == life.Flush: // which may be over at any time
		return now
	case now < until:
		return until
	}
	if phase.Reset() {
		c.stream.Abort()
	}
	if !c.ended() {
		go c.end(nil)
	}
	return -1
}

func (c *Conn) nextCheck(now time.Duration) time.Duration {
	l := &c.router.opts.Liveness
	next := time.Duration(-1)
	soonest := func(at time.Duration) {
		if next < 0 || at < next {
			next = at
		}
	}
	if c.timer.maxAge > 0 {
		soonest(c.opened + c.timer.maxAge)
	}
	if l.MessageTimeout > 0 {
		// A message that begins after this look is not late before the next.
		since := c.stream.Unfinished()
		if since == 0 {
			since = now
		}
		soonest(since + l.MessageTimeout)
	}
	if l.IdleTimeout > 0 {
		soonest(time.Duration(c.message.Load()) + l.IdleTimeout)
	}
	if l.PingInterval > 0 {
		// The answer may be here already.
		if heard := c.stream.Heard(); heard < c.timer.pingAt {
			soonest(c.timer.pingAt + l.PongTimeout)
		} else {
			soonest(heard + l.PingInterval)
		}
	}
	if id := c.identity.Load(); !id.ExpiresAt.IsZero() {
		if at := c.identityDue(id, c.timer.noticed == id, now); at >= 0 {
			soonest(at)
		}
	}
	return next
}
