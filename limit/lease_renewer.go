package limit

import (
	"context"
	"sync"
	"time"
)

// leaseRenewer renews the leases of this process for one limit, three times in the time of a
// lease, and releases them without blocking. It has one goroutine while there are leases, and
// none over a store in this process.
type leaseRenewer struct {
	*leases

	own     sync.Mutex // guards what follows. Taken before leases.mu.
	running bool
	after   []func() // called when the store has released what is released now
	pending int      // calls that have not been made
	wake    chan struct{}
}

func newLeaseRenewer(store Store, o ConcurrencyOptions) *leaseRenewer {
	return &leaseRenewer{leases: newLeases(store, o), wake: make(chan struct{}, 1)}
}

// release releases a lease without waiting for the store. When the store has released it,
// then is called, unless it is nil; it must not block.
func (r *leaseRenewer) release(lease Lease, then func()) {
	r.releaseLater(lease)
	r.wakeFor(then)
}

// wakeFor makes the goroutine call the store for the released leases, and then the function.
func (r *leaseRenewer) wakeFor(then func()) {
	if then != nil {
		r.own.Lock()
		r.after = append(r.after, then)
		r.pending++
		r.own.Unlock()
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
	err := r.flushAll(ctx)
	for err == nil {
		r.wakeUp() // it may have only functions to call
		r.own.Lock()
		calls := r.pending
		r.own.Unlock()
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
	if r.local() {
		return
	}
	r.own.Lock()
	defer r.own.Unlock()
	if !r.running {
		r.running = true
		go r.run()
	}
}

// renewerPause is the time between two attempts of the goroutine to release or to renew.
const renewerPause = time.Second

// run ends when there are no leases. It ignores errors: it tries again, and the limit logs that
// the store fails.
func (r *leaseRenewer) run() {
	renew := time.NewTicker(r.leaseTime / 3)
	defer renew.Stop()
	var retry, again <-chan time.Time
	for {
		select {
		case <-r.wake:
		case <-retry:
		case <-renew.C:
			again = r.renewOr(renewerPause)
		case <-again:
			again = r.renewOr(renewerPause)
		}
		retry = nil
		r.own.Lock()
		then := r.after
		r.after = nil
		r.own.Unlock()
		if err := r.flush(context.Background()); err != nil {
			retry = time.After(renewerPause)
			r.own.Lock()
			r.after = append(then, r.after...)
			r.own.Unlock()
			then = nil
		}
		for _, f := range then {
			f()
		}
		r.own.Lock()
		r.pending -= len(then)
		if r.count() == 0 && len(r.after) == 0 {
			r.running = false
			r.own.Unlock()
			return
		}
		r.own.Unlock()
	}
}

// renewOr renews all leases. If that fails, it returns when to try again, nil otherwise.
func (r *leaseRenewer) renewOr(pause time.Duration) <-chan time.Time {
	if r.renew(context.Background()) == nil {
		return nil
	}
	return time.After(min(pause, r.leaseTime/10))
}
