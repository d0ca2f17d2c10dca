package limit

import (
	"fmt"
	"time"

	"github.com/wskit/wskit/internal/engine"
)

// Calendar admits Limit in every day, week or month of a location: "10,000 a month, from
// the first in Berlin". A day begins at the first instant of its date there, so days in
// which clocks are moved have 23 or 25 hours. For windows of equal length use [FixedWindow].
//
// All stores decide by the tables of time zones that this process has. A store with a clock
// of its own returns an error if that differs by more than a day.
type Calendar struct {
	// Limit is how much is admitted in a Period, at least 1.
	Limit int64
	// Period is Day, Week or Month. It has no default.
	Period Period
	// Location is one of time.LoadLocation or time.FixedZone. Default: UTC. It cannot be time.Local, which differs
	// between machines. Where no tables of time zones are installed, import _ "time/tzdata".
	Location *time.Location
}

// Period is a unit of the calendar: see [Calendar].
type Period int

// The periods of a [Calendar].
const (
	Day   Period = iota + 1
	Week         // from Monday on
	Month        // from the first on
)

var periods = [...]string{Day: "day", Week: "week", Month: "month"}

// String returns "day", "week" or "month".
func (p Period) String() string {
	if p < Day || p > Month {
		return fmt.Sprintf("Period(%d)", int(p))
	}
	return periods[p]
}

// String returns "calendar(Limit/Period,Location)".
func (c Calendar) String() string {
	return fmt.Sprintf("calendar(%d/%v,%v)", c.Limit, c.Period, c.Location)
}

func (c Calendar) compile() (*engine.Plan, error) {
	switch c.Period {
	case Day:
		return engine.Calendar(c, c.Limit, 1, 0, c.Location)
	case Week:
		return engine.Calendar(c, c.Limit, 7, 0, c.Location)
	case Month:
		return engine.Calendar(c, c.Limit, 0, 1, c.Location)
	}
	return nil, fmt.Errorf("limit: %v: Period must be Day, Week or Month", c)
}
