//go:build !unix

package fairness

import "time"

// netpoll has Go's scheduler poll the network.
type netpoll struct{}

// await leaves the CPU to others for a moment.
func (*netpoll) await() { time.Sleep(slice) }
