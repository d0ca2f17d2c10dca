package engine

import (
	"fmt"
	"time"
)

// ClockTolerance is the H of the clock rules. A clock may jump back and forth by this
// much without one extra unit being admitted. A state that is further ahead of the clock
// is corrected.
const ClockTolerance = 60 * time.Second

const (
	// maxTerm bounds products and spans of time in microseconds. Sums of up to
	// four of them stay within 2⁵³, up to which Go's int64 and the doubles of Lua
	// and JavaScript agree to the bit.
	maxTerm = int64(1) << 51

	// correctAfter is the H of the clock rules, in microseconds. When the clock jumps
	// back by up to H, states stay as they are, so that no time is credited twice. A
	// state further ahead means that the clock was set back for good. It is corrected to
	// "all used now"; otherwise the key would be denied for as long as the clock jumped.
	correctAfter = int64(ClockTolerance / time.Microsecond)
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

// invalid returns an error that names the wrong field of a policy and the allowed values.
func invalid(policy fmt.Stringer, field, right string) error {
	return fmt.Errorf("limit: %v: %s must be %s", policy, field, right)
}

// checkSpan checks a duration of a policy.
func checkSpan(policy fmt.Stringer, field string, d time.Duration) error {
	switch {
	case d < time.Millisecond:
		return invalid(policy, field, "at least 1ms; for a higher rate raise the number instead of shortening the time")
	case d%time.Microsecond != 0:
		return invalid(policy, field, "a whole number of microseconds")
	}
	return nil
}
