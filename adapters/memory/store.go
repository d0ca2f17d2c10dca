package memory

import (
	"context"
	"hash/maphash"
	"runtime"
	"time"

	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/limit"
)

// Options configure a [Store] in memory. The zero value is ready to use.
type Options struct {
	// MaxKeys bounds how many keys have state of their own at a time. Negative panics. A key takes 43 to 54 bytes under
	// a policy with two words of state (a bucket, a pacer, a fixed window). A key with more state counts as (words +
	// 5)/4 keys, rounded down: 2 for two buckets at once, 4 for a sliding window of ten. A log counts as more keys as
	// it grows; if there is no room for that, some of its admissions are merged, which makes it stricter. Only keys
	// that have used something recently count: one whose limit is full again is dropped when room is needed.
	//
	// Beyond the bound, a new key shares a state with others of the same limiter and policy, until
	// there is room and nothing in that state counts any more. Such keys are limited more strictly,
	// never less, and no key loses its own state. All shared states together take at most as much
	// memory as MaxKeys does, and none before they are needed, so the default bounds the memory at
	// about 220 MB. The first limiter that needs them gets half of that memory, the second half of
	// the rest, and so on: a flood of keys of one limiter does not affect the others. Half of it is
	// 3.4 shared states for each of MaxKeys under a bucket, a pacer or a fixed window of at most
	// 1,023, 1.7 under a larger window and 0.8 under a log; a limiter gets at least 256.
	// docs/limits.md says what a flood can do and which MaxKeys to choose.
	//
	// Default: 2,000,000.
	MaxKeys int

	// Now is the clock, from 1970 to 2112. Outside of that it is taken to stand still at the nearer end: what has been
	// used stays used. It may be set back; states are then kept a minute longer.
	//
	// Default: the monotonic clock of the process, which is never set back.
	Now func() time.Time
}

const defaultMaxKeys = 2_000_000

// Store is a [limit.Store] in the memory of this process. A decision for a key
// that is known allocates nothing. All its methods may be used by any number of
// goroutines; it needs no Close.
type Store interface {
	limit.Store
	limit.ExtendedStore
	limit.ManyTaker
	limit.LeaseStore

	// LocalStore marks the store as one that never leaves the process.
	LocalStore()
	// Stats returns the figures.
	Stats() Stats
}

type store struct {
	state  *engine.Engine
	leases leases
}

// NewStore makes an empty store. It panics when an option is invalid.
func NewStore(options ...Options) Store {
	o := given.Must("memory", "NewStore", options)
	switch {
	case o.MaxKeys < 0:
		panic("memory: Options.MaxKeys is negative; leave it 0 for the default")
	case o.MaxKeys == 0:
		o.MaxKeys = defaultMaxKeys
	}
	opt := engine.Options{MaxKeys: o.MaxKeys, Shards: max(64, 8*runtime.GOMAXPROCS(0)), Now: engine.Clock(o.Now)}
	if o.Now != nil {
		opt.Grace = limit.ClockTolerance.Microseconds()
	}
	s := &store{state: engine.New(opt)}
	s.leases.seed, s.leases.grace = maphash.MakeSeed(), opt.Grace
	return s
}

func (*store) LocalStore() {}

// Take implements [limit.Store]. It never waits and ignores the context.
func (s *store) Take(_ context.Context, key []byte, policy limit.Policy, cost int64) (d limit.Decision, err error) {
	plan := ready(policy, cost)
	if plan == nil {
		if plan, err = limit.Prepare(policy, cost); err != nil {
			return d, err
		}
	}
	s.state.Take((*engine.Answer)(&d), s.state.Hash(key), plan.Compiled(), cost)
	return d, nil
}

// ready returns a policy that is a plan already, or nil when there is something
// to check. (It is the part of limit.Prepare that costs no call.)
func ready(policy limit.Policy, cost int64) *limit.Plan {
	if plan, ok := policy.(*limit.Plan); ok && cost >= 1 {
		return plan
	}
	return nil
}

// Stats are figures of a store since it was made.
type Stats struct {
	// Keys is how many keys have state of their own now, those included whose state
	// has run out but has not been dropped yet.
	Keys int
	// Evicted is how many states were dropped after they had run out.
	Evicted int64
	// Overflowed is how many decisions were made on a shared state because
	// MaxKeys was reached. When it grows, the store is flooded with new keys, or
	// MaxKeys is too small.
	Overflowed int64
	// Held is how many leases there are now ([limit.LeaseStore]), those included that have
	// ended but have not been dropped yet.
	Held int
}

// Stats returns the figures of the store.
func (s *store) Stats() Stats {
	var st Stats
	st.Keys, st.Evicted, st.Overflowed = s.state.Figures()
	st.Held = s.leases.held()
	return st
}
