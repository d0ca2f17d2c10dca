package metrics

import (
	"context"
	"sync"
)

// InFlight counts what is under way. The zero value is ready.
type InFlight struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n becomes 0, if somebody waits
}

// Add adds n, which may be negative.
func (f *InFlight) Add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n += n; f.n == 0 && f.none != nil {
		close(f.none)
		f.none = nil
	}
}

// Count is how much is under way.
func (f *InFlight) Count() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(f.n)
}

// Wait waits until nothing is under way, or ctx is done: then it returns its error.
func (f *InFlight) Wait(ctx context.Context) error {
	f.mu.Lock()
	if f.n > 0 && f.none == nil {
		f.none = make(chan struct{})
	}
	none := f.none
	f.mu.Unlock()
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
