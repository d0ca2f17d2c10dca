package postgres

import (
	"context"
	"slices"
	"sync"
)

// work is what one goroutine works off, see workOff: each key once, however often it was added before. Its lock is its
// own, and nothing is called under it.
type work[K comparable] struct {
	mu    sync.Mutex
	keys  map[K]struct{}
	token chan struct{} // there are keys
}

func newWork[K comparable]() *work[K] {
	return &work[K]{keys: make(map[K]struct{}), token: make(chan struct{}, 1)}
}

// add has keys worked off.
func (w *work[K]) add(keys ...K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		w.keys[key] = struct{}{}
	}
	select {
	case w.token <- struct{}{}:
	default:
	}
}

// take returns the keys there are.
func (w *work[K]) take() []K {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := make([]K, 0, len(w.keys))
	for key := range w.keys {
		keys = append(keys, key)
	}
	clear(w.keys)
	return keys
}

// workOff calls do with so many keys at most, until the database is closed. Those of a call that fails are tried again
// after a pause. done gets the error of each call, or nil.
func workOff[K comparable](d *database, w *work[K], most int, do func(context.Context, []K) error, done func(error)) {
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-w.token:
		}
		for part := range slices.Chunk(w.take(), most) {
			ctx, cancel := context.WithTimeout(d.ctx, d.o.Timeout)
			err := do(ctx, part)
			cancel()
			if d.ctx.Err() != nil {
				return
			}
			if done(err); err != nil {
				w.add(part...)
				d.pause()
			}
		}
	}
}

// unreported is for what fails when the database is away, which the listener reports.
func unreported(error) {}
