package rights

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Touch says whether this process knows what was revoked, although its way to the backend was cut, or it was stopped:
// what it is given then may be for members that have lost the right. Its methods may be called from any goroutine.
type Touch struct {
	rights *Rights
	stop   context.Context // over when the process ends
	// known reports whether the other processes still wait for this one when they revoke a right, and renew has them do
	// so.
	known func() bool
	renew func(context.Context) error

	losses atomic.Uint64 // of messages
	read   atomic.Uint64 // losses after which the log was read

	mu      sync.Mutex
	running bool          // restore runs
	changed chan struct{} // closed at its next success
}

// NewTouch makes a Touch. Its functions may be called from any goroutine.
func (r *Rights) NewTouch(stop context.Context, known func() bool, renew func(context.Context) error) *Touch {
	return &Touch{rights: r, stop: stop, known: known, renew: renew, changed: make(chan struct{})}
}

// Holds reports whether the process knows all that was revoked. If not, it begins to find out.
func (t *Touch) Holds() bool {
	if t.holds() {
		return true
	}
	t.restore()
	return false
}

func (t *Touch) holds() bool { return t.read.Load() == t.losses.Load() && t.known() }

// Lost is called when messages of other processes may have been lost.
func (t *Touch) Lost() {
	t.losses.Add(1)
	t.restore()
}

const (
	restoreTimeout = 5 * time.Second
	restorePause   = 100 * time.Millisecond
)

// Await returns when Holds is true.
func (t *Touch) Await(ctx context.Context) error {
	for !t.holds() {
		select {
		case <-t.restore():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// restore sees to it that Holds will be true, and returns what is closed when it may be.
func (t *Touch) restore() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running {
		t.running = true
		go t.run()
	}
	return t.changed
}

func (t *Touch) run() {
	for !t.holds() {
		losses := t.losses.Load()
		ctx, cancel := context.WithTimeout(t.stop, restoreTimeout)
		err := t.renew(ctx)
		if err == nil {
			err = t.rights.CatchUp(ctx)
		}
		cancel()
		if err == nil {
			t.read.Store(losses)
			continue
		}
		select {
		case <-time.After(restorePause):
		case <-t.stop.Done():
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = false
	close(t.changed)
	t.changed = make(chan struct{})
}
