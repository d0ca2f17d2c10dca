package engine

import (
	"fmt"
	"time"
)

// State:
//
//	state[0] = start    the window that is counted
//	state[1] = count    what was admitted in it
//
// The start never goes back, even if all of the count was refunded: otherwise a clock that
// jumps back and forth would erase the count of the window before.
type fixed struct {
	width, limit int64
	calendar     *calendar // the windows are its, of varying width
}

// FixedWindow makes the plan of a limit.FixedWindow.
func FixedWindow(policy fmt.Stringer, limit int64, window time.Duration) (*Plan, error) {
	if err := checkLimit(policy, limit, maxTerm); err != nil {
		return nil, err
	}
	if err := checkWindow(policy, window); err != nil {
		return nil, err
	}
	plan := newPlan(policy, kindFixed, "f", 2, limit)
	plan.fixed, plan.late = fixed{width: window.Microseconds(), limit: limit}, true
	return plan, nil
}

// window is the window of an instant.
func (w *fixed) window(at int64) window {
	if w.calendar != nil {
		return w.calendar.window(at)
	}
	start := at - at%w.width
	return window{start, start + w.width}
}

// look finds the current window: the one of now, or a later one if the clock was set back
// by no more than the tolerance.
func (w *fixed) look(v *view, state []int64, now int64) {
	_ = state[1]
	current := w.window(now)
	v.start, v.end = current.start, current.end
	start, count := state[0], state[1]
	if start < v.start {
		return
	}
	if start != v.start {
		later := w.window(start) // it may have been written under another width
		if later.start-now > correctAfter {
			v.used, v.corrected = w.limit, true
			v.until = v.end
			return
		}
		v.start, v.end = later.start, later.end
	}
	v.used = count
}

func (w *fixed) write(v *view, state []int64, cost int64) {
	v.used += cost
	state[0], state[1] = v.start, v.used
	v.until = v.end
}

func (w *fixed) answer(d *Answer, v *view, now, cost int64) {
	d.Limit = w.limit
	d.Remaining = max(0, w.limit-v.used)
	d.ResetAfter = micros(w.resetAfter(v, now))
	if !v.fits {
		if cost > w.limit {
			d.Impossible = true
		} else {
			d.RetryAfter = micros(v.end - now)
		}
	}
}

func (w *fixed) resetAfter(v *view, now int64) int64 {
	if v.used > 0 {
		return v.end - now
	}
	return max(0, v.start-now) // until the clock is in the window
}

// refund gives back only within the window of the charge.
func (w *fixed) refund(v *view, state []int64, cost, at int64) (write bool) {
	if at < v.start || at >= v.end {
		return false
	}
	v.used -= min(cost, v.used)
	w.write(v, state, 0)
	return true
}

func checkLimit(policy fmt.Stringer, n, most int64) error {
	switch {
	case n < 1:
		return invalid(policy, "Limit", "at least 1: how much is admitted in a window")
	case n > most:
		return invalid(policy, "Limit", fmt.Sprintf("at most %d", most))
	}
	return nil
}

func checkWindow(policy fmt.Stringer, d time.Duration) error {
	if err := checkSpan(policy, "Window", d); err != nil {
		return err
	}
	if d.Microseconds() > maxTerm {
		return invalid(policy, "Window", fmt.Sprintf("at most %v", micros(maxTerm)))
	}
	return nil
}
