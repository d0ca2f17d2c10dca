package router

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router/internal/life"
)

// wheel looks after the liveness of all connections, and ends those that are closing when
// the time of their phase is over, with one goroutine: a hashed timer wheel, in which a
// connection is hung at the time of its next check. Adding, moving and removing take
// constant time. No lock is held during a check.
type wheel struct {
	epoch time.Time
	tick  time.Duration
	check func(*Conn, time.Duration) time.Duration // [Conn.check]
	stop  <-chan struct{}                          // closed when the router has been shut down

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
	pingAt      time.Duration     // when a ping was sent that has not been answered; 0: none
	readBlocked bool              // had a frame under way at the last check
	noticed     *ingress.Identity // for which $ws:expiring was sent
}

func (t *timerLink) init(c *Conn, l Liveness) {
	t.conn = c
	if age := l.MaxAge; age > 0 {
		t.maxAge = age - rand.N(age/10+1)
	}
}

const (
	minTick = 5 * time.Millisecond
	maxTick = 250 * time.Millisecond
)

func (w *wheel) init(l Liveness) {
	w.tick = maxTick
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
func (w *wheel) now() time.Duration { return time.Since(w.epoch) }

// add has a connection checked for the first time, unless at is negative.
func (w *wheel) add(c *Conn, at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at >= 0 && c.timer.phase != life.Over {
		w.hang(&c.timer, at)
	}
}

// enter begins a phase of closing, unless the connection is in a later one, and ends it
// when its time is over.
func (w *wheel) enter(c *Conn, p life.Phase) {
	now := w.now()
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
		w.at = int64(w.now() / w.tick)
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
		case <-w.stop:
			// All connections have ended. What some still send is bounded by
			// Liveness.WriteTimeout.
			return
		}
	}
}

// advance handles the ticks that have come since the last time. It reports
// whether there is anything left to look after.
func (w *wheel) advance() bool {
	now := w.now()
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
		at := w.check(t.conn, now)
		w.mu.Lock()
		if at >= 0 && t.phase != life.Over {
			w.hang(t, at)
		}
	}
	w.running = w.size > 0
	return w.running
}
