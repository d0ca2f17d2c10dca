// Package serial calls a function with many values, one after the other, without making those that bring them wait.
//
// The router calls its hooks OnLimitExceeded and OnRefused with it: a frame never waits for a hook. Needed is the
// function, a counter and a log. Promised: values are given to the function in the order in which they were added, one
// at a time; at most [Most] wait, and each that finds no room is counted; no goroutine is kept while none waits; a
// function that calls runtime.Goexit is called again for the next value.
package serial

import (
	"log/slog"
	"sync"
	"sync/atomic"
)

// Most is how many values wait for a slow function.
const Most = 1 << 16

// Calls are the calls of one function. The fields are set before the first value is added. Its methods may be called
// from any goroutine.
type Calls[T any] struct {
	Name   string // of the function, for the log
	Call   func(T)
	Missed *atomic.Int64 // counts the values for which there was no room
	Logger *slog.Logger

	mu      sync.Mutex
	queue   []T
	running bool
	logged  bool // that there was no room

	// For the goroutine: the values that it has taken from the queue, and its position. The two slices are swapped.
	batch []T
	at    int
}

// Add queues a value, if there is room.
func (c *Calls[T]) Add(v T) {
	queued, first := c.put(v)
	if !queued {
		c.Missed.Add(1)
	}
	if first {
		c.Logger.Warn("wskit: "+c.Name+" is too slow, some of its calls are left out", "queued", Most)
	}
}

// put reports whether there was room, and if not, whether that is the first time since the queue was empty.
func (c *Calls[T]) put(v T) (queued, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) >= Most {
		first = !c.logged
		c.logged = true
		return false, first
	}
	c.queue = append(c.queue, v)
	if !c.running {
		c.running = true
		go c.run()
	}
	return true, false
}

func (c *Calls[T]) run() {
	returned := false
	defer func() {
		if !returned { // the function has called runtime.Goexit
			go c.run()
		}
	}()
	for c.more() {
		var none T
		v := c.batch[c.at]
		c.batch[c.at] = none // may be large, and pins a connection
		c.at++
		c.Call(v)
	}
	returned = true
}

// more reports whether there are values, and takes them from the queue.
func (c *Calls[T]) more() bool {
	if c.at < len(c.batch) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batch, c.queue, c.at = c.queue, c.batch[:0], 0
	if len(c.batch) > 0 {
		return true
	}
	c.logged, c.running = false, false
	if cap(c.queue) > 1<<10 {
		c.queue = nil
	}
	return false
}
