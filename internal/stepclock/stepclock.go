// Package stepclock gives a process that a test starts a calendar clock that the test
// steps, as NTP or an operator steps the clock of a machine. The process is the real
// one, and runs as it does in production: a small library that is preloaded moves what
// the C library answers. On other systems than Linux the test is skipped.
package stepclock

import (
	"sync/atomic"
	"time"
)

// Clock is the clock of one process. Its methods may be used by any number of
// goroutines.
type Clock struct {
	library, file string
	offset        *atomic.Int64 // shared with the process, in nanoseconds
}

// Step moves the clock by d, forwards or backwards. The process sees it the next time it
// reads its clock.
func (c *Clock) Step(d time.Duration) { c.offset.Add(int64(d)) }

// Offset is how far the clock is ahead of that of the machine.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Files are those that the process reads.
func (c *Clock) Files() []string { return []string{c.library, c.file} }

// Env is what the environment of the process needs.
func (c *Clock) Env() []string {
	return []string{"LD_PRELOAD=" + c.library, "WSKIT_CLOCK=" + c.file}
}
