package limit

import "time"

// A Decision is the answer to a cost. It holds integers only, and later
// versions only add fields.
type Decision struct {
	// Allowed says that the cost was charged.
	Allowed bool
	// Impossible says that the cost can never fit: retrying never helps, and
	// RetryAfter is 0.
	Impossible bool
	// Shadowed says that this would be a denial if the limiter were not
	// in shadow mode: Allowed is then true and nothing was charged, and
	// RetryAfter and Impossible are those of the denial.
	Shadowed bool
	// Shared says that the cost was charged to a state that the key shares with others,
	// because the store had no room for one of its own. Refund needs it.
	Shared bool
	// Limit is the largest cost that the policy in Policy can admit.
	Limit int64
	// Remaining is how many whole units are left, never negative.
	Remaining int64
	// RetryAfter is 0 when allowed. Otherwise it is the exact shortest wait: with
	// no other traffic the same cost is admitted after it, and not a microsecond
	// earlier.
	RetryAfter time.Duration
	// Wait is how long to delay what was allowed. Only a [Pacer] sets it;
	// under any other policy it is 0.
	Wait time.Duration
	// ResetAfter is the time after which all that was used has come back: the state
	// then equals that of a subject never seen.
	ResetAfter time.Duration
	// Policy names the policy that decided: the one that denied or, when allowed,
	// the one that has the least left.
	Policy string
	// Charged is what the store took and can give back: the cost when it was
	// charged, or else 0, also when a failure policy decided in place of the store. At is
	// the instant of the decision by the clock of the store that decided, in
	// microseconds since the Unix epoch. Refund needs both.
	Charged int64
	At      int64
}

// A Forecast says when a cost fits, without charging it.
type Forecast struct {
	// Fits is how many such costs fit now, one after the other.
	Fits int64
	// NextAfter is how long until one fits: 0 when one does now, and when none
	// ever will: then Impossible is true.
	NextAfter  time.Duration
	Impossible bool
	// FullAfter is how long until all that was used has come back.
	FullAfter time.Duration
	// Policy names the policy that has the least room.
	Policy string
}

// Forecast says how often a cost fits now, and when it fits next. d is the decision of
// [Limiter.Peek] with the same cost. A cost below 1 counts as 1, because nothing can be charged less.
// For an [All], it is the forecast of the policy with the least room.
func (d *Decision) Forecast(cost int64) Forecast {
	f := Forecast{NextAfter: d.RetryAfter, Impossible: d.Impossible, FullAfter: d.ResetAfter, Policy: d.Policy}
	if d.Allowed && !d.Shadowed {
		f.Fits = d.Remaining / max(1, cost)
	}
	return f
}
