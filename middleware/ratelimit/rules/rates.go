package rules

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/limit"
)

// A speed is a number of tokens per time: the rate of a rule in one form. The zero speed means
// that the rule has no rate; of [Unlimited], tokens is that.
type speed struct {
	tokens int64
	per    time.Duration
}

// speed returns the rate of a rule.
func (r *Rule) speed() speed {
	switch {
	case r.PerMinute != 0:
		return speed{r.PerMinute, time.Minute}
	case r.PerHour != 0:
		return speed{r.PerHour, time.Hour}
	case r.PerDay != 0:
		return speed{r.PerDay, day}
	case r.Every != 0:
		return speed{1, r.Every}
	}
	return speed{}
}

const day = 24 * time.Hour

// slower reports whether fewer tokens are added under q than under o.
func (q speed) slower(o speed) bool {
	high, low := bits.Mul64(uint64(q.tokens), uint64(o.per))
	otherHigh, otherLow := bits.Mul64(uint64(o.tokens), uint64(q.per))
	return high < otherHigh || high == otherHigh && low < otherLow
}

// A bucket is a token bucket: the limit of a rate and a burst. The zero bucket is none.
type bucket struct {
	speed
	burst int64
}

// bucket returns the limit of a rate.
func (r Rate) bucket() bucket { return bucket{r.rule().speed(), r.Burst} }

// rule returns the rate as a rule.
func (r Rate) rule() *Rule {
	return &Rule{PerMinute: r.PerMinute, PerHour: r.PerHour, PerDay: r.PerDay, Every: r.Every, Burst: r.Burst}
}

// within caps a bucket; the zero bucket means no maximum.
func (b bucket) within(maximum bucket) bucket {
	switch {
	case maximum == bucket{}:
		return b
	case b.tokens == Unlimited:
		return maximum
	}
	if maximum.slower(b.speed) {
		b.speed = maximum.speed
	}
	b.burst = min(b.burst, maximum.burst)
	return b
}

// policy returns the bucket as a limit.
func (b bucket) policy() limit.Policy {
	return limit.TokenBucket{Capacity: b.burst, Refill: b.tokens, Per: b.per}
}

// limiters holds a limiter for each bucket that a frame has met. Only the first frame of one
// takes the lock and copies a part.
type limiters struct {
	base  *limit.Limiter // all are made of it; it has the name and the figures
	mu    sync.Mutex
	parts [64]atomic.Pointer[map[bucket]*limit.Limiter]
}

// maxPerPart bounds the limiters of a part. A part that is full is made again as frames need
// it.
const maxPerPart = 256

// of returns the limiter of a bucket. Those of valid Rules cause no error.
func (l *limiters) of(b bucket) (*limit.Limiter, error) {
	hash := (uint64(b.tokens)^uint64(b.per))*0x9e3779b97f4a7c15 ^ uint64(b.burst)*0xbf58476d1ce4e5b9
	part := &l.parts[hash>>58]
	if found := lookup(part, b); found != nil {
		return found, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := lookup(part, b); found != nil {
		return found, nil
	}
	made, err := l.base.With(b.policy())
	if err != nil {
		return nil, err
	}
	next := map[bucket]*limit.Limiter{b: made}
	if old := part.Load(); old != nil && len(*old) < maxPerPart {
		maps.Copy(next, *old)
	}
	part.Store(&next)
	return made, nil
}

func lookup(part *atomic.Pointer[map[bucket]*limit.Limiter], b bucket) *limit.Limiter {
	if all := part.Load(); all != nil {
		return (*all)[b]
	}
	return nil
}
