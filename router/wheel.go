package router

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/internal/life"
)

// wheel looks after the liveness of all connections, and ends those that are closing when
// the time of their phase is over, with one goroutine: a hashed timer wheel, in which a
// connection is hung at the time of its next check. Adding, moving and removing take
// constant time. No lock is held during a check.
type wheel struct {
	r    *Router
	tick time.Duration

	mu      sync.Mutex
	slots   [256]timerLink // heads of circular lists
	due     timerLink      // head of those to be checked now
	at      int64          // the tick that was handled last
	size    int
	running bool
}

// timerLink is a connection's place in the wheel.
type timerLink struct {
	conn   *Conn
	maxAge time.Duration

	// guarded by wheel.mu
	prev, next *timerLink
	due        int64         // tick
	phase      life.Phase    // of closing
	until      time.Duration // the end of the phase

	// of the wheel's goroutine
	pingAt      time.Duration // when a ping was sent that has not been answered; 0: none
	readBlocked bool          // had a frame in hand at the last check
}

func (t *timerLink) init(c *Conn) {
	t.conn = c
	if age := c.router.opts.Liveness.MaxAge; age > 0 {
		t.maxAge = age - rand.N(age/10+1)
	}
}

const (
	minTick = 5 * time.Millisecond
	maxTick = 250 * time.Millisecond
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
	w.due.prev, w.due.next = &w.due, &w.due
}

// now is the time after the epoch.
func (r *Router) now() time.Duration { return time.Since(r.epoch) }

// add has a connection checked from now on.
func (w *wheel) add(c *Conn) {
	at := c.nextCheck(w.r.now())
	w.mu.Lock()
	defer w.mu.Unlock()
	if at >= 0 && c.timer.phase != life.Over {
		w.hang(&c.timer, at)
	}
}

// enter begins a phase of closing, unless the connection is in a later one, and ends it
// when its time is over.
func (w *wheel) enter(c *Conn, p life.Phase) {
	now := w.r.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &c.timer
	if p <= t.phase {
		return
	}
	t.phase, t.until = p, now+p.Time()
	if p != life.Over {
		w.hang(t, now)
	} else if t.next != nil {
		w.unhang(t)
	}
}

// phase is the connection's phase of closing, and when that ends.
func (w *wheel) phase(c *Conn) (life.Phase, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.timer.phase, c.timer.until
}

// hang puts a connection where its check is due, and not before the next tick. One that
// is due earlier stays where it is. w.mu is held.
func (w *wheel) hang(t *timerLink, at time.Duration) {
	if !w.running {
		w.running = true
		w.at = int64(w.r.now() / w.tick)
		go w.run()
	}
	due := max(int64(at/w.tick)+1, w.at+1)
	if t.next != nil {
		if t.due <= due {
			return
		}
		w.unhang(t)
	}
	t.due = due
	t.append(&w.slots[due%int64(len(w.slots))])
	w.size++
}

func (t *timerLink) append(head *timerLink) {
	t.prev, t.next = head.prev, head
	t.prev.next, t.next.prev = t, t
}

func (t *timerLink) unlink() {
	t.prev.next, t.next.prev = t.next, t.prev
	t.prev, t.next = nil, nil
}

func (w *wheel) unhang(t *timerLink) {
	t.unlink()
	w.size--
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
			// All connections have ended. What some still send is bounded by
			// Liveness.WriteTimeout.
			return
		}
	}
}

// advance handles the ticks that have come since the last time. It reports
// whether there is anything left to look after.
func (w *wheel) advance() bool {
	now := w.r.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for to := int64(now / w.tick); w.at < to; {
		w.at++
		head := &w.slots[w.at%int64(len(w.slots))]
		for t := head.next; t != head; {
			next := t.next
			if t.due <= w.at {
				t.unlink()
				t.append(&w.due)
			}
			t = next
		}
	}
	for w.due.next != &w.due {
		t := w.due.next
		w.unhang(t)
		w.mu.Unlock()
		at := t.conn.check(now)
		w.mu.Lock()
		if at >= 0 && t.phase != life.Over {
			w.hang(t, at)
		}
	}
	w.running = w.size > 0
	return w.running
}

// check closes a connection that counts as dead, pings one that is silent, and
// returns when to check again, or -1. It does not block.
func (c *Conn) check(now time.Duration) time.Duration {
	if c.life.State() >= life.Closing {
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
// reader has, or had until just now, a frame in hand that middleware keeps waiting.
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
	return next
}
