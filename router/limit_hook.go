package router

import "sync"

// maxRejectionsQueued bounds the rejections that are queued for a slow OnLimitExceeded hook.
const maxRejectionsQueued = 1 << 16

// limitHook calls OnLimitExceeded in order, in a goroutine that runs while rejections are
// queued.
type limitHook struct {
	hook func(LimitInfo) // [Router.callOnLimitExceeded]

	mu      sync.Mutex
	queue   []LimitInfo
	telling bool
	missed  bool // logged

	// For the goroutine: the rejections that it has taken from the queue, and its position.
	// The two slices are swapped.
	batch []LimitInfo
	at    int
}

// add queues a rejection for the hook. It reports whether there was room, and if not,
// whether that is the first time since the queue was empty.
func (h *limitHook) add(info LimitInfo) (queued, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) >= maxRejectionsQueued {
		first = !h.missed
		h.missed = true
		return false, first
	}
	h.queue = append(h.queue, info)
	if !h.telling {
		h.telling = true
		go h.run()
	}
	return true, false
}

func (h *limitHook) run() {
	through := false
	defer func() {
		if !through { // the hook has called runtime.Goexit
			go h.run()
		}
	}()
	for h.more() {
		info := h.batch[h.at]
		h.batch[h.at] = LimitInfo{}
		h.at++
		h.hook(info)
	}
	through = true
}

// more reports whether there are rejections, and takes them from the queue.
func (h *limitHook) more() bool {
	if h.at < len(h.batch) {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batch, h.queue, h.at = h.queue, h.batch[:0], 0
	if len(h.batch) > 0 {
		return true
	}
	h.missed, h.telling = false, false
	if cap(h.queue) > 1<<10 {
		h.queue = nil
	}
	return false
}
