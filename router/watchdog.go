package router

import (
	"sync"
	"sync/atomic"
	"time"
)

// watchdogTick is how long a handler may run before the watchdog looks at it a
// second time and detaches it.
const watchdogTick = 2 * time.Millisecond

// timedTicks is for how many ticks a timer takes the place of a nap that was late.
const timedTicks = 64

// watchdog looks after the connections that handle messages. It detaches a
// handler that it finds running twice, and sends what has been queued in the course
// of a long batch, so that no answer waits for another message's middleware or
// handler. It runs only while there is something to look at.
type watchdog struct {
	added   [stripes]watchList
	looking sync.Mutex // of the watchdog's goroutine; a test looks, too
	conns   []*Conn    // that are looked at; guarded by looking
	running atomic.Bool
	sockets atomic.Bool      // there have been connections that the kernel keeps
	nap     nap              // of run, as is timed
	timed   int              // how many ticks are still to be those of a timer
	stop    <-chan struct{}  // closed when the router has been shut down
	observe func(*Conn) bool // [Conn.observe]
}

// watchList is a list of connections since the last look, linked by Conn.watchNext. It has no lock: a goroutine that
// is interrupted while it adds one holds up no other.
type watchList struct {
	first atomic.Pointer[Conn]
	_     [64 - 8]byte // on a cache line of its own
}

// watch puts a connection under observation that takes up a frame or begins to run a
// handler.
func (c *Conn) watch() {
	if c.turn.Watch() {
		c.router.watchdog.add(c)
	}
}

func (w *watchdog) add(c *Conn) {
	first := &w.added[c.stripe].first
	for {
		c.watchNext = first.Load()
		if first.CompareAndSwap(c.watchNext, c) {
			break
		}
	}
	if !w.running.Load() && w.running.CompareAndSwap(false, true) {
		go w.run()
	}
}

func (w *watchdog) run() {
	for w.pause() {
		if w.look() > 0 {
			continue
		}
		w.running.Store(false)
		// A connection may have come between the look and this.
		if w.empty() || !w.running.CompareAndSwap(false, true) {
			return
		}
	}
}

// pause sleeps for a tick. It reports false when the router has been shut down.
func (w *watchdog) pause() bool {
	// Among pipes, as tests have them, time may be that of a testing/synctest bubble.
	if w.sockets.Load() && w.timed == 0 {
		start := time.Now()
		if w.nap.sleep(watchdogTick) {
			// The runtime sees to its timers between any two goroutines, and to
			// descriptors when it has nothing else to run. Where that is rare, no
			// wait for the network is made dearer by a timer.
			if time.Since(start) > 2*watchdogTick {
				w.timed = timedTicks
			}
			select {
			case <-w.stop:
				return false
			default:
				return true
			}
		}
	}
	w.timed = max(0, w.timed-1)
	select {
	case <-w.stop:
		return false
	case <-time.After(watchdogTick):
		return true
	}
}

// look visits all connections and returns how many are left.
func (w *watchdog) look() int {
	w.looking.Lock()
	defer w.looking.Unlock()
	for i := range w.added {
		for c := w.added[i].first.Swap(nil); c != nil; {
			next := c.watchNext
			c.watchNext = nil
			w.conns = append(w.conns, c)
			c = next
		}
	}
	left := 0
	for _, c := range w.conns {
		if w.observe(c) {
			w.conns[left] = c
			left++
		}
	}
	clear(w.conns[left:])
	w.conns = w.conns[:left]
	return left
}

func (w *watchdog) empty() bool {
	w.looking.Lock()
	defer w.looking.Unlock()
	for i := range w.added {
		if w.added[i].first.Load() != nil {
			return false
		}
	}
	return len(w.conns) == 0
}
