package engine

import (
	"fmt"
	"strconv"
	"time"
)

// MaxBuckets is the largest number of sub-windows of a sliding window.
const MaxBuckets = 1440

// State, with n = Buckets:
//
//	state[0]     = start    the newest sub-window
//	state[1 + i] = count    what was admitted in the sub-window i before it, i ≤ n
//
// With c the counts, w the length of a sub-window and e = now − start, used is
//
//	c[0] + … + c[n−1] + c[n]·(w − e)/w
//
// Everything is compared after multiplying by w, so nothing is rounded. A count
// above Limit was written under a higher limit and counts as Limit. The start never goes
// back: see fixed.
type sliding struct {
	width int64 // of a sub-window
	limit int64
	n     int
}

// SlidingWindow makes the plan of a limit.SlidingWindow.
func SlidingWindow(policy fmt.Stringer, limit int64, window time.Duration, buckets int) (*Plan, error) {
	n := max(buckets, 1)
	if buckets < 0 || n > MaxBuckets {
		return nil, invalid(policy, "Buckets", fmt.Sprintf("from 0 to %d; 0 means 1", MaxBuckets))
	}
	if err := checkWindow(policy, window); err != nil {
		return nil, err
	}
	width := window.Microseconds() / int64(n)
	switch {
	case width*int64(n) != window.Microseconds():
		return nil, invalid(policy, "Buckets", fmt.Sprintf("such that Window is a whole number of microseconds for each; %v in %d parts is not", window, n))
	case width < 1000:
		return nil, invalid(policy, "Buckets", fmt.Sprintf("at most %d, for sub-windows of at least 1ms", window.Milliseconds()))
	}
	if err := checkLimit(policy, limit, maxTerm/width); err != nil {
		return nil, fmt.Errorf("%w (with sub-windows of %v; more Buckets allow a larger limit)", err, micros(width))
	}
	plan := newPlan(policy, kindSliding, "s"+strconv.Itoa(n), n+2, limit)
	plan.sliding = sliding{width: width, limit: limit, n: n}
	return plan, nil
}

// age is by how many sub-windows the counts of state must be moved so that the newest is
// the one at start.
func (w *sliding) age(state []int64, start int64) int64 {
	if start == state[0] {
		return 0
	}
	first := state[0] - state[0]%w.width // it may have been written under another width
	return min(max(0, (start-first)/w.width), int64(w.n)+1)
}

// count is c[i] of a state after it is moved by age.
func (w *sliding) count(state []int64, i int, age int64) int64 {
	if i -= int(age); i < 0 {
		return 0
	}
	return min(state[1+i], w.limit)
}

// oldest is the share of c[n] that counts at the instant now, rounded up.
func (w *sliding) oldest(c, start, now int64) int64 {
	left := w.width - max(0, now-start)
	return ceilDiv(c*left, w.width)
}

func (w *sliding) look(v *view, state []int64, now int64) {
	state = state[:w.n+2]
	v.start = now - now%w.width
	if first := state[0] - state[0]%w.width; first > v.start {
		if first-now > correctAfter {
			v.used, v.corrected = w.limit, true
			return
		}
		v.start = first
	}
	age := w.age(state, v.start)
	for i := range w.n - int(min(age, int64(w.n))) {
		v.used += min(state[1+i], w.limit)
	}
	if c := w.count(state, w.n, age); c > 0 {
		v.used += w.oldest(c, v.start, now)
	}
}

// write moves the counts and adds cost to the newest.
func (w *sliding) write(v *view, state []int64, cost int64) {
	state = state[:w.n+2]
	if v.corrected {
		clear(state)
		state[1] = w.limit
	} else {
		age := w.age(state, v.start)
		for i := w.n; i >= 0; i-- {
			state[1+i] = w.count(state, i, age)
		}
	}
	state[0] = v.start
	state[1] += cost
	v.used += cost
	v.until = w.until(state, v.start)
}

// until is the instant from which on nothing in state counts, at least start.
func (w *sliding) until(state []int64, start int64) int64 {
	age := w.age(state, start)
	for i := range w.n + 1 {
		if w.count(state, i, age) > 0 {
			return start + int64(w.n+1-i)*w.width
		}
	}
	return start
}

func (w *sliding) answer(d *Answer, v *view, state []int64, now, cost int64) {
	d.Limit = w.limit
	d.Remaining = max(0, w.limit-v.used)
	d.ResetAfter = micros(w.resetAfter(v, state, now))
	if v.fits {
		return
	}
	if cost > w.limit {
		d.Impossible = true
		return
	}
	d.RetryAfter = micros(w.fitsAt(state, v.start, w.limit-cost) - now)
}

func (w *sliding) resetAfter(v *view, state []int64, now int64) int64 {
	return max(0, w.until(state, v.start)-now)
}

// fitsAt is the first instant at which no more than free is used, without other
// traffic. j sub-windows after start, c[n−j] is the oldest count, and the newer ones count
// in full. Within that sub-window the share of the oldest falls evenly from all to nothing.
// fitsAt finds the first j for which the newer counts are at most free, and then the
// instant within the sub-window.
func (w *sliding) fitsAt(state []int64, start, free int64) int64 {
	age := w.age(state, start)
	full := int64(0)
	for i := range w.n {
		full += w.count(state, i, age)
	}
	j := 0
	for ; full > free; j++ {
		full -= w.count(state, w.n-1-j, age)
	}
	at := start + int64(j)*w.width
	if c := w.count(state, w.n-j, age); c > free-full {
		at += w.width - (free-full)*w.width/c
	}
	return at
}

// refund gives back in the sub-window of the charge while it counts.
func (w *sliding) refund(v *view, state []int64, cost, at int64) (write bool) {
	i := 0
	if at < v.start {
		i = int(min(ceilDiv(v.start-at, w.width), int64(w.n)+1))
	}
	if i > w.n || at-v.start >= w.width {
		return false
	}
	back := min(cost, w.count(state, i, w.age(state, v.start)))
	if back == 0 {
		return false
	}
	w.write(v, state, 0)
	state[1+i] -= back
	return true
}
