package engine

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// MaxLog is the largest limit of a sliding log.
const MaxLog = 1000

// State, of varying length:
//
//	state[0]               = n       the number of pairs
//	state[1+2i], [2+2i]    = t, c    at the instant t, c was admitted; oldest first
//
// A pair counts while now − t < Window. Instants never go back: if the clock is behind the
// newest pair, a charge is added to that pair. There is one pair per instant. Only the
// newest pair may have c = 0 (after a full refund); it keeps the instant until the next
// charge. So there are never more than Limit pairs.
type slidingLog struct {
	window, limit int64
}

// SlidingLog makes the plan of a limit.SlidingLog.
func SlidingLog(policy fmt.Stringer, limit int64, window time.Duration) (*Plan, error) {
	if err := checkLimit(policy, limit, MaxLog); err != nil {
		return nil, fmt.Errorf("%w: every admission is stored; for a larger limit use SlidingWindow", err)
	}
	if err := checkWindow(policy, window); err != nil {
		return nil, err
	}
	plan := newPlan(policy, kindLog, "l", 0, limit)
	plan.log = slidingLog{window: window.Microseconds(), limit: limit}
	return plan, nil
}

// pairs are those of the state at the beginning of state.
func (l *slidingLog) pairs(state []int64) []int64 { return state[1 : 1+2*state[0]] }

func (l *slidingLog) look(v *view, state []int64, now int64) {
	pairs := l.pairs(state)
	if n := len(pairs); n > 0 && pairs[n-2]-now > correctAfter {
		v.used, v.corrected = l.limit, true
		return
	}
	for i := 0; i < len(pairs); i += 2 {
		if now-pairs[i] >= l.window {
			v.start++
		} else {
			v.used += pairs[i+1]
		}
	}
}

// write drops the pairs that are too old and adds cost. The log is at the offset in state;
// other state may follow it.
func (l *slidingLog) write(v *view, state []int64, offset int, now, cost int64) []int64 {
	first := offset + 1
	end := first + 2*int(state[offset])
	if v.corrected {
		state = slices.Replace(state, first, end, now, l.limit)
		state[offset] = 1
		v.until = now + l.window
		return state
	}
	state = slices.Delete(state, first, first+2*int(v.start))
	end -= 2 * int(v.start)
	v.start = 0
	v.used += cost
	if cost > 0 {
		switch {
		case end > first && state[end-2] >= now:
			state[end-1] += cost
		case end > first && state[end-1] == 0:
			state[end-2], state[end-1] = now, cost
		default:
			state = slices.Insert(state, end, now, cost)
			end += 2
		}
	}
	state[offset] = int64(end-first) / 2
	v.until = now
	if end > first {
		v.until = state[end-2] + l.window
	}
	return state
}

func (l *slidingLog) answer(d *Answer, v *view, state []int64, now, cost int64) {
	d.Limit = l.limit
	d.Remaining = max(0, l.limit-v.used)
	d.ResetAfter = micros(l.resetAfter(v, state, now))
	if v.fits {
		return
	}
	if cost > l.limit {
		d.Impossible = true
		return
	}
	pairs := l.pairs(state)[2*v.start:]
	over := v.used + cost - l.limit
	for i := 0; i < len(pairs); i += 2 {
		if over -= pairs[i+1]; over <= 0 {
			d.RetryAfter = micros(pairs[i] + l.window - now)
			return
		}
	}
}

func (l *slidingLog) resetAfter(v *view, state []int64, now int64) int64 {
	pairs := l.pairs(state)[2*v.start:]
	switch n := len(pairs); {
	case n == 0:
		return 0
	case pairs[n-1] > 0:
		return pairs[n-2] + l.window - now
	case n > 2: // the newest was given back: what is before it counts, and the instant itself
		return max(pairs[n-2], pairs[n-4]+l.window, now) - now
	default:
		return max(pairs[n-2], now) - now
	}
}

// refund gives back from the pair of the charge while it counts. It changes nothing
// else: pairs that are too old now would count again if the clock jumped back.
func (l *slidingLog) refund(state []int64, offset int, now, cost, at int64) (next []int64, write bool) {
	if now-at >= l.window {
		return state, false
	}
	first := offset + 1
	last := first + 2*int(state[offset]) - 2
	for i := last; i >= first && state[i] >= at; i -= 2 { // usually it is one of the newest
		if state[i] > at || state[i+1] == 0 {
			continue
		}
		if state[i+1] -= min(cost, state[i+1]); state[i+1] == 0 && i < last {
			state = slices.Delete(state, i, i+2)
			state[offset]--
		}
		return state, true
	}
	return state, false
}

// shorten removes one pair from each log that has at least two, for tables that are full.
func (p *Plan) shorten(state []int64) []int64 {
	offset := 0
	for _, part := range p.Parts {
		if part.kind == kindLog && state[offset] >= 2 {
			state = join(state, offset)
		}
		offset += part.size(state[offset:])
	}
	return state
}

// join merges two adjacent pairs of the log at the offset of state. It chooses those for
// which this costs the least. The merged pair has the later instant: it counts for longer
// than it should, never for less.
func join(state []int64, offset int) []int64 {
	first, last := offset+1, offset+1+2*int(state[offset]-1)
	at, least := first, int64(math.MaxInt64)
	for i := first; i < last; i += 2 {
		if lost := state[i+1] * (state[i+2] - state[i]); lost < least {
			at, least = i, lost
		}
	}
	state[at+3] += state[at+1]
	state[offset]--
	return slices.Delete(state, at, at+2)
}
