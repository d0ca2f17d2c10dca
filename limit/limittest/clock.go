package limittest

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that only a test moves, for [Subject], and for tests of an application's limits,
// which then need not sleep. Give it to the memory store:
//
//	clock := limittest.NewClock()
//	store := memory.NewStore(memory.Options{Now: clock.Now})
//
// A limit over that store then refuses and admits by the clock, exactly, for as long as the test
// does not move it. The test of a whole server gives its router the same limits over that store,
// see the example. The clock is that of limits alone: connections, handlers and the delays of a
// [limit.Pacer] use the time of the process.
//
// Its methods may be called concurrently.
type Clock struct{ micros atomic.Int64 }

// NewClock returns a clock set to an instant in 2026.
func NewClock() *Clock {
	c := &Clock{}
	c.set(epoch)
	return c
}

// epoch is 2026-11-21T00:00:00.000007Z, deliberately not a whole second.
const epoch = 1_795_219_200_000_007

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.instant()) }

// instant returns the time of the clock in microseconds since the Unix epoch.
func (c *Clock) instant() int64 { return c.micros.Load() }

// set sets the clock to an instant, in microseconds since the Unix epoch.
func (c *Clock) set(micros int64) { c.micros.Store(micros) }

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) { c.micros.Add(d.Microseconds()) }
