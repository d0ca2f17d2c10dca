// Package ceil rounds waits up, so that a client that waits for that long is never
// early.
package ceil

import "time"

// Div returns d in whole units, rounded up, and 0 for d ≤ 0.
func Div(d, unit time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	n := int64(d / unit)
	if d%unit != 0 {
		n++
	}
	return n
}
