// Package histogram counts durations in fixed buckets, each twice as long as the one before it.
package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// buckets is the number of bounds.
	buckets = 24
	// first is the bound of the first bucket, in nanoseconds. The last one has 33.6 s.
	first = 4000
)

// Snapshot is a histogram of durations, as it was at one moment.
type Snapshot struct {
	// Counts are the numbers of durations in the buckets. The last one is for those that are longer
	// than all Bounds.
	Counts [buckets + 1]int64
	// Sum is the sum of all durations.
	Sum time.Duration

	long bool
}

// Bounds returns the longest durations of the buckets but the last. The slice must not be changed.
func (s Snapshot) Bounds() []time.Duration {
	if s.long {
		return longBounds
	}
	return bounds
}

// Count returns how many durations were counted.
func (s Snapshot) Count() (n int64) {
	for _, c := range s.Counts {
		n += c
	}
	return n
}

// Merge adds to s what another histogram of the same durations has counted.
func Merge(s *Snapshot, other Snapshot) {
	for i, n := range other.Counts {
		s.Counts[i] += n
	}
	s.Sum += other.Sum
}

// Histogram counts durations from 4 µs to 33 s. Any goroutine may use it.
type Histogram struct {
	counts [buckets + 1]atomic.Int64
	sum    atomic.Int64 // in nanoseconds
}

func bucketOf(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	return min(bits.Len64(uint64(d-1)/first), buckets)
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(d)].Add(1)
	h.sum.Add(int64(d))
}

// Snapshot returns what was counted.
func (h *Histogram) Snapshot() (s Snapshot) {
	s.Sum = time.Duration(h.sum.Load())
	for i := range h.counts {
		s.Counts[i] = h.counts[i].Load()
	}
	return s
}

// longUnit is how much longer the durations of a Long are.
const longUnit = int64(time.Second) / first

// Long is a Histogram of durations from 1 s to 97 days.
type Long struct{ h Histogram }

// Add counts a duration.
func (l *Long) Add(d time.Duration) { l.h.Add(d / time.Duration(longUnit)) }

// Snapshot returns what was counted.
func (l *Long) Snapshot() Snapshot {
	s := l.h.Snapshot()
	s.long = true
	s.Sum *= time.Duration(longUnit)
	return s
}

// Local counts durations for one goroutine, to be added to a Histogram together: this takes a
// fraction of the time that each Histogram.Add would take.
type Local struct {
	counts [buckets + 1]uint32
	used   uint32 // the buckets that are not empty, a bit for each
	sum    time.Duration
}

// Add counts a duration.
func (l *Local) Add(d time.Duration) {
	i := bucketOf(d)
	l.counts[i]++
	l.used |= 1 << i
	l.sum += d
}

// Move adds what was counted to h, and begins anew.
func (l *Local) Move(h *Histogram) {
	if l.used == 0 {
		return
	}
	for used := l.used; used != 0; used &= used - 1 {
		i := bits.TrailingZeros32(used)
		h.counts[i].Add(int64(l.counts[i]))
		l.counts[i] = 0
	}
	h.sum.Add(int64(l.sum))
	l.used, l.sum = 0, 0
}

var bounds, longBounds = doubling(first), doubling(time.Second)

func doubling(d time.Duration) []time.Duration {
	all := make([]time.Duration, buckets)
	for i := range all {
		all[i] = d << i
	}
	return all
}
