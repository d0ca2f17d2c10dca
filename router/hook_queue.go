package router

import (
	"log/slog"
	"sync"
	"sync/atomic"
)

// maxHookQueue bounds the calls that are queued for a slow hook.
const maxHookQueue = 1 << 16

// hookQueue has a hook called in order, in a goroutine that runs while calls are queued.
type hookQueue[T any] struct {
	name   string
	call   func(T)
	missed *atomic.Int64 // counts the calls for which there was no room
	logger *slog.Logger

	mu      sync.Mutex
	queue   []T
	running bool
	logged  bool // that there was no room

	// For the goroutine: the calls that it has taken from the queue, and its position. The two
	// slices are swapped.
	batch []T
	at    int
}

// add queues a call, if there is room.
func (h *hookQueue[T]) add(v T) {
	queued, first := h.put(v)
	if !queued {
		h.missed.Add(1)
	}
	if first {
		h.logger.Warn("wskit: "+h.name+" is too slow, some of its calls are left out", "queued", maxHookQueue)
	}
}

// put reports whether there was room, and if not, whether that is the first time since the queue
// was empty.
func (h *hookQueue[T]) put(v T) (queued, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) >= maxHookQueue {
		first = !h.logged
		h.logged = true
		return false, first
	}
	h.queue = append(h.queue, v)
	if !h.running {
		h.running = true
		go h.run()
	}
	return true, false
}

func (h *hookQueue[T]) run() {
	through := false
	defer func() {
		if !through { // the hook has called runtime.Goexit
			go h.run()
		}
	}()
	for h.more() {
		var none T
		v := h.batch[h.at]
		h.batch[h.at] = none // may be large, and pins a connection
		h.at++
		h.call(v)
	}
	through = true
}

// more reports whether there are calls, and takes them from the queue.
func (h *hookQueue[T]) more() bool {
	if h.at < len(h.batch) {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batch, h.queue, h.at = h.queue, h.batch[:0], 0
	if len(h.batch) > 0 {
		return true
	}
	h.logged, h.running = false, false
	if cap(h.queue) > 1<<10 {
		h.queue = nil
	}
	return false
}
