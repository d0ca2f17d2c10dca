package engine

import (
	"fmt"
	"time"
)

// ClockTolerance is the H of the clock rules: how far a clock may swing back
// and forth without admitting one unit more, and how far ahead of a clock that
// was set back further state is believed before it is healed.
const ClockTolerance = 60 * time.Second

const (
	// maxTerm bounds products and spans of time in microseconds. Sums of up to
	// four of them stay within 2⁵³, up to which Go's int64 and the doubles of Lua
	// and JavaScript agree to the bit.
	maxTerm = int64(1) << 51

	// healAfter is the H of the clock rules, in microseconds. A clock that
	// swings back by up to H is ridden out: what was used stays used, so that no
	// time is credited twice. State further ahead than that means that the clock
	// was set back; it is healed to a full use from now, so that nobody is locked
	// out for as long as the step.
	healAfter = int64(ClockTolerance / time.Microsecond)
)

// gcd is the greatest common divisor of two positive numbers.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// ceilDiv is ⌈a/b⌉ for a ≥ 0 and b ≥ 1, a + b within int64.
func ceilDiv(a, b int64) int64 {
	if b == 1 {
		return a
	}
	return (a + b - 1) / b
}

// floorDiv is ⌊a/b⌋ for a ≥ 0 and b ≥ 1.
func floorDiv(a, b int64) int64 {
	if b == 1 {
		return a
	}
	return int64(uint64(a) / uint64(b))
}

// invalid says which field of a policy is wrong and what would be right.
func invalid(policy fmt.Stringer, field, right string) error {
	return fmt.Errorf("limit: %v: %s must be %s", policy, field, right)
}

// checkSpan checks a duration that a policy counts in.
func checkSpan(policy fmt.Stringer, field string, d time.Duration) error {
	switch {
	case d < time.Millisecond:
		return invalid(policy, field, "at least 1ms; for a higher rate raise the number instead of shortening the time")
	case d%time.Microsecond != 0:
		return invalid(policy, field, "a whole number of microseconds")
	}
	return nil
}
