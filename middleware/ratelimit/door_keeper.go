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
	leaving []limit.Slot
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
	return k.holds.Mine() // those in leaving are among them
}

// release gives a place back, soon.
func (k *keeper) release(slot limit.Slot) {
	if k.holds.Local() {
		_ = k.holds.Release(context.Background(), slot) // never waits and never fails
		return
	}
	k.mu.Lock()
	k.leaving = append(k.leaving, slot)
	k.mu.Unlock()
	k.flush()
}

// flush has told soon what the store has to be told, be it of places that it may have
// handed out to somebody who got no answer.
func (k *keeper) flush() {
	k.keep()
	select {
	case k.wake <- struct{}{}:
	default:
	}
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

// run ends when nothing is held any more.
func (k *keeper) run() {
	renew := time.NewTicker(k.holds.Lease() / 3)
	defer renew.Stop()
	for {
		select {
		case <-k.wake:
		case <-renew.C:
			// What the store does not learn now it learns next time, or is held for
			// no longer than a lease. The limit's own log tells that the store fails.
			_ = k.holds.Renew(context.Background())
		}
		k.mu.Lock()
		leaving := k.leaving
		k.leaving = nil
		k.mu.Unlock()
		_ = k.holds.Release(context.Background(), leaving...)
		k.mu.Lock()
		if len(k.leaving) == 0 && k.holds.Mine() == 0 {
			k.running = false
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
	}
}
