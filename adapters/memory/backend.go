package memory

import "github.com/wskit/wskit/adapters"

// New makes all that a router keeps outside of itself, in this process: what router.Options{} has, and limits. It needs
// no Close.
func New() adapters.Backend {
	return adapters.Backend{
		Limits: NewStore(), Broker: NewBroker(), Presence: NewPresence(),
		Idempotency: NewIdempotency(),
	}
}
