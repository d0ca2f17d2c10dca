package engine

import (
	"fmt"
	"sync/atomic"
	"time"
)

// calendar says where the days, weeks or months of a location begin: at the first instant
// whose local date is their first day, or a later one. That is midnight, unless clocks are
// moved then.
//
// It may be used concurrently.
type calendar struct {
	days, months int // the length of a window: 1 day, 7 days from Monday on, or 1 month
	location     *time.Location
	latest       atomic.Pointer[[4]int64] // the latest answer of starts: most questions are about one window
}

// maxOffset is more than any location's distance from UTC, in seconds.
const maxOffset = 26 * 60 * 60

// A window is the time from start to before end.
type window struct{ start, end int64 }

// Calendar makes the plan of a limit.Calendar, whose windows are a number of days (1, or 7
// from Monday on) or 1 month.
func Calendar(policy fmt.Stringer, limit int64, days, months int, location *time.Location) (*Plan, error) {
	if err := checkLimit(policy, limit, maxTerm); err != nil {
		return nil, err
	}
	if location == nil {
		location = time.UTC
	}
	if location == time.Local {
		return nil, invalid(policy, "Location", "one of time.LoadLocation: time.Local differs between machines")
	}
	if _, offset := time.Unix(0, 0).In(location).Zone(); offset < -maxOffset || offset > maxOffset {
		return nil, invalid(policy, "Location", "at most 26 hours from UTC")
	}
	plan := newPlan(policy, kindFixed, "f", 2, limit)
	c := &calendar{days: days, months: months, location: location}
	plan.fixed, plan.late = fixed{calendar: c, limit: limit}, true
	return plan, nil
}

// window is the window of an instant.
func (c *calendar) window(now int64) window {
	starts := c.starts(now)
	return window{starts[1], starts[2]}
}

// starts are the starts of the windows before the one of now, of it, and of the two after it.
func (c *calendar) starts(now int64) *[4]int64 {
	if starts := c.latest.Load(); starts != nil && starts[1] <= now && now < starts[2] {
		return starts
	}
	current := c.find(now)
	starts := &[4]int64{c.find(current.start - 1).start, current.start, current.end, c.find(current.end).end}
	c.latest.Store(starts)
	return starts
}

// find computes the window of an instant.
func (c *calendar) find(now int64) window {
	year, month, day := time.UnixMicro(now).In(c.location).Date()
	if c.months > 0 {
		day = 1
	} else if c.days == 7 {
		day -= (int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday()) + 6) % 7 // to Monday
	}
	w := window{start: c.begin(year, month, day)}
	for {
		month, day = month+time.Month(c.months), day+c.days
		if w.end = c.begin(year, month, day); now < w.end {
			return w
		}
		w.start = w.end // clocks were moved back across midnight: the next date has begun already
	}
}

// begin is the first instant at which the date in the location is the given one or later.
func (c *calendar) begin(year int, month time.Month, day int) int64 {
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	at := midnight.Add(-maxOffset * time.Second).In(c.location)
	for {
		_, offset := at.Zone()
		_, end := at.ZoneBounds()
		begin := midnight.Add(-time.Duration(offset) * time.Second)
		if begin.Before(at) {
			begin = at // midnight was skipped
		}
		if end.IsZero() || begin.Before(end) {
			return begin.UnixMicro()
		}
		at = end
	}
}
