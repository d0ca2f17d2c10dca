package idempotencytest

import "time"

// SetTimeLimit sets how long the suite waits for an event before it fails.
func SetTimeLimit(d time.Duration) { timeLimit = d }
