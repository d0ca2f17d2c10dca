package router

// DetachHandlers moves the watchdog on by two ticks: every handler that runs is detached,
// and its connection is read by another goroutine.
func DetachHandlers(r *Router) {
	r.watchdog.look()
	r.watchdog.look()
}
