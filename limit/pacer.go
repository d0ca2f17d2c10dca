package limit

import (
	"fmt"
	"time"
)

// Pacer is a leaky bucket as a queue: instead of "no" it answers "wait this
// long", and charges ahead, so that whoever waits has a place in the line.
// [Decision.Wait] is how long to hold back what was admitted; what was held back
// that long goes out at Refill per Per, after a Burst at once. Only what would
// have to wait longer than MaxWait is denied.
//
// A place in the line that is not used is given up by a refund.
type Pacer struct {
	// Burst is how much goes through at once, at least 1. With 1, everything is
	// spaced out.
	Burst int64
	// Refill goes through in every Per, at least 1.
	Refill int64
	// Per is at least 1 ms and a whole number of microseconds.
	Per time.Duration
	// MaxWait is the longest wait that is asked for, at least 1 µs and a whole
	// number of microseconds.
	MaxWait time.Duration
}

// String returns "pacer(Burst,Refill/Per,MaxWait)".
func (p Pacer) String() string {
	return fmt.Sprintf("pacer(%d,%d/%v,%v)", p.Burst, p.Refill, p.Per, p.MaxWait)
}

// The arithmetic is that of a token bucket whose capacity is the burst and what
// flows in during MaxWait, in the same state: full = Burst·p + MaxWait·q. The
// wait is what time takes to pay off what is owed beyond the burst.
func (p Pacer) compile() (*Plan, error) {
	if p.Burst < 1 {
		return nil, invalid(p, "Burst", "at least 1: what goes through at once")
	}
	c, err := newBucket(p, "Burst", p.Burst, p.Refill, p.Per)
	if err != nil {
		return nil, err
	}
	if p.MaxWait < time.Microsecond || p.MaxWait%time.Microsecond != 0 {
		return nil, invalid(p, "MaxWait", "at least 1µs and a whole number of microseconds; to deny instead of waiting use TokenBucket")
	}
	wait := p.MaxWait.Microseconds()
	if most := (maxTerm - c.full) / c.q; wait > most {
		return nil, invalid(p, "MaxWait", fmt.Sprintf("at most %v to stay exact with this Burst and rate", micros(most)))
	}
	c.queue = wait * c.q
	c.full += c.queue
	c.limit = c.full / c.p
	c.horizon = ceilDiv(c.full, c.q) + healAfter
	return newBucketPlan(p, c), nil
}
