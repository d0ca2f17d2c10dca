package engine

import "time"

// An Answer is the decision about a cost. It has the same fields as limit.Decision, where
// they are documented. A pointer to one converts to a pointer to the other.
type Answer struct {
	Allowed    bool
	Impossible bool
	Shadowed   bool
	Shared     bool
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration
	Wait       time.Duration
	ResetAfter time.Duration
	Policy     string
	Charged    int64
	At         int64
}

// micros is a duration of n microseconds.
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
