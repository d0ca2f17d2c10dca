package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wskit/wskit/limit"
)

// LeaseOptions configure [NewLeases].
type LeaseOptions struct {
	// Tokens is how many a lease takes ahead, at least 2: the L of the formula.
	Tokens int64
	// Hold is how long a lease is held; 0 means 100 ms, negative panics. What is not
	// spent by then is given back, less what has flowed in meanwhile.
	Hold time.Duration
	// Keys bounds how many keys are watched at a time; 0 means 10,000, negative
	// panics. For others every decision asks Redis.
	Keys int
}

// Leases is a [Store] for keys that are asked for more often than Redis could
// answer: where a key is busy, it takes a lease of Tokens ahead and spends it in
// this process.
//
// A token is charged before it is spent, so no more is ever spent than was
// charged. But what was charged may be spent up to Hold later, when the bucket has
// filled again: in any span of time s, N processes together admit at most
//
//	Capacity + Refill·s/Per + min(N·L, Refill·Hold/Per)
//
// and under a clock that stands still Capacity. The price is that a process may
// hold tokens that another one lacks, for as long as Hold. A process that is killed
// takes up to L tokens of each of its keys with it. Only a [limit.TokenBucket] is
// leased; other policies, Peek, TakeMany and TakeAll ask Redis, which knows nothing
// of what of a lease is left.
//
// A key is leased after it was asked for Tokens/2 times within Hold. What is spent
// of a lease is answered with the instant of the lease, and with a Remaining and a
// ResetAfter that were true when it was taken.
type Leases struct {
	*Store
	options LeaseOptions

	mu      sync.Mutex
	keys    map[string]*lease
	janitor *time.Timer // running while there are keys
	closed  bool
}

// A lease is what is known of a key that was asked for lately.
type lease struct {
	key      string
	plan     *limit.Plan
	ends     time.Time // of the lease, or of the watch over a key without one
	asked    int64     // since the watch began
	left     int64
	taken    limit.Decision
	fetching bool
}

const (
	defaultHold      = 100 * time.Millisecond
	defaultLeaseKeys = 10_000
)

// NewLeases makes a store that takes leases from s. Close gives back what is left
// of them; it does not close s. NewLeases panics when an option is invalid.
func NewLeases(s *Store, o LeaseOptions) *Leases {
	if o.Tokens < 2 || o.Hold < 0 || o.Keys < 0 {
		panic(fmt.Sprintf("redis: LeaseOptions{Tokens: %d, Hold: %v, Keys: %d}: give at least 2 Tokens, and leave what is negative 0 for the default", o.Tokens, o.Hold, o.Keys))
	}
	if o.Hold == 0 {
		o.Hold = defaultHold
	}
	if o.Keys == 0 {
		o.Keys = defaultLeaseKeys
	}
	return &Leases{Store: s, options: o, keys: map[string]*lease{}}
}

// Take implements [limit.Store].
func (l *Leases) Take(ctx context.Context, key string, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan, err := limit.Prepare(policy, cost)
	if err != nil {
		return d, err
	}
	if _, ok := plan.Policy().(limit.TokenBucket); !ok || cost > l.options.Tokens || !l.answering.Load() {
		return l.Store.Take(ctx, key, plan, cost)
	}
	d, spent, fetch := l.spend(key, plan, cost)
	switch {
	case spent:
		return d, nil
	case fetch != nil:
		return l.fetch(ctx, fetch, plan, cost)
	}
	return l.Store.Take(ctx, key, plan, cost)
}

// TakeBytes implements [limit.BytesStore].
func (l *Leases) TakeBytes(ctx context.Context, key []byte, policy limit.Policy, cost int64) (limit.Decision, error) {
	return l.Take(ctx, string(key), policy, cost)
}

// spend spends from the lease of a key, or else notes that it was asked for. It
// returns what it is time to fetch a new lease for, which the caller then does.
func (l *Leases) spend(key string, plan *limit.Plan, cost int64) (d limit.Decision, spent bool, fetch *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	k := l.keys[key]
	switch {
	case k == nil:
		if len(l.keys) < l.options.Keys && !l.closed {
			l.keys[key] = &lease{key: key, plan: plan, ends: now.Add(l.options.Hold), asked: 1}
			if l.janitor == nil {
				l.janitor = time.AfterFunc(l.options.Hold, l.clean)
			}
		}
		return d, false, nil
	case k.plan != plan && k.plan.Policy() != plan.Policy():
		return d, false, nil // the lease is that of another policy
	}
	k.asked++
	if now.Before(k.ends) && k.left >= cost {
		k.left -= cost
		return k.answer(cost), true, nil
	}
	if k.fetching || k.left > 0 || k.asked <= l.options.Tokens/2 || l.closed {
		return d, false, nil
	}
	k.fetching = true
	return d, false, k
}

// answer is the decision of what was spent of a lease.
func (k *lease) answer(cost int64) limit.Decision {
	d := k.taken
	d.Charged = cost
	d.Remaining += k.left
	return d
}

// fetch takes a new lease and spends cost of it. When so much does not fit, or is
// more than the bucket holds, it takes the cost alone, and tries no lease until the
// next watch.
func (l *Leases) fetch(ctx context.Context, k *lease, plan *limit.Plan, cost int64) (limit.Decision, error) {
	key := k.key
	d, err := l.Store.Take(ctx, key, plan, l.options.Tokens)
	l.mu.Lock()
	k.fetching, k.asked = false, 0
	switch {
	case err != nil:
		l.mu.Unlock()
		return d, err
	case !d.Allowed:
		l.mu.Unlock()
		return l.Store.Take(ctx, key, plan, cost)
	case l.keys[key] != k: // closed meanwhile, or reset: then what was charged may be gone already
		closed := l.closed
		l.mu.Unlock()
		if closed {
			l.giveBack(key, plan, d, l.options.Tokens-cost)
		}
		d.Charged = cost
		return d, nil
	}
	defer l.mu.Unlock()
	k.taken, k.left, k.ends, k.asked = d, l.options.Tokens-cost, time.Now().Add(l.options.Hold), l.options.Tokens
	return k.answer(cost), nil
}

// clean gives back what of the leases that have ended is left, and forgets keys
// that nobody asks for. It runs every Hold while there are any.
func (l *Leases) clean() {
	now := time.Now()
	var ended []lease
	l.mu.Lock()
	for key, k := range l.keys {
		if k.fetching || now.Before(k.ends) {
			continue
		}
		ended = append(ended, *k)
		if k.asked == 0 || k.left > 0 {
			delete(l.keys, key)
			continue
		}
		k.asked, k.left, k.ends = 0, 0, now.Add(l.options.Hold)
	}
	if len(l.keys) > 0 && !l.closed {
		l.janitor.Reset(l.options.Hold)
	} else {
		l.janitor = nil
	}
	l.mu.Unlock()
	for _, k := range ended {
		l.giveBack(k.key, k.plan, k.taken, k.left)
	}
}

// giveBack refunds what was not spent. When that fails, it is as if it had been
// spent.
func (l *Leases) giveBack(key string, plan *limit.Plan, taken limit.Decision, left int64) {
	if left == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	taken.Charged = left
	_ = l.Store.Refund(ctx, key, plan, taken)
}

const giveBackTimeout = time.Second

// Reset implements [limit.Resetter]. The lease of the key is forgotten with the
// rest.
func (l *Leases) Reset(ctx context.Context, key string, policy limit.Policy) error {
	l.mu.Lock()
	delete(l.keys, key)
	l.mu.Unlock()
	return l.Store.Reset(ctx, key, policy)
}

// Close gives back what is left of all leases. After it, every decision asks Redis.
func (l *Leases) Close() error {
	l.mu.Lock()
	l.closed = true
	if l.janitor != nil {
		l.janitor.Stop()
		l.janitor = nil
	}
	keys := l.keys
	l.keys = map[string]*lease{}
	l.mu.Unlock()
	for _, k := range keys {
		l.giveBack(k.key, k.plan, k.taken, k.left)
	}
	return nil
}
