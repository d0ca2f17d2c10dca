// Package watchdog looks at busy connections every few milliseconds.
//
// It finds handlers that take long: at the second look the router lets another goroutine read the connection. And what
// has been queued in the course of a long batch is sent, so no answer waits for the handlers of other messages. Needed
// is the function that looks at one connection, and to know whether there are sockets. Promised: whatever is added is
// looked at within a tick or two, then every tick until the function says that it need not be; adding takes no lock,
// and never waits; no goroutine is kept while there is nothing to look at.
package watchdog

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/router/internal/timerfd"
)

// Tick is the time between two looks.
const Tick = 2 * time.Millisecond

// timedTicks is for how many ticks a timer of the runtime is used after a sleep on one of the kernel was late.
const timedTicks = 64

// Stripes is the number of lists to which connections are added, each on a cache line of its own.
const Stripes = 8

// Watchdog looks at what has been added. The configuration is set before the first is added. [Watchdog.Add] may be
// called from any goroutine.
type Watchdog[T any] struct {
	Config[T]

	added   [Stripes]list[T]
	looking sync.Mutex // of the watchdog's goroutine; a test looks, too
	all     []*Link[T] // that are looked at; guarded by looking
	running atomic.Bool
	timer   timerfd.Timer // of run, as is timed
	timed   int           // how many ticks are still to be those of a timer of the runtime
}

// Config is what a watchdog needs.
type Config[T any] struct {
	// Observe looks at one, and reports whether it has to be looked at again. It must not wait.
	Observe func(T) (again bool)
	Sockets *atomic.Bool    // there have been connections that the kernel keeps
	Stop    <-chan struct{} // closed when the router has been shut down
}

// Link is a connection's place in a list.
type Link[T any] struct {
	Of   T // is set before it is added
	next *Link[T]
}

// list is what was added since the last look. It has no lock: a goroutine that is interrupted while it adds to it
// delays no other.
type list[T any] struct {
	first atomic.Pointer[Link[T]]
	_     [64 - 8]byte // on a cache line of its own
}

// Add has a connection looked at. One that is looked at must not be added again before Observe has returned false.
func (w *Watchdog[T]) Add(l *Link[T], stripe uint8) {
	first := &w.added[stripe].first
	for {
		l.next = first.Load()
		if first.CompareAndSwap(l.next, l) {
			break
		}
	}
	if !w.running.Load() && w.running.CompareAndSwap(false, true) {
		go w.run()
	}
}

func (w *Watchdog[T]) run() {
	for w.pause() {
		if w.Look() > 0 {
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
func (w *Watchdog[T]) pause() bool {
	// Without sockets, as in tests, time may be that of a testing/synctest bubble.
	if w.Sockets.Load() && w.timed == 0 {
		start := time.Now()
		if w.timer.Sleep(Tick) {
			// The runtime sees to its timers between any two goroutines, and to descriptors when it has nothing
			// else to run. Where that is rare, a timer makes no wait for the network more expensive.
			if time.Since(start) > 2*Tick {
				w.timed = timedTicks
			}
			select {
			case <-w.Stop:
				return false
			default:
				return true
			}
		}
	}
	w.timed = max(0, w.timed-1)
	select {
	case <-w.Stop:
		return false
	case <-time.After(Tick):
		return true
	}
}

// Look looks at all connections, and returns how many are left.
func (w *Watchdog[T]) Look() int {
	w.looking.Lock()
	defer w.looking.Unlock()
	for i := range w.added {
		for l := w.added[i].first.Swap(nil); l != nil; {
			next := l.next
			l.next = nil
			w.all = append(w.all, l)
			l = next
		}
	}
	left := 0
	for _, l := range w.all {
		if w.Observe(l.Of) {
			w.all[left] = l
			left++
		}
	}
	clear(w.all[left:])
	w.all = w.all[:left]
	return left
}

func (w *Watchdog[T]) empty() bool {
	w.looking.Lock()
	defer w.looking.Unlock()
	for i := range w.added {
		if w.added[i].first.Load() != nil {
			return false
		}
	}
	return len(w.all) == 0
}

// Hold keeps the watchdog from looking, until release is called: for tests of what comes before a look.
func (w *Watchdog[T]) Hold() (release func()) {
	w.looking.Lock()
	return w.looking.Unlock
}
