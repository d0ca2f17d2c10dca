package router

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
)

// wheel looks after the liveness of all connections with one goroutine: a
// hashed timer wheel, in which a connection is hung at the time of its next
// check. Adding, moving and removing take constant time.
type wheel struct {
	r    *Router
	tick time.Duration

	mu      sync.Mutex
	slots   [256]timerLink // heads of circular lists
	at      int64          // the tick that was handled last
	size    int
	running bool
}

// timerLink is a place in a slot's list.
type timerLink struct {
	prev, next  *timerLink
	conn        *Conn
	due         int64         // tick
	pingAt      time.Duration // when a ping was sent that has not been answered; 0: none
	closing     bool          // was closing at the last check
	readBlocked bool          // had a frame in hand at the last check
	maxAge      time.Duration
}

const (
	minTick = 5 * time.Millisecond
	maxTick = time.Second
)

func (w *wheel) init(r *Router) {
	w.r = r
	w.tick = maxTick
	l := r.opts.Liveness
	for _, d := range []time.Duration{l.PingInterval, l.PongTimeout, l.MessageTimeout, l.IdleTimeout, l.MaxAge} {
		if d > 0 {
			w.tick = min(w.tick, max(d/8, minTick))
		}
	}
	for i := range w.slots {
		w.slots[i].prev, w.slots[i].next = &w.slots[i], &w.slots[i]
	}
}

// now is the time after the epoch.
func (r *Router) now() time.Duration { return time.Since(r.epoch) }

func (w *wheel) add(c *Conn) {
	l := w.r.opts.Liveness
	if l.MaxAge > 0 {
		c.timer.maxAge = l.MaxAge - rand.N(l.MaxAge/10+1)
	}
	c.timer.conn = c
	next := c.nextCheck(w.r.now())
	if next < 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.ended.Load() {
		return
	}
	w.hang(&c.timer, next)
	w.size++
	if !w.running {
		w.running = true
		w.at = int64(w.r.now() / w.tick)
		go w.run()
	}
}

// hang puts a link where its time is due, and not before the next tick.
func (w *wheel) hang(t *timerLink, at time.Duration) {
	t.due = max(int64(at/w.tick)+1, w.at+1)
	head := &w.slots[t.due%int64(len(w.slots))]
	t.prev, t.next = head.prev, head
	t.prev.next, t.next.prev = t, t
}

func (t *timerLink) unhang() {
	t.prev.next, t.next.prev = t.next, t.prev
	t.prev, t.next = nil, nil
}

func (w *wheel) remove(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.timer.next != nil {
		c.timer.unhang()
		w.size--
	}
}

func (w *wheel) run() {
	tick := time.NewTicker(w.tick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !w.advance() {
				return
			}
		case <-w.r.ctx.Done():
			return
		}
	}
}

// advance handles the ticks that have come since the last time. It reports
// whether there is anything left to look after.
func (w *wheel) advance() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.r.now()
	for to := int64(now / w.tick); w.at < to; {
		w.at++
		head := &w.slots[w.at%int64(len(w.slots))]
		for t := head.next; t != head; {
			next := t.next
			if t.due <= w.at {
				t.unhang()
				if at := t.conn.check(now); at >= 0 {
					w.hang(t, at)
				} else {
					w.size--
				}
			}
			t = next
		}
	}
	if w.size == 0 {
		w.running = false
	}
	return w.running
}

// check closes a connection that counts as dead, pings one that is silent, and
// returns when to check again, or -1. It does not block.
func (c *Conn) check(now time.Duration) time.Duration {
	if c.ended.Load() {
		return -1
	}
	if c.closing.Load() {
		// The close frame is out and the reader has a deadline; but the reader
		// may be held up by handlers.
		return c.checkClosing(now)
	}
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
		// Writing tells whether somebody is still there.
		c.timer.pingAt = now
		c.stream.Out.Ping()
		c.stream.Out.Flush()
	case c.timer.pingAt > 0 && now-c.timer.pingAt >= l.PongTimeout:
		c.Close(errors.CloseNoHeartbeat, "no heartbeat")
		// Nobody is there to answer the close frame.
		c.stream.SetReadDeadline(time.Now())
	case l.PingInterval > 0 && now-heard >= l.PingInterval && c.timer.pingAt == 0:
		c.timer.pingAt = now
		c.stream.Out.Ping()
		c.stream.Out.Flush()
	}
	if c.closing.Load() {
		return c.checkClosing(now)
	}
	return c.nextCheck(now)
}

// readBlocked reports whether a pong may have come that has not been read, because the
// reader has, or had until just now, a frame in hand that middleware keeps waiting.
func (c *Conn) readBlocked() bool {
	before := c.timer.readBlocked
	c.timer.readBlocked = c.turn.FrameInHand()
	return before || c.timer.readBlocked
}

// checkClosing gives a closing connection its time and then takes it apart,
// whatever its reader is doing.
func (c *Conn) checkClosing(now time.Duration) time.Duration {
	if !c.timer.closing {
		c.timer.closing = true
		return now + 2*closeTimeout
	}
	c.stream.Abort()
	go c.end(nil)
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
	return next
}
