package errors

import "time"

// An Outage is what the hooks named OnOutage are called with: once when something that an
// application needs over the network begins to fail, and once when it works again.
type Outage struct {
	// Component is what fails: "store" (of a limiter), "subscription", "publish" or
	// "presence".
	Component string
	// Name tells components of one kind apart: the name of the limiter, the prefix of a
	// broker or a presence.
	Name string
	// Err is the failure that the outage began with. Its text names addresses and never
	// a password.
	Err error
	// Since is when the outage began.
	Since time.Time
	// Over says that the component works again.
	Over bool
}
