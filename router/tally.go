package router

import (
	"context"
	"sync"
)

// tally counts what is under way, for Shutdown to wait for.
type tally struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n becomes 0, if Shutdown waits
}

func (h *tally) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n += n; h.n == 0 && h.none != nil {
		close(h.none)
		h.none = nil
	}
}

func (h *tally) count() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(h.n)
}

func (h *tally) wait(ctx context.Context) error {
	h.mu.Lock()
	if h.n > 0 && h.none == nil {
		h.none = make(chan struct{})
	}
	none := h.none
	h.mu.Unlock()
	if none == nil {
		return nil
	}
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
