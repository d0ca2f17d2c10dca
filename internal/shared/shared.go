// Package shared is what runs and webhooks use of the backend of a router, so that their processes share it.
package shared

import (
	"fmt"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
)

// Backend is what is used of a backend.
type Backend struct {
	Log            pubsub.Log
	Presence       pubsub.PresenceWatcher
	Limits         Limits
	ProcessTimeout time.Duration
}

// Limits is a store of limits with leases.
type Limits interface {
	limit.Store
	limit.LeaseStore
}

// Of returns what a package uses of a backend, or an error that says what it lacks. What a backend of one process leaves
// out is in memory.
func Of(pkg string, b adapters.Backend) (s Backend, err error) {
	if !b.Shared {
		if b.Broker == nil {
			b.Broker = memory.NewBroker()
		}
		if b.Limits == nil {
			b.Limits = memory.NewStore()
		}
	}
	var ok [3]bool
	s.ProcessTimeout = b.ProcessTimeout
	s.Log, ok[0] = b.Broker.(pubsub.Log)
	s.Presence, ok[1] = b.Presence.(pubsub.PresenceWatcher)
	s.Limits, ok[2] = b.Limits.(Limits)
	if ok != [...]bool{true, true, true} {
		return s, fmt.Errorf("%s: the router's Backend has the Broker %T, the Presence %T and the Limits %T; "+
			"use a pubsub.Log, a pubsub.PresenceWatcher and a limit.LeaseStore, such as those of redis.Open",
			pkg, b.Broker, b.Presence, b.Limits)
	}
	return s, nil
}
