package ratelimit

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/limit"
)

// limiters holds a limiter for each rate that a frame has met. Only the first frame of a rate
// takes the lock and copies a part.
type limiters struct {
	base  *limit.Limiter // all are made of it; it has the name and the figures
	mu    sync.Mutex
	parts [64]atomic.Pointer[map[Rate]*limit.Limiter]
}

// maxPerPart bounds the limiters of a part. A part that is full is made again as frames need
// it.
const maxPerPart = 256

// of returns the limiter of a rate. Rates from valid Rules cause no error.
func (l *limiters) of(rate Rate) (*limit.Limiter, error) {
	hash := uint64(rate.PerMinute)*0x9e3779b97f4a7c15 ^ uint64(rate.Burst)*0xbf58476d1ce4e5b9
	part := &l.parts[hash>>58]
	if found := lookup(part, rate); found != nil {
		return found, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := lookup(part, rate); found != nil {
		return found, nil
	}
	made, err := l.base.With(rate.policy())
	if err != nil {
		return nil, err
	}
	next := map[Rate]*limit.Limiter{rate: made}
	if old := part.Load(); old != nil && len(*old) < maxPerPart {
		maps.Copy(next, *old)
	}
	part.Store(&next)
	return made, nil
}

func lookup(part *atomic.Pointer[map[Rate]*limit.Limiter], rate Rate) *limit.Limiter {
	if all := part.Load(); all != nil {
		return (*all)[rate]
	}
	return nil
}

// policy is the rate as a limit.
func (r Rate) policy() limit.Policy {
	return limit.TokenBucket{Capacity: r.Burst, Refill: r.PerMinute, Per: time.Minute}
}
