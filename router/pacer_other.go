//go:build !unix

package router

import "time"

// look is a look at the network by Go's scheduler.
type look struct{}

// await leaves the CPU to others for a moment.
func (*look) await() { time.Sleep(pacerSlice) }
