package redis

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/limit"
)

// PrefetchOptions configure [NewPrefetch].
type PrefetchOptions struct {
	// Tokens is how many are taken in advance at a time, at least 2: the L of the formula.
	//
	// Default: none; it must be set.
	Tokens int64
	// Hold is how long they may be spent. Negative panics. What is not spent by then is given back, less what has
	// flowed in since.
	//
	// Default: 100 ms.
	Hold time.Duration
	// Keys bounds how many keys are watched at a time. Negative panics. For others every decision is a call to Redis.
	//
	// Default: 10,000.
	Keys int
}

// NewPrefetch returns a store for keys that are asked for more often than Redis could
// answer. It uses the connections of s. Where a key is busy, it takes Tokens in advance
// and spends them in this process.
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
// taken in advance; other policies, Peek, TakeMany and TakeAll ask Redis, which does not
// know which of the tokens are spent.
//
// Tokens are taken in advance after a key was asked for Tokens/2 times within Hold. A decision that
// spends one has the instant, Remaining and ResetAfter of when they were taken.
//
// Close gives back what is not spent, and then every decision is a call to Redis; it does not
// close s, and has to be called before that is closed. NewPrefetch panics when an option
// is invalid.
func NewPrefetch(s Store, options ...PrefetchOptions) Store {
	o := given.Must("redis", "NewPrefetch", options)
	of, ok := s.(*store)
	if !ok {
		panic(fmt.Sprintf("redis: NewPrefetch over a %T; use a store of NewStore, OpenStore or Open", s))
	}
	if o.Tokens < 2 || o.Hold < 0 || o.Keys < 0 {
		panic(fmt.Sprintf("redis: PrefetchOptions{Tokens: %d, Hold: %v, Keys: %d}: give at least 2 Tokens, and leave what is negative 0 for the default", o.Tokens, o.Hold, o.Keys))
	}
	o.Hold = cmp.Or(o.Hold, 100*time.Millisecond)
	o.Keys = cmp.Or(o.Keys, 10_000)
	return &store{core: of.core, prefetch: &prefetch{store: &store{core: of.core}, options: o, keys: map[string]*prefetched{}}}
}

// prefetch spends in this process what it has taken from a store in advance.
type prefetch struct {
	store   *store
	options PrefetchOptions

	mu      sync.Mutex
	keys    map[string]*prefetched
	cleaner *time.Timer // running while there are keys
	closed  bool
}

// prefetched is what is known of a key that was asked for lately.
type prefetched struct {
	key      string
	plan     *limit.Plan
	ends     time.Time // of the tokens, or of the watch over a key without any
	asked    int64     // since the watch began
	left     int64
	taken    limit.Decision
	fetching bool
}

func (p *prefetch) take(ctx context.Context, key []byte, plan *limit.Plan, cost int64) (d limit.Decision, err error) {
	if _, ok := plan.Compiled().Policy.(limit.TokenBucket); !ok || cost > p.options.Tokens || !p.store.answering.Load() {
		return p.store.Take(ctx, key, plan, cost)
	}
	d, spent, fetch := p.spend(key, plan, cost)
	switch {
	case spent:
		return d, nil
	case fetch != nil:
		return p.fetch(ctx, fetch, plan, cost)
	}
	return p.store.Take(ctx, key, plan, cost)
}

// spend spends what a key has, or else notes that it was asked for. It returns the key if
// it is time to take more in advance, which the caller then does.
func (p *prefetch) spend(key []byte, plan *limit.Plan, cost int64) (d limit.Decision, spent bool, fetch *prefetched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	k := p.keys[string(key)]
	switch {
	case k == nil:
		if len(p.keys) < p.options.Keys && !p.closed {
			p.keys[string(key)] = &prefetched{key: string(key), plan: plan, ends: now.Add(p.options.Hold), asked: 1}
			if p.cleaner == nil {
				p.cleaner = time.AfterFunc(p.options.Hold, p.clean)
			}
		}
		return d, false, nil
	case k.plan != plan && k.plan.Compiled().Policy != plan.Compiled().Policy:
		return d, false, nil // the tokens are of another policy
	}
	k.asked++
	if now.Before(k.ends) && k.left >= cost {
		k.left -= cost
		return k.answer(cost), true, nil
	}
	if k.fetching || k.left > 0 || k.asked <= p.options.Tokens/2 || p.closed {
		return d, false, nil
	}
	k.fetching = true
	return d, false, k
}

// answer is the decision of what was spent.
func (k *prefetched) answer(cost int64) limit.Decision {
	d := k.taken
	d.Charged = cost
	d.Remaining += k.left
	return d
}

// fetch takes tokens in advance and spends cost of them. When so many do not fit, or are
// more than the bucket holds, it takes the cost alone, and tries no more until the
// next watch.
func (p *prefetch) fetch(ctx context.Context, k *prefetched, plan *limit.Plan, cost int64) (limit.Decision, error) {
	key := k.key
	d, err := p.store.Take(ctx, []byte(key), plan, p.options.Tokens)
	p.mu.Lock()
	k.fetching, k.asked = false, 0
	switch {
	case err != nil:
		p.mu.Unlock()
		return d, err
	case !d.Allowed:
		p.mu.Unlock()
		return p.store.Take(ctx, []byte(key), plan, cost)
	case p.keys[key] != k: // closed since, or reset: then what was charged may be gone already
		closed := p.closed
		p.mu.Unlock()
		if closed {
			p.giveBack(key, plan, d, p.options.Tokens-cost)
		}
		d.Charged = cost
		return d, nil
	}
	defer p.mu.Unlock()
	k.taken, k.left, k.ends, k.asked = d, p.options.Tokens-cost, time.Now().Add(p.options.Hold), p.options.Tokens
	return k.answer(cost), nil
}

// clean gives back what is left when Hold is over, and removes keys that are no longer
// asked for. It runs every Hold while there are any.
func (p *prefetch) clean() {
	now := time.Now()
	var ended []prefetched
	p.mu.Lock()
	for key, k := range p.keys {
		if k.fetching || now.Before(k.ends) {
			continue
		}
		ended = append(ended, *k)
		if k.asked == 0 || k.left > 0 {
			delete(p.keys, key)
			continue
		}
		k.asked, k.left, k.ends = 0, 0, now.Add(p.options.Hold)
	}
	if len(p.keys) > 0 && !p.closed {
		p.cleaner.Reset(p.options.Hold)
	} else {
		p.cleaner = nil
	}
	p.mu.Unlock()
	for _, k := range ended {
		p.giveBack(k.key, k.plan, k.taken, k.left)
	}
}

// giveBack refunds what was not spent. When that fails, it is as if it had been
// spent.
func (p *prefetch) giveBack(key string, plan *limit.Plan, taken limit.Decision, left int64) {
	if left == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	taken.Charged = left
	_ = p.store.Refund(ctx, []byte(key), plan, taken)
}

const giveBackTimeout = time.Second

// forget is for a key that is reset.
func (p *prefetch) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, key)
}

func (p *prefetch) close() {
	p.mu.Lock()
	p.closed = true
	if p.cleaner != nil {
		p.cleaner.Stop()
		p.cleaner = nil
	}
	keys := p.keys
	p.keys = map[string]*prefetched{}
	p.mu.Unlock()
	for _, k := range keys {
		p.giveBack(k.key, k.plan, k.taken, k.left)
	}
}
