// Package timerwheel has each of many connections checked when its time has come, with one goroutine.
//
// It is a hashed timer wheel: adding, moving and removing take constant time, and a timer takes 48 bytes in addition to
// the connection's. Needed is the function that checks. Promised: a check comes in the tick after its time, or later if
// the machine is busy, and never sooner; no lock is held during a check; a timer that is cancelled is never checked
// again, but for a check that has begun; no goroutine is kept while nothing is scheduled.
package timerwheel

import (
	"sync"
	"time"
)

// Wheel has timers checked. [Wheel.Init] comes first; the other methods may be called from any goroutine.
type Wheel[T any] struct {
	Config[T]

	mu      sync.Mutex
	slots   [256]Timer[T] // heads of circular lists
	due     Timer[T]      // head of those to be checked now
	at      int64         // the tick that was handled last
	size    int
	running bool
}

// Config is what a wheel needs.
type Config[T any] struct {
	Epoch time.Time // all times are counted from it
	Tick  time.Duration
	// Check is called at a timer's time, and returns when to call it again; if negative, not again. It must not block.
	Check func(of T, now time.Duration) (next time.Duration)
	Stop  <-chan struct{} // closed when nothing is to be checked any more
}

// Timer is when something is checked. Its methods are those of the wheel. It must not be copied.
type Timer[T any] struct {
	Of T // is set before it is scheduled

	// guarded by Wheel.mu
	prev, next *Timer[T]
	due        int64 // tick
	cancelled  bool
}

// Init sets the wheel up.
func (w *Wheel[T]) Init(c Config[T]) {
	w.Config = c
	for i := range w.slots {
		w.slots[i].prev, w.slots[i].next = &w.slots[i], &w.slots[i]
	}
	w.due.prev, w.due.next = &w.due, &w.due
}

func (w *Wheel[T]) now() time.Duration { return time.Since(w.Epoch) }

// Schedule has a timer checked at a time, and not before the next tick. It does nothing if the timer is checked before
// that anyway, if it is cancelled, or if the time is negative.
func (w *Wheel[T]) Schedule(t *Timer[T], at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.schedule(t, at)
}

// Cancel has a timer not checked any more, for ever.
func (w *Wheel[T]) Cancel(t *Timer[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.cancelled = true
	if t.next != nil {
		w.remove(t)
	}
}

// Scheduled returns how many timers are.
func (w *Wheel[T]) Scheduled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// schedule is Schedule. w.mu is held.
func (w *Wheel[T]) schedule(t *Timer[T], at time.Duration) {
	if at < 0 || t.cancelled {
		return
	}
	if !w.running {
		w.running = true
		w.at = int64(w.now() / w.Tick)
		go w.run()
	}
	due := max(int64(at/w.Tick)+1, w.at+1)
	if t.next != nil {
		if t.due <= due {
			return
		}
		w.remove(t)
	}
	t.due = due
	t.append(&w.slots[due%int64(len(w.slots))])
	w.size++
}

func (t *Timer[T]) append(head *Timer[T]) {
	t.prev, t.next = head.prev, head
	t.prev.next, t.next.prev = t, t
}

func (t *Timer[T]) unlink() {
	t.prev.next, t.next.prev = t.next, t.prev
	t.prev, t.next = nil, nil
}

func (w *Wheel[T]) remove(t *Timer[T]) {
	t.unlink()
	w.size--
}

func (w *Wheel[T]) run() {
	tick := time.NewTicker(w.Tick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !w.advance() {
				return
			}
		case <-w.Stop:
			return
		}
	}
}

// advance handles the ticks that have come since the last time. It reports whether anything is scheduled.
func (w *Wheel[T]) advance() bool {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for to := int64(now / w.Tick); w.at < to; {
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
		w.remove(t)
		w.mu.Unlock()
		next := w.Check(t.Of, now)
		w.mu.Lock()
		w.schedule(t, next)
	}
	w.running = w.size > 0
	return w.running
}
