package limit

import (
	"fmt"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/engine"
)

// Policy says how much is allowed in which time. It is a closed set: the types of this
// package, [All] of several, any of them with a name of its own ([Named]), and the [Plan]
// that [Compile] makes of one.
//
// String returns the name that [Decision.Policy] reports.
type Policy interface {
	String() string
	compile() (*engine.Plan, error)
}

// TokenBucket admits a burst of Capacity and Refill more every Per, refilled continuously:
// of 100 per second, one every 10 ms. It suits most purposes: it allows a burst, enforces
// a rate, and needs 16 bytes per key.
//
// Over any span of time s it admits at most Capacity + Refill·s/Per.
type TokenBucket struct {
	// Capacity is the size of the bucket, at least 1: the largest burst, and the largest
	// cost that can ever be admitted.
	Capacity int64
	// Refill tokens flow in every Per, at least 1.
	Refill int64
	// Per is at least 1 ms and a whole number of microseconds.
	Per time.Duration
}

// String returns "token_bucket(Capacity,Refill/Per)".
func (b TokenBucket) String() string {
	return fmt.Sprintf("token_bucket(%d,%d/%v)", b.Capacity, b.Refill, b.Per)
}

func (b TokenBucket) compile() (*engine.Plan, error) {
	return engine.TokenBucket(b, b.Capacity, b.Refill, b.Per)
}

// Pacer is a leaky bucket as a queue: it delays instead of denying. [Decision.Wait] is how
// long to delay what was admitted; what is delayed so leaves at Refill per Per, after a
// Burst at once. Only a cost that would have to wait longer than MaxWait is denied.
//
// A refund gives back a place in the queue that is not used.
type Pacer struct {
	// Burst is how much goes through at once, at least 1. With 1, everything is spaced out.
	Burst int64
	// Refill goes through in every Per, at least 1.
	Refill int64
	// Per is at least 1 ms and a whole number of microseconds.
	Per time.Duration
	// MaxWait is the longest wait, at least 1 µs and a whole number of microseconds.
	MaxWait time.Duration
}

// String returns "pacer(Burst,Refill/Per,MaxWait)".
func (p Pacer) String() string {
	return fmt.Sprintf("pacer(%d,%d/%v,%v)", p.Burst, p.Refill, p.Per, p.MaxWait)
}

func (p Pacer) compile() (*engine.Plan, error) {
	return engine.Pacer(p, p.Burst, p.Refill, p.Per, p.MaxWait)
}

// FixedWindow admits Limit in every Window of the calendar: windows begin at multiples of Window after the Unix epoch,
// at the same instant for all subjects. It suits quotas by the calendar ("1,000 a day, from midnight UTC"; for other
// zones and for months use [Calendar]). Around the boundary of two windows, up to twice the Limit can be admitted at
// once; where that matters use [SlidingWindow].
type FixedWindow struct {
	// Limit is how much is admitted in a window, at least 1.
	Limit int64
	// Window is at least 1 ms and a whole number of microseconds.
	Window time.Duration
}

// String returns "fixed_window(Limit/Window)".
func (w FixedWindow) String() string {
	return fmt.Sprintf("fixed_window(%d/%v)", w.Limit, w.Window)
}

func (w FixedWindow) compile() (*engine.Plan, error) {
	return engine.FixedWindow(w, w.Limit, w.Window)
}

// SlidingWindow admits Limit in any span of Window, as far as counting by sub-windows can
// tell: what was admitted in the Buckets newest sub-windows counts in full, and what was
// admitted in the one before them by the share of it that the window still covers, as if
// it had come evenly. More Buckets come closer to the exact [SlidingLog] and take more
// memory: 16 bytes, and 8 for each. Capacity comes back continuously, never all at once.
type SlidingWindow struct {
	// Limit is at least 1. Multiplied by the microseconds of a sub-window it may be 2⁵¹ at
	// most: 26,000 for one of a day, 625,000 for one of an hour.
	Limit int64
	// Window is at least 1 ms and a whole number of microseconds.
	Window time.Duration
	// Buckets is the number of sub-windows, at most 1,440; 0 means 1. They are of equal
	// length: a whole number of microseconds, at least 1 ms.
	Buckets int
}

// String returns "sliding_window(Limit/Window,Buckets)".
func (w SlidingWindow) String() string {
	return fmt.Sprintf("sliding_window(%d/%v,%d)", w.Limit, w.Window, max(w.Buckets, 1))
}

func (w SlidingWindow) compile() (*engine.Plan, error) {
	return engine.SlidingWindow(w, w.Limit, w.Window, w.Buckets)
}

// SlidingLog admits Limit in any span of Window, exactly, by storing when each unit was admitted.
// It suits small limits that must be exact: five logins in 15 minutes. A key takes 16 bytes for
// every admission that still counts; for larger limits use [SlidingWindow].
type SlidingLog struct {
	// Limit is how much is admitted in any Window, from 1 to 1,000.
	Limit int64
	// Window is at least 1 ms and a whole number of microseconds.
	Window time.Duration
}

// String returns "sliding_log(Limit/Window)".
func (l SlidingLog) String() string {
	return fmt.Sprintf("sliding_log(%d/%v)", l.Limit, l.Window)
}

func (l SlidingLog) compile() (*engine.Plan, error) {
	return engine.SlidingLog(l, l.Limit, l.Window)
}

// Named gives a policy a name of its own, which [Decision.Policy] reports instead of the
// description of its numbers. It is meant for messages and metrics and is no part of a key.
func Named(name string, policy Policy) Policy {
	return named{name: name, policy: policy}
}

type named struct {
	name   string
	policy Policy
}

func (n named) String() string { return n.name }

func (n named) compile() (*engine.Plan, error) {
	if n.name == "" {
		return nil, errors.New("limit: Named with an empty name: give it one, or use the policy as it is")
	}
	plan, err := compile(n.policy)
	if err != nil {
		return nil, fmt.Errorf("%w (in the policy named %q)", err, n.name)
	}
	return plan.Named(n.name), nil
}
