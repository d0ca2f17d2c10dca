//go:build !linux

package router

import "time"

// nap is what Linux has a better way for than time.Sleep.
type nap struct{}

func (*nap) sleep(time.Duration) bool { return false }
