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

// watchdog looks after the connections that have messages in hand. It detaches a
// handler that it finds running twice, and sends what has been queued in the course
// of a long batch, so that no answer waits for another message's middleware or
// handler. It runs only while there is something to look at.
type watchdog struct {
	shards  [8]watchShard
	looking sync.Mutex // of the watchdog's goroutine; a test looks, too
	next    atomic.Uint32
	running atomic.Bool
	sockets atomic.Bool      // there have been connections that the kernel keeps
	nap     nap              // of run, as is timed
	timed   int              // how many ticks are still to be those of a timer
	stop    <-chan struct{}  // closed when the router has been shut down
	observe func(*Conn) bool // [Conn.observe]
}

type watchShard struct {
	mu    sync.Mutex
	conns []*Conn
	spare []*Conn  // room for those that come during a look
	_     [64]byte // keeps the locks of two shards off one cache line
}

// watch puts a connection under observation that takes up a frame or begins to run a
// handler.
func (c *Conn) watch() {
	if c.turn.Watch() {
		c.router.watchdog.add(c)
	}
}

func (w *watchdog) add(c *Conn) {
	s := &w.shards[w.next.Add(1)%uint32(len(w.shards))]
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
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
	left := 0
	for i := range w.shards {
		left += w.shards[i].look(w.observe)
	}
	return left
}

// look takes the connections out, so that the lock is not held while they are looked at.
func (s *watchShard) look(observe func(*Conn) bool) (left int) {
	s.mu.Lock()
	conns := s.conns
	s.conns = s.spare
	s.mu.Unlock()
	for _, c := range conns {
		if observe(c) {
			conns[left] = c
			left++
		}
	}
	clear(conns[left:])
	s.mu.Lock()
	defer s.mu.Unlock()
	added := s.conns
	s.conns = append(conns[:left], added...)
	clear(added)
	s.spare = added[:0]
	return left
}

func (w *watchdog) empty() bool {
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		n := len(s.conns)
		s.mu.Unlock()
		if n > 0 {
			return false
		}
	}
	return true
}
