package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/wskit/wskit/limit"
)

// keeper keeps the places of a process: it renews them three times per lease, and
// gives them back without making anybody wait. It has one goroutine, for as long as
// there is anything to do, and none over a store in this process.
type keeper struct {
	holds  *limit.Holds
	policy string

	mu      sync.Mutex
	running bool
	wake    chan struct{}
}

// newKeeper returns nil for a negative number: no limit.
func newKeeper(store limit.Store, policy string, most int, lease time.Duration, o limit.Options) *keeper {
	if most < 0 {
		return nil
	}
	return &keeper{holds: limit.NewHolds(store, int64(most), lease, o), policy: policy, wake: make(chan struct{}, 1)}
}

// mine is how many places the process has to renew or to give back.
func (k *keeper) mine() int {
	if k == nil {
		return 0
	}
	return k.holds.Mine()
}

// release gives a place back, without waiting for the store.
func (k *keeper) release(slot limit.Slot) {
	k.holds.ReleaseLater(slot)
	k.flush()
}

// flush has the goroutine call the store for what was released.
func (k *keeper) flush() {
	k.keep()
	k.look()
}

// look has the goroutine, if there is one, look at what there is to do.
func (k *keeper) look() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// flushed waits until the store has released what was released before.
func (k *keeper) flushed(ctx context.Context) error {
	defer k.look() // there may be nothing left to do
	return k.holds.Flush(ctx)
}

// keep makes sure that somebody renews.
func (k *keeper) keep() {
	if k.holds.Local() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.running {
		k.running = true
		go k.run()
	}
}

// retryPause is the time between two attempts to release what the store could not.
const retryPause = time.Second

// run ends when nothing is held any more. It ignores errors: what fails is tried
// again, and the limit's own log says that the store fails.
func (k *keeper) run() {
	renew := time.NewTicker(k.holds.Lease() / 3)
	defer renew.Stop()
	var retry <-chan time.Time
	for {
		select {
		case <-k.wake:
		case <-retry:
		case <-renew.C:
			_ = k.holds.Renew(context.Background())
		}
		retry = nil
		if err := k.holds.Release(context.Background()); err != nil {
			retry = time.After(retryPause)
		}
		k.mu.Lock()
		if k.holds.Mine() == 0 {
			k.running = false
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
	}
}
