package router

import "time"

// DetachHandlers moves the watchdog on by two ticks: every handler that runs is detached,
// and its connection is read by another goroutine.
func DetachHandlers(r *Router) {
	r.watchdog.Look()
	r.watchdog.Look()
}

// StepClock has the identity of a connection expire as if the wall clock had been set forward by
// d: the wheel does not know of it.
func StepClock(c *Conn, d time.Duration) {
	id := *c.identity.Load()
	id.ExpiresAt = id.ExpiresAt.Add(-d)
	c.identity.Store(&id)
}

// HoldWatchdog keeps the watchdog from looking at connections, until release is called.
func HoldWatchdog(r *Router) (release func()) {
	return r.watchdog.Hold()
}
