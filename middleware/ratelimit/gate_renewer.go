package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/wskit/wskit/limit"
)

// leaseRenewer keeps the places of a process: it renews them three times per lease, and
// gives them back without making anybody wait. It has one goroutine, for as long as
// there is anything to do, and none over a store in this process.
type leaseRenewer struct {
	holds  *limit.ConcurrencyLimit
	policy string

	mu      sync.Mutex
	running bool
	then    []func() // for when the store has released what is released now
	calls   int      // of them that have not been made
	wake    chan struct{}
}

// newLeaseRenewer returns nil for a negative number: no limit.
func newLeaseRenewer(store limit.Store, policy string, most int, lease time.Duration, o limit.Options) *leaseRenewer {
	if most < 0 {
		return nil
	}
	return &leaseRenewer{holds: limit.NewConcurrencyLimit(store, int64(most), lease, o), policy: policy, wake: make(chan struct{}, 1)}
}

// mine is how many places the process has to renew or to give back.
func (k *leaseRenewer) mine() int {
	if k == nil {
		return 0
	}
	return k.holds.Mine()
}

// release gives a place back, without waiting for the store. When the store has
// released it, then is called, unless it is nil; it must not wait for anything.
func (k *leaseRenewer) release(slot limit.Lease, then func()) {
	k.holds.ReleaseLater(slot)
	k.flush(then)
}

// flush has the goroutine call the store for what was released.
func (k *leaseRenewer) flush(then func()) {
	if then != nil {
		k.mu.Lock()
		k.then = append(k.then, then)
		k.calls++
		k.mu.Unlock()
	}
	k.keep()
	k.look()
}

// look has the goroutine, if there is one, look at what there is to do.
func (k *leaseRenewer) look() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// flushed waits until the store has released what was released before, and what was to
// be called then has been.
func (k *leaseRenewer) flushed(ctx context.Context) error {
	err := k.holds.Flush(ctx)
	for err == nil {
		k.look() // also when there is nothing left to do
		k.mu.Lock()
		calls := k.calls
		k.mu.Unlock()
		if calls == 0 {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return err
}

// keep makes sure that somebody renews.
func (k *leaseRenewer) keep() {
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
func (k *leaseRenewer) run() {
	renew := time.NewTicker(k.holds.LeaseTime() / 3)
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
		k.mu.Lock()
		then := k.then
		k.then = nil
		k.mu.Unlock()
		if err := k.holds.Release(context.Background()); err != nil {
			retry = time.After(retryPause)
			k.mu.Lock()
			k.then = append(then, k.then...)
			k.mu.Unlock()
			then = nil
		}
		for _, f := range then {
			f()
		}
		k.mu.Lock()
		k.calls -= len(then)
		if k.holds.Mine() == 0 && len(k.then) == 0 {
			k.running = false
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
	}
}
