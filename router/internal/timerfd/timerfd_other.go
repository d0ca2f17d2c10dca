//go:build !linux

package timerfd

import "time"

// Timer cannot sleep here.
type Timer struct{}

// Sleep reports false, at once.
func (*Timer) Sleep(time.Duration) bool { return false }
