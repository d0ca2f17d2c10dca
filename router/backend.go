package router

import (
	"fmt"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/internal/leasecheck"
	"github.com/wskit/wskit/pubsub"
)

// Backend is that of Options, with the parts in memory that it leaves open, but for Limits and Broker: for a package that
// keeps something beside the router. Options.Backend may be closed by [Router.Serve].
func (r *Router) Backend() adapters.Backend { return r.opts.Backend }

// withMemory keeps in memory what a Backend leaves open, but for the broker: without one, topics need none of its
// work, see historyLog.
func withMemory(b adapters.Backend) (adapters.Backend, error) {
	shared, ok := b.Presence.(pubsub.SharedPresence)
	if b.Presence != nil && (b.Broker == nil && b.Shared || ok && shared.Shared() && staysInProcess(b.Broker)) {
		return b, fmt.Errorf("router: Options.Backend has the Presence %T, which other processes share, and no Broker that they share: members would be listed whom nothing reaches; set Broker, or set Presence to memory.NewPresence()", b.Presence)
	}
	var err error
	if b.ProcessTimeout, err = leasecheck.Timeout("router", "Options.Backend", b.ProcessTimeout); err != nil {
		return b, err
	}
	if b.Presence == nil {
		b.Presence = memory.NewPresence()
	}
	if b.Idempotency == nil {
		b.Idempotency = memory.NewIdempotency()
	}
	return b, nil
}

// staysInProcess reports whether no other process gets what is published with this broker, which may be nil.
func staysInProcess(b pubsub.Broker) bool {
	_, inMemory := b.(memory.Broker)
	return b == nil || inMemory
}
