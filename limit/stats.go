package limit

import (
	"sync/atomic"

	"github.com/wskit/wskit/internal/histogram"
)

// Histogram counts durations in buckets; the bound of each is twice that of the one before. Counts
// has their numbers by bucket, with those longer than all of Bounds at the end, and Sum is the sum
// of the durations.
type Histogram = histogram.Snapshot

// Stats are figures of a [Limiter] since it was made.
type Stats struct {
	// Allowed and Denied count the decisions. A shadowed denial is in Denied.
	Allowed, Denied int64
	// Impossible counts the denials of a cost that can never fit.
	Impossible int64
	// Shadowed counts the denials that shadow mode let pass.
	Shadowed int64
	// Invalid counts the calls refused for their cost or key.
	Invalid int64
	// StoreFailures counts the calls that the store answered with an error or
	// not in time.
	StoreFailures int64
	// TimedOut counts those of them that had no answer within [Options.Timeout]. If it grows while
	// the store works, the timeout is too short for the round trip.
	TimedOut int64
	// Skipped counts the decisions that were made without the store, because it had failed too
	// often shortly before.
	Skipped int64
	// FailedOver counts the decisions that the failure policy made: all those
	// that StoreFailures and Skipped count.
	FailedOver int64
	// Switches counts how often the limiter stopped using its store; Degraded says that it does not
	// use it now.
	Switches int64
	Degraded bool
	// Took is how long the calls of the store took, failed ones included. Calls of a store in this
	// process are not measured, because that would take as long as the calls.
	Took Histogram
}

// stripes spread the counts of the hot path over cache lines, so that cores do
// not wait for each other to count.
const stripes = 8

type counts struct {
	decided [stripes]struct {
		allowed, denied atomic.Int64
		_               [128 - 16]byte
	}
	impossible, shadowed, invalid atomic.Int64
	failures, timeouts, skipped   atomic.Int64
	failedOver, switches          atomic.Int64
	took                          histogram.Histogram
}

// decision counts d, spread by a number that differs between keys.
func (c *counts) decision(d *Decision, spread int) {
	s := &c.decided[spread%stripes]
	if d.Allowed {
		s.allowed.Add(1)
		return
	}
	s.denied.Add(1)
	if d.Impossible {
		c.impossible.Add(1)
	}
}

// Stats returns the figures of the limiter.
func (l *Limiter) Stats() Stats {
	c := &l.counts
	s := Stats{
		Impossible: c.impossible.Load(), Shadowed: c.shadowed.Load(), Invalid: c.invalid.Load(),
		StoreFailures: c.failures.Load(), TimedOut: c.timeouts.Load(), Skipped: c.skipped.Load(), FailedOver: c.failedOver.Load(),
		Switches: c.switches.Load(), Degraded: l.remote != nil && l.remote.degraded.Load(),
		Took: c.took.Snapshot(),
	}
	for i := range c.decided {
		s.Allowed += c.decided[i].allowed.Load()
		s.Denied += c.decided[i].denied.Load()
	}
	return s
}
