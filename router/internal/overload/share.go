package overload

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// buckets is the number of buckets of a level. Subjects with one bucket have one share together.
	buckets = 256
	// window is the time for which a share is given.
	window = 100 * time.Millisecond
	// era is the time after which subjects get other buckets, so that none is together with a
	// flood for long.
	era = time.Second
)

// table counts the messages of the subjects of a level. The windows of the buckets do not begin at
// the same time, so that not all shares are spent at once.
type table [buckets]bucket

type bucket struct {
	count atomic.Uint64 // the number of a window, and how many messages came in it
	last  atomic.Uint32 // how many came in the window before
}

const countBits = 32

func windowOf(index int, at time.Duration) uint32 {
	return uint32((at + window*time.Duration(index)/buckets) / window)
}

// mix distributes bits evenly (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// place is where a message is among those of its subject in a window.
type place uint8

const (
	beyond place = iota // the share
	within
	firm // within the half of it that is not taken by others, should the limit be spent
)

// count counts a message. Of a share that is not a whole number, the part is given in as many of
// the windows.
func (t *table) count(subject uint64, at time.Duration, share float64) place {
	index := int(mix(subject+uint64(at/era)) % buckets)
	b, w := &t[index], windowOf(index, at)
	for {
		old := b.count.Load()
		in, n := uint32(old>>countBits), uint32(old)
		rolls := int32(w-in) > 0
		next := old + 1
		if rolls {
			next = uint64(w)<<countBits | 1
		}
		if !b.count.CompareAndSwap(old, next) {
			continue
		}
		if rolls {
			if in != w-1 {
				n = 0
			}
			b.last.Store(n)
			in, n = w, 0
		}
		part := float64(mix(uint64(in)<<countBits|uint64(index))>>11) / (1 << 53)
		switch {
		case float64(n) < math.Floor(share/2+part):
			return firm
		case float64(n) < math.Floor(share+part):
			return within
		}
		return beyond
	}
}

// share returns the share with which budget messages are admitted in a window, if what comes is
// like what came in the last one.
func (t *table) share(at time.Duration, budget float64) float64 {
	var came [buckets]uint32
	for i := range t {
		w, count := windowOf(i, at), t[i].count.Load()
		switch uint32(count >> countBits) {
		case w:
			came[i] = t[i].last.Load()
		case w - 1:
			came[i] = uint32(count)
		}
	}
	return fair(came[:], budget)
}

// fair returns the largest share for which the sum of min(came, share) is at most budget. It sorts
// came.
func fair(came []uint32, budget float64) float64 {
	slices.Sort(came)
	for i, n := range came {
		equal := budget / float64(len(came)-i)
		if float64(n) > equal {
			return equal
		}
		budget -= float64(n)
	}
	return math.Inf(1)
}
