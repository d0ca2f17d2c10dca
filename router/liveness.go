package router

import (
	"math/rand/v2"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router/internal/life"
)

// liveness is what the checks of a connection remember. But for maxAge it is of the timer wheel's goroutine.
type liveness struct {
	maxAge      time.Duration     // of this connection
	pingAt      time.Duration     // when a ping was sent that has not been answered; 0: none
	readBlocked bool              // had a frame under way at the last check
	noticed     *ingress.Identity // for which $ws:expiring was sent
}

// initLiveness comes before the first check. Connections that began together end at different times.
func (c *Conn) initLiveness() {
	c.timer.Of, c.watched.Of = c, c
	if age := c.router.opts.Liveness.MaxAge; age > 0 {
		c.liveness.maxAge = age - rand.N(age/10+1)
	}
}

// The tick of the timer wheel is an eighth of the shortest time, within these.
const (
	minTick = 5 * time.Millisecond
	maxTick = 250 * time.Millisecond
)

func (l Liveness) tick() time.Duration {
	tick := maxTick
	for _, d := range []time.Duration{l.PingInterval, l.PongTimeout, l.MessageTimeout, l.IdleTimeout, l.MaxAge} {
		if d > 0 {
			tick = min(tick, max(d/8, minTick))
		}
	}
	return tick
}

// enterPhase begins a phase of closing, unless the connection is in a later one, and has it ended when its time is
// over.
func (c *Conn) enterPhase(p life.Phase) {
	now := c.router.now()
	switch {
	case !c.closing.Enter(p, now):
	case p == life.Over:
		c.router.wheel.Cancel(&c.timer)
	default:
		c.router.wheel.Schedule(&c.timer, now)
	}
}

// check closes a connection that counts as dead, pings one that is silent, and
// returns when to check again, or -1. It does not block.
func (c *Conn) check(now time.Duration) time.Duration {
	if c.life.State() >= life.Closing {
		return c.checkClosing(now)
	}
	c.checkIdentity(now)
	l := &c.router.opts.Liveness
	heard := c.stream.Heard()
	if heard >= c.liveness.pingAt {
		c.liveness.pingAt, c.liveness.readBlocked = 0, false
	}
	readBlocked := c.liveness.pingAt > 0 && c.readBlocked()
	unfinished := c.stream.Unfinished()
	switch {
	case l.MessageTimeout > 0 && unfinished > 0 && now-unfinished >= l.MessageTimeout:
		c.Close(errors.CloseNoHeartbeat, "message not complete in time") // the network has stalled: the client may come back
	case c.liveness.maxAge > 0 && now-c.opened >= c.liveness.maxAge:
		c.Close(errors.CloseGoingAway, "maximum age reached")
	case l.IdleTimeout > 0 && now-time.Duration(c.message.Load()) >= l.IdleTimeout:
		c.Close(errors.CloseNormal, "idle")
	case readBlocked && c.stream.Out.Gone():
		go c.end(nil) // the reader, which would notice, is held up
		return -1
	case readBlocked:
		// A write fails if the client is gone.
		c.liveness.pingAt = now
		c.stream.Out.Ping()
		c.stream.Out.Flush()
	case c.liveness.pingAt > 0 && now-c.liveness.pingAt >= l.PongTimeout:
		c.Close(errors.CloseNoHeartbeat, "no heartbeat")
		go c.end(nil) // without waiting for an answer to the close frame
		return -1
	case l.PingInterval > 0 && now-heard >= l.PingInterval && c.liveness.pingAt == 0:
		c.liveness.pingAt = now
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
	before := c.liveness.readBlocked
	c.liveness.readBlocked = c.turn.FrameInHand()
	return before || c.liveness.readBlocked
}

// checkClosing ends the phase of a connection that is closing when its time is over,
// whatever its reader is doing.
func (c *Conn) checkClosing(now time.Duration) time.Duration {
	phase, until := c.closing.Phase()
	switch {
	case phase == life.None: // about to enter one
		return now
	case c.ended() && c.stream.Out.Gone():
		c.enterPhase(life.Over)
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
	if c.liveness.maxAge > 0 {
		soonest(c.opened + c.liveness.maxAge)
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
		if heard := c.stream.Heard(); heard < c.liveness.pingAt {
			soonest(c.liveness.pingAt + l.PongTimeout)
			// If it has come by then, the next ping must not wait for the longer PongTimeout.
			if due := c.liveness.pingAt + l.PingInterval; due > now {
				soonest(due)
			}
		} else {
			soonest(heard + l.PingInterval)
		}
	}
	if id := c.identity.Load(); !id.ExpiresAt.IsZero() {
		if at := c.identityDue(id, c.liveness.noticed == id, now); at >= 0 {
			soonest(at)
		}
	}
	return next
}
