package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/wskit/wskit/limit"
)

// leaseRenewer renews the leases of this process for one limit, three times in the time of a
// lease, and releases them without blocking. It has one goroutine while there are leases, and
// none over a store in this process.
type leaseRenewer struct {
	limit  *limit.ConcurrencyLimit
	policy string

	mu      sync.Mutex
	running bool
	after   []func() // called when the store has released what is released now
	pending int      // calls that have not been made
	wake    chan struct{}
}

// newLeaseRenewer returns nil for a negative number: no limit.
func newLeaseRenewer(store limit.Store, policy string, most int, lease time.Duration, o limit.Options) *leaseRenewer {
	if most < 0 {
		return nil
	}
	return &leaseRenewer{limit: limit.NewConcurrencyLimit(store, int64(most), lease, o), policy: policy, wake: make(chan struct{}, 1)}
}

// count is the number of leases to renew or to release.
func (r *leaseRenewer) count() int {
	if r == nil {
		return 0
	}
	return r.limit.Mine()
}

// release releases a lease without waiting for the store. When the store has released it,
// then is called, unless it is nil; it must not block.
func (r *leaseRenewer) release(lease limit.Lease, then func()) {
	r.limit.ReleaseLater(lease)
	r.flush(then)
}

// flush makes the goroutine call the store for the released leases.
func (r *leaseRenewer) flush(then func()) {
	if then != nil {
		r.mu.Lock()
		r.after = append(r.after, then)
		r.pending++
		r.mu.Unlock()
	}
	r.start()
	r.wakeUp()
}

// wakeUp wakes the goroutine, if there is one.
func (r *leaseRenewer) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// flushed waits until the store has released what was released before the call, and the
// functions for that have been called.
func (r *leaseRenewer) flushed(ctx context.Context) error {
	err := r.limit.Flush(ctx)
	for err == nil {
		r.wakeUp() // it may have only functions to call
		r.mu.Lock()
		calls := r.pending
		r.mu.Unlock()
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

// start starts the goroutine, unless it runs or is not needed.
func (r *leaseRenewer) start() {
	if r.limit.LeaseTime() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running {
		r.running = true
		go r.run()
	}
}

// retryPause is the time between two attempts to release.
const retryPause = time.Second

// run ends when there are no leases. It ignores errors: it tries again, and the limit logs that
// the store fails.
func (r *leaseRenewer) run() {
	renew := time.NewTicker(r.limit.LeaseTime() / 3)
	defer renew.Stop()
	var retry <-chan time.Time
	for {
		select {
		case <-r.wake:
		case <-retry:
		case <-renew.C:
			_ = r.limit.Renew(context.Background())
		}
		retry = nil
		r.mu.Lock()
		then := r.after
		r.after = nil
		r.mu.Unlock()
		if err := r.limit.Release(context.Background()); err != nil {
			retry = time.After(retryPause)
			r.mu.Lock()
			r.after = append(then, r.after...)
			r.mu.Unlock()
			then = nil
		}
		for _, f := range then {
			f()
		}
		r.mu.Lock()
		r.pending -= len(then)
		if r.limit.Mine() == 0 && len(r.after) == 0 {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
	}
}
