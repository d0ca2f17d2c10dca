package errors

import "time"

// An Outage is the argument of the hooks named OnOutage. They are called once when a component
// that is used over the network begins to fail, and once when it works again.
type Outage struct {
	// Component is the kind of the component: "store" (of a limiter), "subscription", "publish" and "log"
	// (of a broker), "presence" or "idempotency".
	Component string
	// Name distinguishes components of one kind: the name of the limiter, the prefix of a
	// broker or a presence.
	Name string
	// Err is the first failure. Its text may contain addresses, and never a password.
	Err error
	// Since is when the outage began.
	Since time.Time
	// Over is true when the component works again.
	Over bool
}
